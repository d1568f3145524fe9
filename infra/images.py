"""Which container runs a model in a stage, for templates: what breaks a rule is refused as `check` refuses it."""

from __future__ import annotations

from serving.errors import Problem, SpecError
from serving.spec import ModelSpec, StageSpec
from serving.spec.images import ContainerImage, image_in, image_key
from serving.spec.rules.images import image_findings

__all__ = ["ContainerImage", "image_of"]


def image_of(model: ModelSpec, stage: StageSpec) -> ContainerImage:
    """Choose the image of a model: the stage's own of `images`, its tag of `image_tags`, else the newest of the table.

    Raises:
        SpecError: the region has no registry, a tag or digest stands for no usable image.

    """
    key = image_key(model)
    image = image_in(key, stage)
    problems = [Problem(f"stages/{stage.name}.toml", *found) for found in image_findings(stage, keys=(key,))]
    if problems or image is None:
        raise SpecError(tuple(problems))
    return image
