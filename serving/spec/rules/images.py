"""Rules on the container images of a stage: known, in its region, and with the host image that their CUDA needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from serving.spec.images import AMI_CUDA_MAJOR, by_digest, chosen_tag, image_table, needs_gpu
from serving.spec.rules.finding import Finding
from serving.spec.stage import ImageOverride, StageSpec

_AMI_API = "AWS API_ProductionVariant, InferenceAmiVersion"
_IMAGE_API = "AWS API_ContainerDefinition, Image"


def image_findings(stage: StageSpec, *, keys: Collection[str]) -> Iterator[Finding]:
    """Give what is wrong with a stage's images; `keys` are those that its models run."""
    yield from keys_are_known(stage)
    yield from region_has_a_registry(stage)
    for key in sorted({*keys, *stage.image_tags} & image_table().images.keys()):
        yield from tag_is_in_the_region(stage, key)
    for key, own in stage.images.items():
        if key in image_table().images:
            yield from digest_is_whole(stage, key, own)
            yield from host_image_fits(key, own)


def keys_are_known(stage: StageSpec) -> Iterator[Finding]:
    """An override stands for an image of the table, one way at a time."""
    known = image_table().images
    for section, named in (("image_tags", stage.image_tags), ("images", stage.images)):
        for key in sorted(named.keys() - known.keys()):
            yield f"{section}.{key}", "an unknown key", f"keys {', '.join(known)}", "correct it", ""
    for key in sorted(stage.image_tags.keys() & stage.images.keys()):
        yield f"image_tags.{key}", "a tag beside a digest", "one of image_tags, images", "leave one out", ""


def region_has_a_registry(stage: StageSpec) -> Iterator[Finding]:
    """Deep Learning Containers are pulled from the region itself; other partitions have other domains and ARNs."""
    registries = image_table().registries
    if stage.region not in registries:
        allowed = f"a region of the partition aws: {', '.join(registries)}"
        yield "region", repr(stage.region), allowed, "choose one; China and GovCloud are not supported", _IMAGE_API


def tag_is_in_the_region(stage: StageSpec, key: str) -> Iterator[Finding]:
    """A tag that the region's registry lacks fails at CreateModel, long after synth."""
    if key in stage.images or stage.region not in image_table().registries:
        return
    tag = chosen_tag(key, stage)
    if tag is None or stage.region not in tag.regions:
        got = repr(stage.image_tags[key]) if key in stage.image_tags else f"the newest, not in {stage.region}"
        there = [row.tag for row in image_table().images[key].tags if stage.region in row.regions]
        fix = "choose one, or give an image by digest in images"
        yield f"image_tags.{key}", got, f"one of {', '.join(there)}", fix, "SageMaker Python SDK, image_uri_config"


def digest_is_whole(stage: StageSpec, key: str, own: ImageOverride) -> Iterator[Finding]:
    """A full image is pinned by digest and is in the registry of the stage's region."""
    image = by_digest(own.uri, ami=own.ami)
    if image is None:
        allowed = "ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY@sha256:DIGEST"
        yield f"images.{key}.uri", repr(own.uri), allowed, "give the whole image; a tag can move", _IMAGE_API
    elif image.region != stage.region:
        yield f"images.{key}.uri", f"a registry in {image.region}", stage.region, "copy the image there", _IMAGE_API


def host_image_fits(key: str, own: ImageOverride) -> Iterator[Finding]:
    """CUDA images need a host image whose driver runs them; the default's is too old. A CPU image has none."""
    place = f"images.{key}.ami"
    if not needs_gpu(key):
        if own.ami is not None:
            yield place, repr(own.ami), "nothing: the image runs on a CPU", "leave it out", _AMI_API
    elif own.ami not in AMI_CUDA_MAJOR:
        yield place, repr(own.ami), f"one of {', '.join(AMI_CUDA_MAJOR)}", "name the one its CUDA needs", _AMI_API
