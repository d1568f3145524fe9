"""Requests and answers to bytes and back.

Two forms (Triton: protocol/extension_binary_data; SageMaker: docker/sagemaker/serve): plain JSON, and a JSON header
followed by the tensors' bytes, whose length the content type tells on SageMaker and a header field elsewhere.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from serving.errors import InvalidRequestError
from serving.protocol.tensors import NUMPY_OF, InferRequest, InferResponse, Tensor
from serving.spec import DType

JSON_TYPE = "application/json"
BINARY_TYPE_PREFIX = "application/vnd.sagemaker-triton.binary+json;json-header-size="
"""Matched as an exact prefix, as Triton's SageMaker front end does; anything else is JSON."""

MAX_TENSORS = 256
MAX_RANK = 16
_LENGTH = struct.Struct("<I")

Header = dict[str, Any]


def json_header_size(content_type: str) -> int | None:
    """Give the JSON header's length that a content type tells, None when the body is plain JSON.

    Raises:
        InvalidRequestError: the size is no number.

    """
    if not content_type.startswith(BINARY_TYPE_PREFIX):
        return None
    text = content_type[len(BINARY_TYPE_PREFIX) :]
    if not text.isascii() or not text.isdigit():
        raise InvalidRequestError(f"json-header-size: got {text!r}; allowed a number of bytes")
    return int(text)


def encode_request(request: InferRequest, *, binary: bool) -> tuple[bytes, str]:
    """Encode a request; gives its body and content type."""
    header: Header = {"inputs": []}
    if request.id:
        header["id"] = request.id
    if request.outputs:
        header["outputs"] = [{"name": name} for name in request.outputs]
    if request.binary_output:
        header["parameters"] = {"binary_data_output": True}
    return _encode(header, "inputs", request.inputs, binary=binary)


def encode_response(response: InferResponse, *, binary: bool) -> tuple[bytes, str]:
    """Encode an answer; gives its body and content type."""
    header: Header = {"model_name": response.model_name, "model_version": response.model_version, "outputs": []}
    if response.id:
        header["id"] = response.id
    return _encode(header, "outputs", response.outputs, binary=binary)


def decode_request(
    body: bytes | memoryview, *, content_type: str = JSON_TYPE, header_length: int | None = None
) -> InferRequest:
    """Decode a request; `header_length` (the HTTP field) wins over the content type. Arrays may view `body`.

    Raises:
        InvalidRequestError: with what is wrong, what it got and what it may be.

    """
    header, binary = _split(body, content_type, header_length)
    outputs = header.get("outputs", [])
    if not isinstance(outputs, list) or not all(_is_named(output) for output in outputs):
        raise InvalidRequestError("outputs: got something else; allowed a list of objects with a name")
    request_id = header.get("id", "")
    if not isinstance(request_id, str):
        raise InvalidRequestError(f"id: got {request_id!r}; allowed a string")
    asked = header.get("parameters", {})
    wants = isinstance(asked, dict) and asked.get("binary_data_output") is True
    wants = wants or any(_parameter(output, "binary_data") is True for output in outputs)
    return InferRequest(
        id=request_id,
        inputs=_decode_tensors(header.get("inputs"), binary, "inputs"),
        outputs=tuple(output["name"] for output in outputs),
        binary_output=wants,
    )


def decode_response(
    body: bytes | memoryview, *, content_type: str = JSON_TYPE, header_length: int | None = None
) -> InferResponse:
    """Decode an answer.

    Raises:
        InvalidRequestError: the body is no answer of the protocol.

    """
    header, binary = _split(body, content_type, header_length)
    return InferResponse(
        model_name=str(header.get("model_name", "")),
        model_version=str(header.get("model_version", "")),
        id=str(header.get("id", "")),
        outputs=_decode_tensors(header.get("outputs"), binary, "outputs"),
    )


