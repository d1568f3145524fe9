"""What runs a model: the types of `[runtime]`, one a kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from serving.spec.tensors import TensorSpec

StepBackend = Literal["onnxruntime", "pytorch", "python"]
"""The Triton backends that archives of this project are made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInputSpec:
    """A tensor that Triton computes for a ragged input, so that the model finds each row's part in the joined tensor.

    `kind` is Triton's own (model_config.proto, *BatchInput.Kind*) without its prefix: the number of elements of each
    row, their running sum, or the running sum from 0.
    """

    name: str
    source: str
    kind: Literal["element-count", "accumulated-element-count", "accumulated-element-count-with-zero"] = (
        "accumulated-element-count"
    )
    dtype: Literal["INT32", "FP32"] = "INT32"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleStepSpec:
    """One model of an ensemble; `reads` and `writes` rename its tensors to the ensemble's (own names where absent).

    Its file is found by its name in the version's folder of weights: `<step>.onnx`, `<step>.pt`, `<step>.pt2`, or for
    Python the folder `<step>/` with `model.py`.
    """

    name: str
    backend: StepBackend
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    reads: dict[str, str] = field(default_factory=dict)
    writes: dict[str, str] = field(default_factory=dict)
    device: Literal["cpu", "gpu"] = "cpu"
    instances: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonRuntime:
    """Triton with one backend, or with an ensemble of `steps`; `device` chooses the instance group and the image.

    `max_batch_size` 0: the model takes no batches, and its shapes are whole. `intra_op_threads` 0: ONNX Runtime's own
    choice, one a core.
    """

    kind: Literal["triton"] = "triton"
    device: Literal["cpu", "gpu"]
    backend: Literal["onnxruntime", "pytorch", "python", "ensemble"] = "onnxruntime"
    max_batch_size: int = 32
    max_queue_delay_ms: float = 10.0
    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_size: int = 256
    instances: int = 1
    intra_op_threads: int = 0
    batch_inputs: tuple[BatchInputSpec, ...] = ()
    steps: tuple[EnsembleStepSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRuntime:
    """vLLM on a Hugging Face folder (safetensors only), in its own container or in LMI (DJL Serving).

    `layout` is how SageMaker fetches it: one `model.tar.gz`, or the files as they are from an S3 prefix, which starts
    sooner when they are large. The other keys become flags of vLLM (`serving.spec.container`).
    """

    kind: Literal["vllm"] = "vllm"
    container: Literal["vllm", "lmi"] = "vllm"
    layout: Literal["archive", "prefix"] = "archive"
    tensor_parallel: int = 1
    max_model_len: int = 4096
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int = 256
    dtype: Literal["auto", "bfloat16", "float16"] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class PyTorchRuntime:
    """The AWS PyTorch inference container in script mode: weights beside `code/inference.py`.

    `workers`: processes of the model server; `max_batch_size` and `max_batch_delay_ms` are its batching (1: none).
    """

    kind: Literal["pytorch"] = "pytorch"
    device: Literal["cpu", "gpu"]
    workers: int = 1
    max_batch_size: int = 1
    max_batch_delay_ms: int = 100


Runtime = TritonRuntime | VllmRuntime | PyTorchRuntime
