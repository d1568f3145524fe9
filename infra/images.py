"""Which container runs a model in a stage, for templates: what breaks a rule is refused as `check` refuses it."""

from __future__ import annotations

from serving.errors import Problem, SpecError
from serving.spec import ModelSpec, StageSpec
from serving.spec.images import ContainerImage, by_digest, chosen_tag, image_key, tagged
from serving.spec.rules.images import image_findings

__all__ = ["ContainerImage", "image_of"]


def image_of(model: ModelSpec, stage: StageSpec) -> ContainerImage:
    """Choose the image of a model: the stage's own of `images`, its tag of `image_tags`, else the newest of the table.

    Raises:
        SpecError: the region has no registry, a tag or digest stands for no usable image.

    """
    key = image_key(model)
    problems = [Problem(f"stages/{stage.name}.toml", *found) for found in image_findings(stage, keys=(key,))]
    if problems:
        raise SpecError(tuple(problems))
    own = stage.images.get(key)
    image = by_digest(own.uri, ami=own.ami) if own is not None else None
    if image is not None:
        return image
    tag = chosen_tag(key, stage)
    assert tag is not None  # noqa: S101 # image_findings refused it above
    return tagged(key, tag, region=stage.region)
