"""Rules on a model in a stage: versions, region, names, and the endpoints beside the live one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from serving.spec.hosting import HostingMode
from serving.spec.instances import hosting_regions, instance_types
from serving.spec.manifest import LockedVersion
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding
from serving.spec.rules.instances import named_types, unknown_type, wrong_device
from serving.spec.rules.source import ENDPOINT_API, VARIANT_API
from serving.spec.stage import (
    SLOTS,
    StageModel,
    StageSpec,
    batch_endpoint_name,
    component_name,
    endpoint_name,
    shadow_endpoint_name,
)

_SAGEMAKER_NAME_CHARS = 63
_SHADOW_GUIDE = "AWS shadow-tests-exclusions"
_NO_ZERO_REGIONS = frozenset({"eu-west-3"})
_GIGABYTE = 1_000_000_000
_DEFAULT_VOLUME_GB = 30
_LARGE_GB = 40
_DEFAULT_DOWNLOAD_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A model in a stage: `model` as the stage deploys it, `own` as its file says, `locked` None with a broken lock."""

    stage: StageSpec
    entry: StageModel
    model: ModelSpec
    own: ModelSpec
    locked: Mapping[str, LockedVersion] | None

    @property
    def key(self) -> str:
        """Where the stage file says it."""
        return f"models.{self.own.name}"

    @property
    def versions(self) -> dict[str, str]:
        """Key → version, of the slots and of the shadow."""
        named = {f"{self.key}.versions.{slot}": getattr(self.entry.versions, slot) for slot in SLOTS}
        if self.entry.shadow is not None:
            named[f"{self.key}.shadow.version"] = self.entry.shadow.version
        return named


PlacedRule = Callable[[Placed], Iterable[Finding]]


def versions_are_locked(placed: Placed) -> Iterator[Finding]:
    """A stage names versions that the model has, and whose digests are committed."""
    for key, version in placed.versions.items():
        if version not in placed.own.versions:
            known = ", ".join(sorted(placed.own.versions))
            yield key, repr(version), f"one of {known}", f'add [versions."{version}"] or name another', ""
        elif placed.locked is not None and version not in placed.locked:
            fix = f"run streamhub package {placed.own.name} --version {version} --lock and commit the lock"
            yield key, f"{version}, whose digest is not locked", "a version in model.lock.json", fix, ""


def types_are_sold_in_the_region(placed: Placed) -> Iterator[Finding]:
    """A region hosts the types of its price list."""
    for key, name in _types(placed):
        found = instance_types().get(name)
        if found is not None and placed.stage.region in hosting_regions() - found.regions:
            where = ", ".join(sorted(found.regions)) or "none of the price lists"
            allowed = f"a type sold there; {name} is in {where}"
            yield key, f"{name} in {placed.stage.region}", allowed, "choose another type or region", "AWS price list"


def endpoint_names_are_short(placed: Placed) -> Iterator[Finding]:
    """Every endpoint and component of the model has a name of at most 63 characters."""
    stage, slug = placed.stage.name, placed.own.slug
    names = [endpoint_name(stage, slug)]
    if placed.own.hosting.mode is HostingMode.COMPONENTS:
        names += [component_name(stage, slug, slot) for slot in SLOTS]
    names += [batch_endpoint_name(stage, slug)] * (placed.entry.batch is not None)
    names += [shadow_endpoint_name(stage, slug)] * (placed.entry.shadow is not None)
    longest = max(names, key=len)
    if len(longest) > _SAGEMAKER_NAME_CHARS:
        got = f"{len(longest)} characters in {longest}"
        yield (
            placed.key,
            got,
            f"at most {_SAGEMAKER_NAME_CHARS}",
            "shorten the stage's or the model's name",
            ENDPOINT_API,
        )


def batch_is_described(placed: Placed) -> Iterator[Finding]:
    """A stage may deploy the batch endpoint that the model describes, and no other."""
    if placed.entry.batch is not None and placed.own.hosting.batch is None:
        fix = f"add the table to models/{placed.own.name}/model.toml"
        yield f"{placed.key}.batch", "a batch endpoint", "[hosting.batch] in the model's file", fix, ""


def copies_are_for_components(placed: Placed) -> Iterator[Finding]:
    """Copies are counted in the mode components only."""
    for name in ("min_copies", "max_copies"):
        if getattr(placed.entry, name) is not None and placed.own.hosting.component is None:
            got = f"{getattr(placed.entry, name)} in mode {placed.own.hosting.mode}"
            yield f"{placed.key}.{name}", got, "mode components", "use min_count and max_count", ""


