"""Which container runs a model: AWS Deep Learning Containers by region, pinned tags, and the host AMI each needs."""

from __future__ import annotations

from dataclasses import dataclass

from serving.errors import Problem, SpecError
from serving.spec import ModelSpec, StageSpec, TritonRuntime
from serving.spec.images import REPOSITORIES, TAGS, image_key

# Registry accounts of the AWS Deep Learning Containers
# (SageMaker Python SDK, image_uri_config/sagemaker-tritonserver.json).
_ACCOUNTS = {
    "ap-northeast-1": "763104351884",
    "ap-south-1": "763104351884",
    "ap-southeast-1": "763104351884",
    "ap-southeast-2": "763104351884",
    "ca-central-1": "763104351884",
    "eu-central-1": "763104351884",
    "eu-north-1": "763104351884",
    "eu-west-1": "763104351884",
    "eu-west-2": "763104351884",
    "eu-west-3": "763104351884",
    "sa-east-1": "763104351884",
    "us-east-1": "763104351884",
    "us-east-2": "763104351884",
    "us-west-1": "763104351884",
    "us-west-2": "763104351884",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """One image of a region's registry; `ami` is the InferenceAmiVersion its CUDA needs, None on a CPU."""

    account: str
    region: str
    repository: str
    tag: str
    ami: str | None

    @property
    def uri(self) -> str:
        """The image as SageMaker takes it."""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com/{self.repository}:{self.tag}"

    @property
    def repository_arn(self) -> str:
        """The repository, to grant pulling from it."""
        return f"arn:aws:ecr:{self.region}:{self.account}:repository/{self.repository}"


# CUDA 13 needs driver 580, which only this AMI has (API reference, *ProductionVariant.InferenceAmiVersion*).
_TRITON_TAGS = {key: tag for key, tag in TAGS.items() if key.startswith("triton-")}
_CUDA_13_AMI = "al2023-ami-sagemaker-inference-gpu-4-1"


def image_of(model: ModelSpec, stage: StageSpec) -> ContainerImage:
    """Choose the image of a model; `image_tags` of the stage overrides a tag by its key (`triton-cpu`, `triton-gpu`).

    Raises:
        SpecError: the runtime has no image here, the region no registry, or a tag stands for no known image.

    """
    file = f"stages/{stage.name}.toml"
    account = _ACCOUNTS.get(stage.region)
    if account is None:
        allowed = f"one of {', '.join(sorted(_ACCOUNTS))}"
        raise SpecError((Problem(file, "region", repr(stage.region), allowed, "choose a region that has the images"),))
    if unknown := sorted(set(stage.image_tags) - set(_TRITON_TAGS)):
        allowed = f"keys {', '.join(sorted(_TRITON_TAGS))}"
        raise SpecError((Problem(file, f"image_tags.{unknown[0]}", "an unknown key", allowed, "correct it"),))
    if not isinstance(model.runtime, TritonRuntime):
        problem = Problem(
            f"models/{model.name}/model.toml",
            "runtime.kind",
            repr(model.runtime.kind),
            "triton",
            "use the mode components",
        )
        raise SpecError((problem,))
    key = image_key(model)
    return ContainerImage(
        account=account,
        region=stage.region,
        repository=REPOSITORIES[key],
        tag=stage.image_tags.get(key, TAGS[key]),
        ami=_CUDA_13_AMI if model.runtime.device == "gpu" else None,
    )
