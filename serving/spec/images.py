"""Which container image runs a model: repositories and pinned tags of the AWS Deep Learning Containers.

The registry's account and region belong to a stage, so they are not here: see `infra.images`.
"""

from __future__ import annotations

from serving.spec.model import ModelSpec
from serving.spec.runtime import VllmRuntime

# Newest tags of the SageMaker Python SDK's table (2.27.0) and of the DLC changelog (vLLM). PyTorch has no newer one,
# and no patches since 2026-06-30 (docs/packaging.md).
REPOSITORIES = {
    "triton-cpu": "sagemaker-tritonserver",
    "triton-gpu": "sagemaker-tritonserver",
    "vllm": "vllm",
    "lmi": "djl-inference",
    "pytorch-cpu": "pytorch-inference",
    "pytorch-gpu": "pytorch-inference",
}
TAGS = {
    "triton-cpu": "26.05-py3-cpu",
    "triton-gpu": "26.05-py3",
    "vllm": "server-sagemaker-cuda-v2.6",
    "lmi": "0.38.0-lmi29.0.0-cu130",
    "pytorch-cpu": "2.6.0-cpu-py312-ubuntu22.04-sagemaker",
    "pytorch-gpu": "2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker",
}


def image_key(model: ModelSpec) -> str:
    """Give the key of a model's image in these tables and in a stage's `image_tags`."""
    runtime = model.runtime
    return runtime.container if isinstance(runtime, VllmRuntime) else f"{runtime.kind}-{runtime.device}"


def pinned_image(model: ModelSpec) -> str:
    """Give `repository:tag` of the image a package is made for."""
    key = image_key(model)
    return f"{REPOSITORIES[key]}:{TAGS[key]}"