def shadow_is_beside_a_realtime_model(placed: Placed) -> Iterator[Finding]:
    """A shadow variant is not for async endpoints, nor for inference components."""
    mode = placed.own.hosting.mode
    if placed.entry.shadow is not None and mode is not HostingMode.REALTIME:
        yield f"{placed.key}.shadow", f"a shadow in mode {mode}", "mode realtime", "leave it out", _SHADOW_GUIDE


def shadow_is_in_range(placed: Placed) -> Iterator[Finding]:
    """A shadow sees 1 to 100 percent of the requests on at least one instance of a type that the model runs on."""
    shadow, key = placed.entry.shadow, f"{placed.key}.shadow"
    if shadow is None:
        return
    if not 1 <= shadow.sampling_percent <= 100:  # noqa: PLR2004 # a percentage
        yield (
            f"{key}.sampling_percent",
            str(shadow.sampling_percent),
            "1 to 100",
            "correct it",
            "AWS shadow-tests-create",
        )
    if shadow.count < 1:
        yield f"{key}.count", str(shadow.count), "at least 1", "raise it", VARIANT_API
    if shadow.instance_type is not None:
        yield from unknown_type(f"{key}.instance_type", shadow.instance_type)
        if found := instance_types().get(shadow.instance_type):
            yield from wrong_device(placed.own, f"{key}.instance_type", found)


def zero_is_taken_by_the_region(placed: Placed) -> Iterator[Finding]:
    """Some regions take no managed fleet of zero instances: seen so far in eu-west-3."""
    hosting, region = placed.model.hosting, placed.stage.region
    if hosting.mode is HostingMode.COMPONENTS and hosting.min_count == 0 and region in _NO_ZERO_REGIONS:
        source = "measured: stdapi-ai/stdapi.ai#43"
        yield (
            f"{placed.key}.min_count",
            f"0 in {region}",
            "1 or more there",
            "raise it, or choose another region",
            source,
        )


def key_is_ours(placed: Placed) -> Iterator[Finding]:
    """A model that requires a key of ours is only in stages that have one."""
    if placed.own.hosting.volume_key == "required" and placed.stage.encryption != "customer-key":
        got = f'encryption = "{placed.stage.encryption}", where {placed.own.name} requires a key of ours'
        yield "encryption", got, '"customer-key"', "set it, or leave the model out", ENDPOINT_API


def archives_fit_the_disk(placed: Placed) -> Iterator[Finding]:
    """An archive and what is unpacked of it fit the NVMe disks or the volume, and are fetched in time."""
    found = instance_types().get(placed.model.hosting.instance_type)
    if found is None or placed.locked is None:
        return
    volume_gb = placed.model.hosting.volume_gb
    disk_gb = found.nvme_gb or (volume_gb if volume_gb is not None else _DEFAULT_VOLUME_GB)
    source = "AWS large-model-inference-hosting"
    for key, version in placed.versions.items():
        size_gb = placed.locked[version].size_bytes / _GIGABYTE if version in placed.locked else 0.0
        if size_gb * 2 > disk_gb:
            got = f"{version}, {size_gb:.0f} GB packed and as much unpacked"
            allowed = f"{disk_gb} GB, the disk of {found.name}"
            yield key, got, allowed, "set hosting.volume_gb, or choose a larger type", source
        if size_gb > _LARGE_GB and placed.model.hosting.download_timeout_s <= _DEFAULT_DOWNLOAD_S:
            got = f"{version}, {size_gb:.0f} GB in {placed.model.hosting.download_timeout_s} s"
            yield key, got, "a longer hosting.download_timeout_s above 40 GB", "raise it", source


def _types(placed: Placed) -> Iterator[tuple[str, str]]:
    for key, name in named_types(placed.model):
        yield f"{placed.key}.{key.removeprefix('hosting.')}", name
    if placed.entry.shadow is not None and placed.entry.shadow.instance_type is not None:
        yield f"{placed.key}.shadow.instance_type", placed.entry.shadow.instance_type


RULES: tuple[PlacedRule, ...] = (
    versions_are_locked,
    types_are_sold_in_the_region,
    endpoint_names_are_short,
    batch_is_described,
    copies_are_for_components,
    shadow_is_beside_a_realtime_model,
    shadow_is_in_range,
    zero_is_taken_by_the_region,
    key_is_ours,
    archives_fit_the_disk,
)
