"""What follows from the head of a request or the shape of an answer alone, computed once instead of a request.

Clients repeat themselves: the JSON before raw tensors is the same bytes in every request of the same shape, and so is
the JSON around the numbers of an answer. The codec reads and writes it the first time; afterwards equal bytes mean
equal tensors. Whatever is not seen to be equal goes to the codec, which alone decides what is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import orjson

from serving.protocol import codec
from serving.protocol.served import ServedModel
from serving.protocol.tensors import Array, InferRequest, InferResponse, Tensor
from serving.runtime.asked import Asked, Decoded, Kind
from serving.runtime.checks import RequestCheck
from serving.runtime.lists import ListReader
from serving.spec.tensors import DType

_MOST_PLANS = 256
_MOST_HEAD_BYTES = 2048
_DUMP = orjson.OPT_SERIALIZE_NUMPY


@dataclass(frozen=True, slots=True, eq=False)
class _Raw:
    """Where each input lies in a body with the same JSON before it: shape, type, offset."""

    parts: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]
    size: int
    kind: Kind


class RequestReader:
    """Bodies to checked requests of one model."""

    def __init__(self, served: ServedModel, *, max_rows: int) -> None:
        self._check = RequestCheck(served, max_rows=max_rows)
        self.batched = self._check.batched
        self._plans: dict[bytes, _Raw] = {}
        # a size that varies or a text must be looked at in every request
        fixed = all(size >= 0 for tensor in served.inputs for size in tensor.shape)
        texts = any(tensor.dtype in {DType.BYTES, DType.BOOL} for tensor in served.inputs)
        self._raw = not texts
        self._lists = ListReader(served, max_rows=max_rows) if fixed and not texts and self.batched else None

    def read(self, body: bytes, header_bytes: int | None) -> Decoded:
        """Decode and check one body whose JSON is the first `header_bytes` (None: all of it).

        Raises:
            InvalidRequestError: it is not what the model takes.

        """
        if header_bytes is None:
            quick = self._lists.read(body) if self._lists is not None else None
            return quick if quick is not None else self._slow(body, None)
        plan = self._plans.get(body[:header_bytes]) if header_bytes <= _MOST_HEAD_BYTES else None
        if plan is None or plan.size != len(body):
            return self._slow(body, header_bytes)
        return [np.ndarray(shape, dtype, body, at) for shape, dtype, at in plan.parts], plan.kind

    def _slow(self, body: bytes, header_bytes: int | None) -> Decoded:
        request = codec.decode_request_parts(body, header_bytes=header_bytes)
        decoded = self.check(request)
        if header_bytes is not None and not request.id and self._raw and header_bytes <= _MOST_HEAD_BYTES:
            self._remember(body, header_bytes, request, decoded)
        return decoded

    def check(self, request: InferRequest) -> Decoded:
        """Check one request that was decoded.

        Raises:
            InvalidRequestError: it is not what the model takes.

        """
        arrays = self._check.arrays(request)
        within_s = request.timeout_us / 1e6 if request.timeout_us else inf
        asked = Asked(
            request.id, request.outputs, request.binary_output, request.binary_names, within_s, request.stream
        )
        return arrays, Kind(self._check.rows(arrays), self._check.signature(arrays), asked)

    def _remember(self, body: bytes, header_bytes: int, request: InferRequest, decoded: Decoded) -> None:
        arrays, kind = decoded
        if sum(array.nbytes for array in arrays) != len(body) - header_bytes:
            return  # some of its tensors were JSON, whose values are in the head
        offsets, at = {}, header_bytes
        for tensor in request.inputs:
            offsets[id(tensor.array)] = at
            at += tensor.array.nbytes
        parts = tuple((array.shape, array.dtype, offsets[id(array)]) for array in arrays)
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[body[:header_bytes]] = _Raw(parts, len(body), kind)


class AnswerWriter:
    """Outputs of one model to bodies."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._names = tuple(tensor.name for tensor in served.outputs)
        self._texts = any(tensor.dtype in {DType.BYTES, DType.BF16} for tensor in served.outputs)
        self._forms: dict[tuple[object, ...], tuple[bytes, ...]] = {}

    def one(self, arrays: list[Array], asked: Asked) -> Array:
        """Give the one output that was asked for."""
        return arrays[self._names.index(asked.outputs[0])] if asked.outputs else arrays[0]

    def write(self, arrays: list[Array], asked: Asked) -> tuple[bytes, int | None]:
        """Give the body and the size of its JSON header (None: all of it is JSON).

        Raises:
            InvalidRequestError: JSON cannot carry these numbers.

        """
        if asked.id or asked.outputs or self._texts:
            return self._slow(arrays, asked)
        key = (asked.binary, *[array.shape for array in arrays])
        form = self._forms.get(key)
        if form is None:
            form = self._form(key, arrays, asked)
        if asked.binary:
            return b"".join((form[0], *[array.tobytes() for array in arrays])), len(form[0])
        pieces = [form[0]]
        for array, after in zip(arrays, form[1:], strict=True):
            pieces.append(orjson.dumps(array.ravel(), option=_DUMP))
            pieces.append(after)
        body = b"".join(pieces)
        # how orjson writes a number that is not finite; the codec says which one
        return self._slow(arrays, asked) if b"null" in body else (body, None)

    def each(self, outputs: Sequence[Array], asked: Asked) -> tuple[list[bytes], int | None] | None:
        """Give what `write` gives for every row of a batch alone, bodies in order; None: only `write` can tell."""
        if asked.id or asked.outputs or self._texts:
            return None
        key = (asked.binary, *[(1, *array.shape[1:]) for array in outputs])
        form = self._forms.get(key)
        if form is None:
            form = self._form(key, [array[:1] for array in outputs], asked)
        rows = len(outputs[0])
        if asked.binary:
            raw = [_cut(array.tobytes(), rows) for array in outputs]
            return list(map(b"".join, zip([form[0]] * rows, *raw, strict=True))), len(form[0])
        lists = []
        for array in outputs:
            text = orjson.dumps(np.ascontiguousarray(array).reshape(rows, -1), option=_DUMP)
            if b"null" in text:
                return None
            lists.append(text[2:-2].split(b"],["))
        body = b"[%s]".join([piece.replace(b"%", b"%%") for piece in form])
        return [body % row for row in zip(*lists, strict=True)], None

    def _form(self, key: tuple[object, ...], arrays: list[Array], asked: Asked) -> tuple[bytes, ...]:
        if asked.binary:
            body, header_bytes = self._slow(arrays, asked)
            form: tuple[bytes, ...] = (body[:header_bytes],)
        else:
            empty = [np.zeros((*array.shape[:1], 0), dtype=array.dtype) for array in arrays]
            form = self._around(arrays, self._slow(empty, asked)[0])
        if len(self._forms) >= _MOST_PLANS:
            self._forms.clear()
        self._forms[key] = form
        return form

    def _around(self, arrays: list[Array], body: bytes) -> tuple[bytes, ...]:
        """Give the JSON before, between and after the lists of numbers, with the true shapes."""
        document = orjson.loads(body)
        pieces, rest = [], document.pop("outputs")
        before = orjson.dumps(document)[:-1] + b',"outputs":['
        for array, output in zip(arrays, rest, strict=True):
            output["shape"] = array.shape
            del output["data"]
            pieces.append(before + orjson.dumps(output)[:-1] + b',"data":')
            before = b"},"
        return (*pieces, b"}]}")

    def _slow(self, arrays: list[Array], asked: Asked) -> tuple[bytes, int | None]:
        names = asked.outputs
        outputs = tuple(
            Tensor(name, array) for name, array in zip(self._names, arrays, strict=True) if not names or name in names
        )
        served = self._served
        response = InferResponse(model_name=served.name, model_version=served.version, id=asked.id, outputs=outputs)
        return codec.encode_response_parts(response, binary=asked.binary, names=asked.raw_names)


def _cut(data: bytes, parts: int) -> list[bytes]:
    size = len(data) // parts
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [b""] * parts
