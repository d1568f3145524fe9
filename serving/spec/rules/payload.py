"""Rules on sizes: the largest request and answer whose shape is known fit what a call may carry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from serving.spec.hosting import HostingMode
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.tensors import DType, TensorSpec

_REALTIME_BYTES = 6_291_456
"""The API model's limit of InvokeEndpoint; the FAQ names 25 MB, so that this is the safe one."""
_ASYNC_BYTES = 1_073_741_824
_ITEM_BYTES: Mapping[DType, int] = {
    DType.BOOL: 1,
    DType.UINT8: 1,
    DType.INT8: 1,
    DType.UINT16: 2,
    DType.INT16: 2,
    DType.FP16: 2,
    DType.BF16: 2,
    DType.UINT32: 4,
    DType.INT32: 4,
    DType.FP32: 4,
    DType.UINT64: 8,
    DType.INT64: 8,
    DType.FP64: 8,
}


def requests_fit_a_call(model: ModelSpec) -> Iterator[Finding]:
    """InvokeEndpoint carries 6 MB surely, InvokeEndpointAsync 1 GB; rows are those of the largest legal request."""
    is_async = model.hosting.mode is HostingMode.ASYNC
    limit, source = (
        (_ASYNC_BYTES, "AWS async-inference") if is_async else (_REALTIME_BYTES, "AWS API_runtime_InvokeEndpoint")
    )
    rows = max(1, model.api.max_candidates)
    for section, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        size = rows * sum(known_bytes(tensor) for tensor in tensors)
        if size > limit:
            allowed = f"at most {limit} bytes in mode {model.hosting.mode}"
            yield section, f"{size} bytes for {rows} rows", allowed, "send less, or use mode async", source


def known_bytes(tensor: TensorSpec) -> int:
    """Give the bytes of one row of a tensor; 0 where its shape or its elements vary."""
    if tensor.dtype not in _ITEM_BYTES or any(size < 0 for size in tensor.shape):
        return 0
    return math.prod(tensor.shape) * _ITEM_BYTES[tensor.dtype]


RULES: tuple[Rule, ...] = (requests_fit_a_call,)