def _encode(header: Header, section: str, tensors: tuple[Tensor, ...], *, binary: bool) -> tuple[bytes, str]:
    chunks: list[bytes] = []
    for tensor in tensors:
        entry: Header = {"name": tensor.name, "datatype": tensor.dtype.value, "shape": list(tensor.array.shape)}
        if binary:
            raw = _raw(tensor)
            entry["parameters"] = {"binary_data_size": len(raw)}
            chunks.append(raw)
        else:
            entry["data"] = _json_values(tensor)
        header[section].append(entry)
    head = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    if not binary:
        return head, JSON_TYPE
    return b"".join((head, *chunks)), f"{BINARY_TYPE_PREFIX}{len(head)}"


def _raw(tensor: Tensor) -> bytes:
    if tensor.dtype is not DType.BYTES:
        return np.ascontiguousarray(tensor.array, dtype=NUMPY_OF[tensor.dtype]).tobytes()
    return b"".join(_LENGTH.pack(len(item)) + item for item in tensor.array.ravel())


def _json_values(tensor: Tensor) -> object:
    if tensor.dtype is DType.BYTES:
        return [item.decode("utf-8", errors="replace") for item in tensor.array.ravel()]
    if tensor.dtype is DType.FP16:
        return np.ascontiguousarray(tensor.array, dtype=np.float32).ravel()
    return np.ascontiguousarray(tensor.array).ravel()


def _split(body: bytes | memoryview, content_type: str, header_length: int | None) -> tuple[Header, memoryview]:
    view = memoryview(body)
    size = header_length if header_length is not None else json_header_size(content_type)
    if size is not None and not 0 <= size <= len(view):
        raise InvalidRequestError(f"json-header-size: got {size}; allowed 0 to the body's {len(view)} bytes")
    head = view if size is None else view[:size]
    try:
        header = orjson.loads(head)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"body: got no JSON ({error}); allowed an inference request") from error
    if not isinstance(header, dict):
        raise InvalidRequestError(f"body: got a JSON {type(header).__name__}; allowed an object")
    return header, view[len(head) :]


def _decode_tensors(entries: object, binary: memoryview, section: str) -> tuple[Tensor, ...]:
    if not isinstance(entries, list) or not entries or len(entries) > MAX_TENSORS:
        raise InvalidRequestError(f"{section}: got {_brief(entries)}; allowed a list of 1 to {MAX_TENSORS} tensors")
    tensors: list[Tensor] = []
    offset = 0
    for index, entry in enumerate(entries):
        place = f"{section}[{index}]"
        name, dtype, shape = _described(entry, place)
        size = _parameter(entry, "binary_data_size")
        if size is None:
            tensors.append(Tensor(name, _from_json(entry.get("data"), dtype, shape, place)))
            continue
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(binary) - offset:
            left = len(binary) - offset
            raise InvalidRequestError(f"{place}.binary_data_size: got {size!r}; allowed 0 to the {left} bytes left")
        tensors.append(Tensor(name, _from_bytes(binary[offset : offset + size], dtype, shape, place)))
        offset += size
    if offset != len(binary):
        raise InvalidRequestError(f"body: got {len(binary) - offset} bytes too many after its tensors; allowed none")
    return tuple(tensors)


def _described(entry: object, place: str) -> tuple[str, DType, tuple[int, ...]]:
    if not _is_named(entry):
        raise InvalidRequestError(f"{place}: got {_brief(entry)}; allowed an object with a name")
    assert isinstance(entry, dict)  # noqa: S101 # for the type checker; _is_named has said so
    try:
        dtype = DType(str(entry.get("datatype")))
    except ValueError:
        allowed = ", ".join(DType)
        raise InvalidRequestError(f"{place}.datatype: got {entry.get('datatype')!r}; allowed {allowed}") from None
    shape = entry.get("shape")
    sound = isinstance(shape, list) and len(shape) <= MAX_RANK
    if not sound or not all(type(size) is int and 0 <= size < 2**31 for size in shape):  # type: ignore[union-attr]
        raise InvalidRequestError(f"{place}.shape: got {_brief(shape)}; allowed a list of up to {MAX_RANK} sizes")
    return entry["name"], dtype, tuple(shape)  # type: ignore[arg-type] # a list, said just above


