"""Requests and answers to bytes and back: Open Inference Protocol JSON, and its binary tensor extension.

Binary bodies are a JSON header and then raw tensors; `application/vnd.sagemaker-triton.binary+json;json-header-size=N`
says where the header ends (exact prefix, as Triton's SageMaker frontend reads it); any other type is JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import orjson

from serving.errors import InvalidRequestError
from serving.protocol.elements import from_bytes, from_lists, to_bytes, to_jsonable
from serving.protocol.parameters import of_outputs, of_request, refuse_shared_memory, short, table
from serving.protocol.tensors import DATATYPES, DTYPES, InferRequest, InferResponse, Tensor

JSON_TYPE = "application/json"
BINARY_PREFIX = "application/vnd.sagemaker-triton.binary+json;json-header-size="

MAX_DIMENSIONS = 8
MAX_ELEMENTS = 1 << 40
_MAX_DIGITS = 18

_DUMP = orjson.OPT_SERIALIZE_NUMPY


def header_size(content_type: str, *, body_size: int) -> int | None:
    """Give the bytes of JSON at the head of a binary body; None when the body is all JSON.

    Raises:
        InvalidRequestError: the size is no number within the body.

    """
    if not content_type.startswith(BINARY_PREFIX):
        return None
    return check_header_size(content_type[len(BINARY_PREFIX) :], body_size=body_size)


def check_header_size(text: str, *, body_size: int) -> int:
    """Read the size of a JSON header.

    Raises:
        InvalidRequestError: it is no number within the body.

    """
    # isdecimal alone takes digits of every script
    size = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else -1
    if not 0 <= size <= body_size:
        raise InvalidRequestError(
            f"json header size: got {text[:32]!r}; allowed 0 to {body_size}, the bytes of the body; "
            f"send the number of bytes before the first raw tensor"
        )
    return size


def encode_request(request: InferRequest, *, binary: bool) -> tuple[bytes, str]:
    """Give body and content type of a request.

    Raises:
        InvalidRequestError: a tensor has no form in JSON (not finite, or BYTES that are no UTF-8).

    """
    head: dict[str, object] = {"id": request.id} if request.id else {}
    parameters: dict[str, object] = {}
    if request.binary_output:
        parameters["binary_data_output"] = True
    if request.timeout_us:
        parameters["timeout"] = request.timeout_us
    if request.stream:
        parameters["stream"] = True
    if parameters:
        head["parameters"] = parameters
    if request.outputs:
        head["outputs"] = [
            {"name": name, "parameters": {"binary_data": True}} if name in request.binary_names else {"name": name}
            for name in request.outputs
        ]
    body, size = _encode(head, "inputs", request.inputs, [binary] * len(request.inputs))
    return body, JSON_TYPE if size is None else f"{BINARY_PREFIX}{size}"


def encode_response(response: InferResponse, *, binary: bool) -> tuple[bytes, str]:
    """Give body and content type of an answer.

    Raises:
        InvalidRequestError: a tensor has no form in JSON (not finite, or BYTES that are no UTF-8).

    """
    body, size = encode_response_parts(response, binary=binary)
    return body, JSON_TYPE if size is None else f"{BINARY_PREFIX}{size}"


def encode_response_parts(
    response: InferResponse, *, binary: bool, names: frozenset[str] = frozenset()
) -> tuple[bytes, int | None]:
    """Give the body of an answer and the size of its JSON header (None: all of it is JSON).

    All outputs are raw bytes if `binary`, else those of these names.
    """
    head: dict[str, object] = {"model_name": response.model_name, "model_version": response.model_version}
    if response.id:
        head["id"] = response.id
    return _encode(head, "outputs", response.outputs, [binary or tensor.name in names for tensor in response.outputs])


def _encode(
    head: dict[str, object], key: str, tensors: tuple[Tensor, ...], raw: Sequence[bool]
) -> tuple[bytes, int | None]:
    blobs: list[bytes] = []
    entries = []
    for tensor, is_raw in zip(tensors, raw, strict=True):
        array = tensor.array
        entry: dict[str, object] = {"name": tensor.name, "shape": array.shape, "datatype": DATATYPES[array.dtype]}
        if is_raw:
            blob = to_bytes(array)
            entry["parameters"] = {"binary_data_size": len(blob)}
            blobs.append(blob)
        else:
            entry["data"] = to_jsonable(array, name=tensor.name)
        entries.append(entry)
    head[key] = entries
    header = orjson.dumps(head, option=_DUMP)
    if b"null" in header:  # how orjson writes a number that is not finite; a name may hold the word, hence the look
        _refuse_not_finite(tensors, raw)
    return b"".join((header, *blobs)), len(header) if any(raw) else None


def _refuse_not_finite(tensors: tuple[Tensor, ...], raw: Sequence[bool]) -> None:
    for tensor, is_raw in zip(tensors, raw, strict=True):
        numbers = not is_raw and not tensor.array.dtype.hasobject
        if numbers and b"null" in orjson.dumps(to_jsonable(tensor.array, name=tensor.name), option=_DUMP):
            raise InvalidRequestError(
                f"tensor {tensor.name!r}: got NaN or infinity, which JSON cannot carry; use the binary form"
            )


def decode_request(body: bytes, *, content_type: str) -> InferRequest:
    """Read a request; raw tensors are views of the body.

    Raises:
        InvalidRequestError: with field, what it got, what is allowed and how to fix it.

    """
    return decode_request_parts(body, header_bytes=header_size(content_type, body_size=len(body)))


def decode_request_parts(body: bytes, *, header_bytes: int | None) -> InferRequest:
    """Read a request whose JSON is the first `header_bytes` (None: all of it)."""
    head = _load(body, header_bytes)
    parameters = of_request(head)
    asked: list[dict[str, Any]] = _list_of_tables(head, "outputs") if head.get("outputs", []) != [] else []
    names = tuple(_name(output, "outputs") for output in asked)
    wanted = of_outputs(asked, names, default=parameters.binary_output)
    return InferRequest(
        id=_text(head, "id"),
        inputs=_tensors(head, "inputs", body, header_bytes),
        outputs=names,
        binary_output=wanted.all_binary,
        binary_names=frozenset() if wanted.all_binary else wanted.binary,
        timeout_us=parameters.timeout_us,
        stream=parameters.stream,
    )


def decode_response(body: bytes, *, content_type: str) -> InferResponse:
    """Read an answer; raw tensors are views of the body.

    Raises:
        InvalidRequestError: it is no answer of the Open Inference Protocol.

    """
    header_bytes = header_size(content_type, body_size=len(body))
    head = _load(body, header_bytes)
    return InferResponse(
        model_name=_text(head, "model_name"),
        model_version=_text(head, "model_version"),
        id=_text(head, "id"),
        outputs=_tensors(head, "outputs", body, header_bytes),
    )


def _load(body: bytes, header_bytes: int | None) -> dict[str, Any]:
    if not body:
        raise InvalidRequestError("body: got nothing; allowed a JSON object with inputs; send a body")
    try:
        head = orjson.loads(body if header_bytes is None else memoryview(body)[:header_bytes])
    except orjson.JSONDecodeError as error:
        what = "body" if header_bytes is None else f"first {header_bytes} bytes of the body"
        raise InvalidRequestError(
            f"{what}: got no JSON ({error.msg} at {error.pos}); allowed a JSON object with inputs; "
            f"raw tensors need content type {BINARY_PREFIX}N"
        ) from None
    if type(head) is not dict:
        raise InvalidRequestError(f"body: got {type(head).__name__}; allowed a JSON object with inputs; wrap it")
    return head


def _tensors(head: dict[str, Any], key: str, body: bytes, header_bytes: int | None) -> tuple[Tensor, ...]:
    view = memoryview(body)
    at = len(body) if header_bytes is None else header_bytes
    tensors = []
    for entry in _list_of_tables(head, key):
        tensor, at = _tensor(entry, key, view, at)
        tensors.append(tensor)
    if at != len(body):
        raise InvalidRequestError(
            f"body: got {len(body) - at} bytes after the last raw tensor; allowed none; check each binary_data_size"
        )
    if len(tensors) > 1 and len({tensor.name for tensor in tensors}) != len(tensors):
        raise InvalidRequestError(f"{key}: got the same name twice; allowed each name once; send one tensor a name")
    return tuple(tensors)


def _tensor(entry: dict[str, Any], key: str, view: memoryview, at: int) -> tuple[Tensor, int]:
    name, datatype = _name(entry, key), entry.get("datatype")
    if type(datatype) is not str or datatype not in DTYPES:
        raise InvalidRequestError(
            f"tensor {name!r}: datatype: got {short(datatype)}; allowed {', '.join(DTYPES)}; use one of these"
        )
    shape, size = _shape(entry.get("shape"), name)
    if "data" in entry:
        return Tensor(name, from_lists(entry["data"], name=name, datatype=datatype, shape=shape, size=size)), at
    parameters = table(entry, f"tensor {name!r}")
    refuse_shared_memory(parameters, f"tensor {name!r}")
    length = parameters.get("binary_data_size")
    if type(length) is not int or not 0 <= length <= len(view) - at:
        raise InvalidRequestError(
            f"tensor {name!r}: got no data and binary_data_size {short(length)}; allowed data, or a size up to the "
            f"{len(view) - at} raw bytes that are left; send one of the two"
        )
    end = at + length
    return Tensor(name, from_bytes(view[at:end], name=name, datatype=datatype, shape=shape, size=size)), end


def _shape(shape: object, name: str) -> tuple[list[int], int]:
    if type(shape) is list and len(shape) <= MAX_DIMENSIONS and all(type(n) is int and n >= 0 for n in shape):
        size = prod(shape)
        if size <= MAX_ELEMENTS:
            return shape, size
    raise InvalidRequestError(
        f"tensor {name!r}: shape: got {short(shape)}; allowed a list of at most {MAX_DIMENSIONS} integers from 0; "
        f"say the size of every dimension, rows first"
    )


def _list_of_tables(head: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = head.get(key)
    if type(value) is list and value and all(type(entry) is dict for entry in value):
        return value
    raise InvalidRequestError(f"{key}: got {short(value)}; allowed a list of objects with a name; send at least one")


def _name(entry: dict[str, Any], key: str) -> str:
    name = entry.get("name")
    if type(name) is str and name:
        return name
    raise InvalidRequestError(f"{key}: name: got {short(name)}; allowed a text; name each tensor as the model does")


def _text(head: dict[str, Any], key: str) -> str:
    value = head.get(key, "")
    if type(value) is str:
        return value
    raise InvalidRequestError(f"{key}: got {short(value)}; allowed a text; quote it")
