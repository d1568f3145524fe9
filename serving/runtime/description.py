"""What the server says of a model: its tensors, its configuration and its statistics, in the shapes of Triton's JSON.

Sources: Triton's server repository, docs/protocol/extension_model_configuration.md and extension_statistics.md.
"""

from __future__ import annotations

from typing import Any

from serving.runtime.metrics import Metrics
from serving.runtime.repository import TRITON_VERSION, Hosted
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

EXTENSIONS = (
    "binary_tensor_data",
    "binary_tensor_data_output",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
ABSENT = ("systemsharedmemory", "cudasharedmemory", "trace", "logging")
"""What stands first in the paths of Triton's extensions that are not here."""

_FAILURES = ("invalid", "rejected", "expired", "failed")


def metadata(hosted: Hosted) -> dict[str, object]:
    """Give name, version, platform and tensors.

    The version is that of the folder in the archive, as Triton tells of the same archive: its tools count on a number.
    """
    served = hosted.served
    rows = [-1] if hosted.reader.batched else []
    tensors = {
        key: [{"name": t.name, "datatype": t.dtype.value, "shape": [*rows, *t.shape]} for t in group]
        for key, group in (("inputs", served.inputs), ("outputs", served.outputs))
    }
    return {"name": hosted.name, "versions": [TRITON_VERSION], "platform": hosted.platform, **tensors}


def configuration(hosted: Hosted) -> dict[str, object]:
    """Give what `config.pbtxt` says of tensors, batching and instances; the version of the spec is a parameter."""
    served, runtime = hosted.served, hosted.served.runtime
    document: dict[str, object] = {
        "name": hosted.name,
        "platform": hosted.platform,
        "backend": runtime.backend if isinstance(runtime, TritonRuntime) else runtime.kind,
        "max_batch_size": runtime.max_batch_size if isinstance(runtime, TritonRuntime) else 0,
        "input": [_tensor(tensor) for tensor in served.inputs],
        "output": [_tensor(tensor) for tensor in served.outputs],
        "parameters": {"streamhub_version": {"string_value": served.version}},
    }
    if isinstance(runtime, TritonRuntime):
        document["instance_group"] = [{"name": hosted.name, "kind": "KIND_CPU", "count": runtime.instances}]
        if runtime.max_batch_size:
            document["dynamic_batching"] = {
                "preferred_batch_size": list(runtime.preferred_batch_sizes) or [runtime.max_batch_size],
                "max_queue_delay_microseconds": round(runtime.max_queue_delay_ms * 1000),
                "default_queue_policy": {"max_queue_size": runtime.max_queue_size},
            }
    return document


def _tensor(tensor: TensorSpec) -> dict[str, object]:
    kind = "STRING" if tensor.dtype is DType.BYTES else tensor.dtype.value
    return {"name": tensor.name, "data_type": f"TYPE_{kind}", "dims": list(tensor.shape)}


def statistics(hosted: Hosted) -> dict[str, object]:
    """Give counts and nanoseconds since the model was loaded; what a step took is summed over requests.

    Steps are counted once a request is answered, because Triton's tools want equal counts. `compute_input` is decoding
    and checking, which comes before the queue here, and `compute_output` is writing.
    """
    metrics = hosted.metrics
    ok = metrics.outcomes["ok"]
    return {
        "name": hosted.name,
        "version": TRITON_VERSION,
        "last_inference": round(metrics.last_epoch_s * 1e3),
        "inference_count": metrics.rows,
        "execution_count": metrics.executions,
        "inference_stats": {
            "success": _duration(ok, metrics.request_us.total / 1e6),
            "fail": _duration(sum(metrics.outcomes[name] for name in _FAILURES), metrics.failed_s),
            "queue": _duration(ok, metrics.queued_s),
            "compute_input": _duration(ok, metrics.decoded_s),
            "compute_infer": _duration(ok, metrics.computed_s),
            "compute_output": _duration(ok, metrics.encoded_s),
            "cache_hit": _duration(0, 0.0),
            "cache_miss": _duration(0, 0.0),
        },
        "batch_stats": _batches(metrics),
    }


def _batches(metrics: Metrics) -> list[dict[str, Any]]:
    return [
        {
            "batch_size": rows,
            "compute_input": _duration(count, 0.0),
            "compute_infer": _duration(count, seconds),
            "compute_output": _duration(count, 0.0),
        }
        for rows, (count, seconds) in sorted(metrics.batches.items())
    ]


def _duration(count: float, seconds: float) -> dict[str, int]:
    return {"count": int(count), "ns": round(seconds * 1e9)}
