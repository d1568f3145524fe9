"""Which container image runs a model: repositories and pinned tags of the AWS Deep Learning Containers.

The registry's account and region belong to a stage, so they are not here: see `infra.images`.
"""

from __future__ import annotations

from serving.spec.model import ModelSpec
from serving.spec.runtime import TritonRuntime

# Newest tags of the SageMaker Python SDK's table (2.27.0) and of the DLC changelog (vLLM).
REPOSITORIES = {
    "triton-cpu": "sagemaker-tritonserver",
    "triton-gpu": "sagemaker-tritonserver",
    "vllm": "vllm",
}
TAGS = {"triton-cpu": "26.05-py3-cpu", "triton-gpu": "26.05-py3", "vllm": "server-sagemaker-cuda-v2.6"}


def image_key(model: ModelSpec) -> str:
    """Give the key of a model's image in these tables and in a stage's `image_tags`."""
    return f"triton-{model.runtime.device}" if isinstance(model.runtime, TritonRuntime) else "vllm"


def pinned_image(model: ModelSpec) -> str:
    """Give `repository:tag` of the image a package is made for."""
    key = image_key(model)
    return f"{REPOSITORIES[key]}:{TAGS[key]}"
