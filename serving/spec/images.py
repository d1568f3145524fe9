"""Which container image runs a model: AWS Deep Learning Containers by a committed table, or a stage's own by digest.

`scripts/image_table.py` writes `data/images.json` out of the SageMaker Python SDK; a test compares (docs/adr/0019).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from serving.spec.codec import from_json
from serving.spec.model import ModelSpec
from serving.spec.runtime import VllmRuntime
from serving.spec.stage import StageSpec

# Newest CUDA that the driver of each host image runs (API reference, *ProductionVariant.InferenceAmiVersion*; minor
# versions of one major run on one driver: NVIDIA CUDA compatibility guide).
AMI_CUDA_MAJOR: Mapping[str, int] = {
    "al2-ami-sagemaker-inference-gpu-2": 12,
    "al2-ami-sagemaker-inference-gpu-2-1": 12,
    "al2-ami-sagemaker-inference-gpu-3-1": 12,
    "al2023-ami-sagemaker-inference-gpu-4-1": 13,
}
_AMI_OF_CUDA: Mapping[int, str] = {
    12: "al2-ami-sagemaker-inference-gpu-3-1",
    13: "al2023-ami-sagemaker-inference-gpu-4-1",
}

_BY_DIGEST = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/"
    r"(?P<repository>[a-z0-9]+(?:[._/-][a-z0-9]+)*)(?P<reference>@sha256:[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTag:
    """One tag; `cuda_major` is None on a CPU, `regions` are those whose registry has it."""

    tag: str
    cuda_major: int | None
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFamily:
    """The images of one key, newest first: the first is the default."""

    repository: str
    tags: tuple[ImageTag, ...]

    def find(self, tag: str) -> ImageTag | None:
        """Give a tag's row, None where the table has no such tag."""
        return next((row for row in self.tags if row.tag == tag), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTable:
    """What the committed file holds: the registries' account in each region, and the images by key."""

    registries: dict[str, str]
    images: dict[str, ImageFamily]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """One image of a region's registry; `ami` is the InferenceAmiVersion its CUDA needs, None on a CPU."""

    account: str
    region: str
    repository: str
    reference: str
    ami: str | None

    @property
    def uri(self) -> str:
        """The image as SageMaker takes it."""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com/{self.repository}{self.reference}"

    @property
    def repository_arn(self) -> str:
        """The repository, to grant pulling from it."""
        return f"arn:aws:ecr:{self.region}:{self.account}:repository/{self.repository}"


@cache
def image_table() -> ImageTable:
    """Give the committed table."""
    return from_json(files("serving.spec").joinpath("data/images.json").read_bytes(), ImageTable)


def image_key(model: ModelSpec) -> str:
    """Give the key of a model's image in the table and in a stage's `image_tags` and `images`."""
    runtime = model.runtime
    return runtime.container if isinstance(runtime, VllmRuntime) else f"{runtime.kind}-{runtime.device}"


def needs_gpu(key: str) -> bool:
    """Tell whether the images of a key run on a GPU."""
    return any(row.cuda_major is not None for row in image_table().images[key].tags)


def pinned_image(model: ModelSpec) -> str:
    """Give `repository:tag` of the image a package is made for."""
    family = image_table().images[image_key(model)]
    return f"{family.repository}:{family.tags[0].tag}"


def by_digest(uri: str, *, ami: str | None) -> ContainerImage | None:
    """Read `ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY@sha256:DIGEST`; None where it is not of that form."""
    found = _BY_DIGEST.fullmatch(uri)
    return None if found is None else ContainerImage(**found.groupdict(), ami=ami)


def tagged(key: str, tag: ImageTag, *, region: str) -> ContainerImage:
    """Give an image of the table in a region that has it."""
    table = image_table()
    return ContainerImage(
        account=table.registries[region],
        region=region,
        repository=table.images[key].repository,
        reference=f":{tag.tag}",
        ami=None if tag.cuda_major is None else _AMI_OF_CUDA[tag.cuda_major],
    )


def chosen_tag(key: str, stage: StageSpec) -> ImageTag | None:
    """Give the tag that a stage runs: its own of `image_tags`, else the newest; None where the table lacks it."""
    family = image_table().images[key]
    own = stage.image_tags.get(key)
    return family.tags[0] if own is None else family.find(own)


def image_in(key: str, stage: StageSpec) -> ContainerImage | None:
    """Give the image of a key in a stage: its own by digest, else by tag; None where that stands for no image there."""
    own = stage.images.get(key)
    if own is not None:
        return by_digest(own.uri, ami=own.ami)
    tag = chosen_tag(key, stage)
    return None if tag is None or stage.region not in tag.regions else tagged(key, tag, region=stage.region)
