"""Rules on instance types: they exist, hold what the runtime needs, and take the disks and keys of a spec."""

from __future__ import annotations

from collections.abc import Iterator

from serving.spec.hosting import HostingMode
from serving.spec.instances import InstanceType, instance_types, nearest
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ENDPOINT_API, VARIANT_API
from serving.spec.runtime import VllmRuntime

_VOLUME_GB = range(1, 513)


def named_types(model: ModelSpec) -> Iterator[tuple[str, str]]:
    """Give key and name of every instance type that a model names."""
    hosting = model.hosting
    yield "hosting.instance_type", hosting.instance_type
    if hosting.batch is not None and hosting.batch.instance_type is not None:
        yield "hosting.batch.instance_type", hosting.batch.instance_type


def wants_gpu(model: ModelSpec) -> bool:
    """Tell whether the runtime of a model runs on a GPU."""
    return isinstance(model.runtime, VllmRuntime) or model.runtime.device == "gpu"


def types_exist(model: ModelSpec) -> Iterator[Finding]:
    """SageMaker hosts the types of its enum and no others; no instance has two A100: p4d and p4de have eight."""
    for key, name in named_types(model):
        yield from unknown_type(key, name)


def unknown_type(key: str, name: str) -> Iterator[Finding]:
    """Say that a name is no type, and which are like it."""
    if name not in instance_types():
        allowed = f"a type that SageMaker hosts, such as {', '.join(nearest(name))}"
        yield key, repr(name), allowed, "correct it", VARIANT_API


def types_have_the_device(model: ModelSpec) -> Iterator[Finding]:
    """A GPU model needs a GPU; the images are built for x86-64 and start on no Graviton."""
    for key, name in named_types(model):
        if found := instance_types().get(name):
            yield from wrong_device(model, key, found)


def wrong_device(model: ModelSpec, key: str, found: InstanceType) -> Iterator[Finding]:
    """Say what a type lacks of what the runtime needs."""
    if wants_gpu(model) and found.gpus == 0:
        yield key, f"{found.name}, without a GPU", "a type with a GPU (ml.g*, ml.p*)", "choose a GPU type", VARIANT_API
    if found.arm:
        yield key, f"{found.name}, arm64", "an x86-64 type", "choose one without a g after its generation", VARIANT_API


def tensor_parallel_fits_the_type(model: ModelSpec) -> Iterator[Finding]:
    """A model split over N GPUs needs N in one instance, whatever two A100 would have cost."""
    runtime = model.runtime
    if not isinstance(runtime, VllmRuntime) or model.hosting.mode is HostingMode.COMPONENTS:
        return
    for key, name in named_types(model):
        found = instance_types().get(name)
        if found is not None and 0 < found.gpus < runtime.tensor_parallel:
            allowed = f"a type with {runtime.tensor_parallel} or more (runtime.tensor_parallel)"
            yield key, f"{name}, {found.gpus} GPU", allowed, "choose a larger type", "vLLM, tensor-parallel-size"


def volume_is_sized_where_there_is_one(model: ModelSpec) -> Iterator[Finding]:
    """A volume has 1 to 512 GB, and none is sized on types with disks of their own."""
    size_gb = model.hosting.volume_gb
    if size_gb is None:
        return
    if size_gb not in _VOLUME_GB:
        yield "hosting.volume_gb", str(size_gb), "1 to 512", "correct it", VARIANT_API
    found = instance_types().get(model.hosting.instance_type)
    if found is not None and found.has_local_nvme:
        got = f"a size on {found.name}, which has {found.nvme_gb} GB of NVMe"
        yield "hosting.volume_gb", got, "nothing there", "leave it out", "AWS large-model-inference-hosting"


def burstable_types_do_not_scale(model: ModelSpec) -> Iterator[Finding]:
    """Application Auto Scaling takes no burstable (T) types; counts must then be equal."""
    hosting = model.hosting
    found = instance_types().get(hosting.instance_type)
    if found is not None and found.burstable and hosting.min_count != hosting.max_count:
        got = f"{found.name} with {hosting.min_count} to {hosting.max_count} instances"
        source = "AWS endpoint-auto-scaling-prerequisites"
        yield "hosting.instance_type", got, "a type that is not burstable", "choose ml.m* or ml.c*", source


def key_is_possible(model: ModelSpec) -> Iterator[Finding]:
    """CreateEndpointConfig refuses a KmsKeyId for types with local NVMe disks: their hardware has its own key."""
    if model.hosting.volume_key != "required":
        return
    for key, name in named_types(model):
        found = instance_types().get(name)
        if found is not None and found.has_local_nvme:
            got = f'{name}, whose NVMe disks take no key of ours, with volume_key = "required"'
            yield key, got, "a type without local disks", 'choose one, or say "where-possible"', ENDPOINT_API


RULES: tuple[Rule, ...] = (
    types_exist,
    types_have_the_device,
    tensor_parallel_fits_the_type,
    volume_is_sized_where_there_is_one,
    burstable_types_do_not_scale,
    key_is_possible,
)
