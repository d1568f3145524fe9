"""Rules on where a model runs: instance types, counts, scaling and time-outs."""

from __future__ import annotations

from collections.abc import Iterator

from serving.spec.hosting import HostingMode
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ENDPOINT_API
from serving.spec.runtime import VllmRuntime


def device_fits_the_instance(model: ModelSpec) -> Iterator[Finding]:
    """A GPU model needs a GPU instance; there is no 2xA100 instance type, only p4d/p4de with eight."""
    yield from instance_findings(model, "hosting.instance_type", model.hosting.instance_type)


def instance_findings(model: ModelSpec, key: str, got: str) -> Iterator[Finding]:
    """Say what is wrong with an instance type, wherever it is named."""
    wants = isinstance(model.runtime, VllmRuntime) or model.runtime.device == "gpu"
    if wants and not got.startswith(("ml.g", "ml.p")):
        yield key, got, "an ml.g* or ml.p* type", "choose a GPU type", ""
    if not got.startswith("ml."):
        yield key, got, "an ml.* type", "prefix it", ENDPOINT_API


def counts_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """A plain real-time variant cannot scale to zero: only async endpoints and inference components can."""
    hosting = model.hosting
    lowest = 0 if hosting.mode is not HostingMode.REALTIME else 1
    if hosting.min_count < lowest:
        source = "AWS endpoint-auto-scaling-zero-instances"
        yield "hosting.min_count", str(hosting.min_count), f"at least {lowest}", "use mode async or components", source
    if hosting.max_count < max(1, hosting.min_count):
        allowed = f"at least {max(1, hosting.min_count)}"
        yield "hosting.max_count", str(hosting.max_count), allowed, "raise it", ""
    target = hosting.scaling.target_concurrency
    if target is not None and target <= 0:
        got = f"{target:g}"
        yield "hosting.scaling.target_concurrency", got, "above 0", "set what one instance carries", ""


def timeouts_are_in_range(model: ModelSpec) -> Iterator[Finding]:
    """SageMaker takes 60 to 3,600 s for start-up and download."""
    for key in ("startup_timeout_s", "download_timeout_s"):
        value = getattr(model.hosting, key)
        if not 60 <= value <= 3600:  # noqa: PLR2004 # AWS's own range, said in the docstring
            yield f"hosting.{key}", str(value), "60 to 3600", "correct it", ENDPOINT_API


RULES: tuple[Rule, ...] = (
    device_fits_the_instance,
    counts_are_legal,
    timeouts_are_in_range,
)