def _from_bytes(raw: memoryview, dtype: DType, shape: tuple[int, ...], place: str) -> NDArray[Any]:
    count = math.prod(shape)
    if dtype is DType.BYTES:
        return _byte_strings(raw, count, place).reshape(shape)
    wanted = count * NUMPY_OF[dtype].itemsize
    if len(raw) != wanted:
        raise InvalidRequestError(f"{place}: got {len(raw)} bytes; allowed {wanted} for {dtype} of shape {list(shape)}")
    return np.frombuffer(raw, dtype=NUMPY_OF[dtype]).reshape(shape)


def _byte_strings(raw: memoryview, count: int, place: str) -> NDArray[Any]:
    items: list[bytes] = []
    offset = 0
    while offset < len(raw):
        start = offset + _LENGTH.size
        if start > len(raw) or len(items) == count:
            break
        (length,) = _LENGTH.unpack_from(raw, offset)
        if length > len(raw) - start:
            break
        items.append(bytes(raw[start : start + length]))
        offset = start + length
    if offset != len(raw) or len(items) != count:
        raise InvalidRequestError(f"{place}: got broken length prefixes; allowed {count} length-prefixed byte strings")
    array = np.empty(count, dtype=object)
    array[:] = items
    return array


def _from_json(data: object, dtype: DType, shape: tuple[int, ...], place: str) -> NDArray[Any]:
    if not isinstance(data, list):
        raise InvalidRequestError(f"{place}.data: got {_brief(data)}; allowed a list of values, nested or flat")
    if dtype is DType.BYTES:
        return _strings(data, shape, place)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InvalidRequestError(f"{place}.data: got ragged lists; allowed {math.prod(shape)} values") from error
    if array.size != math.prod(shape):
        raise InvalidRequestError(f"{place}.data: got {array.size} values; allowed {math.prod(shape)} by its shape")
    return _typed(array, dtype, place).reshape(shape)


def _typed(array: NDArray[Any], dtype: DType, place: str) -> NDArray[Any]:
    target = NUMPY_OF[dtype]
    if array.size == 0:
        return np.zeros(0, dtype=target)
    kinds = {"f": "iuf", "i": "iu", "u": "iu", "b": "b"}[target.kind]
    if array.dtype.kind not in kinds:
        raise InvalidRequestError(f"{place}.data: got {array.dtype.kind!r} values; allowed {dtype}")
    if target.kind in "iu":
        info = np.iinfo(target)
        if array.min() < info.min or array.max() > info.max:
            raise InvalidRequestError(f"{place}.data: got a value out of range; allowed {info.min} to {info.max}")
    with np.errstate(over="ignore"):
        return array.astype(target)


def _strings(data: list[object], shape: tuple[int, ...], place: str) -> NDArray[Any]:
    flat: list[object] = []
    pending: list[object] = [data]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        else:
            flat.append(item)
    if len(flat) != math.prod(shape) or not all(isinstance(item, str) for item in flat):
        raise InvalidRequestError(f"{place}.data: got {len(flat)} values; allowed {math.prod(shape)} strings")
    array = np.empty(len(flat), dtype=object)
    array[:] = [item.encode() for item in flat if isinstance(item, str)]
    return array.reshape(shape)


def _is_named(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str) and bool(entry["name"])


def _parameter(entry: object, name: str) -> object:
    parameters = entry.get("parameters") if isinstance(entry, dict) else None
    return parameters.get(name) if isinstance(parameters, dict) else None


def _brief(value: object) -> str:
    text = repr(value)
    limit = 60
    return text if len(text) <= limit else f"{text[:limit]}…"
