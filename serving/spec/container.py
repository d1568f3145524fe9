"""What a container is told about its model: its environment variables, a function of the spec alone."""

from __future__ import annotations

from serving.spec.model import ModelSpec
from serving.spec.runtime import PyTorchRuntime, TritonRuntime, VllmRuntime

_MS_PER_S = 1000
_LMI_DTYPES = {"auto": "auto", "bfloat16": "bf16", "float16": "fp16"}


def environment_of(model: ModelSpec) -> dict[str, str]:
    """Give the environment of a model's container definition, the same in every stage and for every version."""
    match model.runtime:
        case TritonRuntime():
            return _triton(model.name)
        case VllmRuntime(container="vllm") as vllm:
            return _vllm(vllm)
        case VllmRuntime():
            return {}  # LMI reads serving.properties beside the weights (`lmi_properties`)
        case PyTorchRuntime() as pytorch:
            return _pytorch(pytorch, deadline_ms=model.budget.deadline_ms)


def lmi_properties(runtime: VllmRuntime) -> dict[str, str]:
    """Give `serving.properties` of an LMI package (DJL Serving, *LMI user guide*), which runs vLLM by default."""
    return {
        "engine": "Python",
        "option.tensor_parallel_degree": str(runtime.tensor_parallel),
        "option.max_model_len": str(runtime.max_model_len),
        "option.gpu_memory_utilization": f"{runtime.gpu_memory_utilization:g}",
        "option.max_rolling_batch_size": str(runtime.max_num_seqs),
        "option.dtype": _LMI_DTYPES[runtime.dtype],
    }


def _triton(name: str) -> dict[str, str]:
    """Source: triton-inference-server/server, docker/sagemaker/serve; the name tells an ensemble from its steps."""
    return {
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": name,
        # the container's default is verbose, which costs latency
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    }


def _vllm(runtime: VllmRuntime) -> dict[str, str]:
    """`SM_VLLM_X` becomes the flag `--x` (AWS Deep Learning Containers, vLLM guide)."""
    return {
        "SM_VLLM_MODEL": "/opt/ml/model",
        "SM_VLLM_TENSOR_PARALLEL_SIZE": str(runtime.tensor_parallel),
        "SM_VLLM_MAX_MODEL_LEN": str(runtime.max_model_len),
        "SM_VLLM_GPU_MEMORY_UTILIZATION": f"{runtime.gpu_memory_utilization:g}",
        "SM_VLLM_MAX_NUM_SEQS": str(runtime.max_num_seqs),
        "SM_VLLM_DTYPE": runtime.dtype,
        # nothing is installed at start: an isolated network could not, and an archive holds no such list
        "STANDARD_AUTO_INSTALL_REQ": "false",
    }


def _pytorch(runtime: PyTorchRuntime, *, deadline_ms: float) -> dict[str, str]:
    """Source: aws/sagemaker-pytorch-inference-toolkit, parameters; time-outs are whole seconds there."""
    return {
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
        "SAGEMAKER_MODEL_SERVER_WORKERS": str(runtime.workers),
        "SAGEMAKER_TS_BATCH_SIZE": str(runtime.max_batch_size),
        "SAGEMAKER_TS_MAX_BATCH_DELAY": str(runtime.max_batch_delay_ms),
        "SAGEMAKER_TS_RESPONSE_TIMEOUT": str(max(1, -int(-deadline_ms // _MS_PER_S))),
    }
