"""What runs a model: the types of `[runtime]`, one a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonRuntime:
    """Triton with the ONNX Runtime backend; `device` chooses the instance group and the image."""

    kind: Literal["triton"] = "triton"
    device: Literal["cpu", "gpu"]
    max_batch_size: int = 32
    max_queue_delay_ms: float = 10.0
    max_queue_size: int = 256
    instances: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRuntime:
    """The vLLM container on a Hugging Face folder (safetensors only)."""

    kind: Literal["vllm"] = "vllm"
    tensor_parallel: int = 1
    max_model_len: int = 4096
    gpu_memory_utilization: float = 0.9
    max_queue_size: int = 256


Runtime = TritonRuntime | VllmRuntime
