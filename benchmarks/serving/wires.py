"""How a row is asked and an answer read, for every shape of body that some server speaks; pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import orjson

from benchmarks.serving.models import INPUT, BenchModel, encode_oip_json
from serving.protocol.tensors import Array

Kind = Literal["json", "binary"]
_FLOAT32 = np.dtype("<f4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One shape of body: `headers` and `body` ask one row, `decode` gives the float32 scores of an answer's body."""

    name: str
    kind: Kind
    body: Callable[[BenchModel, Array], bytes]
    decode: Callable[[bytes], Array]
    content_type: str
    header: Callable[[BenchModel], str] = lambda _: ""

    def request(self, model: BenchModel, row: Array, *, path: str) -> bytes:
        """Give the whole HTTP request."""
        body = self.body(model, row)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(body)}\r\n{self.header(model)}\r\n"
        )
        return head.encode() + body


def _decode_oip_json(body: bytes) -> Array:
    return np.array(orjson.loads(body)["outputs"][0]["data"], dtype=_FLOAT32).ravel()


def _oip_header(model: BenchModel) -> bytes:
    size = int(np.prod(model.row)) * (1 if model.dtype.value == "UINT8" else 4)
    tensor = {
        "name": INPUT,
        "shape": [1, *model.row],
        "datatype": model.dtype.value,
        "parameters": {"binary_data_size": size},
    }
    return orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})


def _encode_oip_binary(model: BenchModel, row: Array) -> bytes:
    return _oip_header(model) + row.tobytes()


def _decode_oip_binary(body: bytes) -> Array:
    # the length of the JSON is in a header; where it ends is as good
    _, end = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    return np.frombuffer(body[end:], dtype=_FLOAT32)


def _encode_list(_: BenchModel, row: Array) -> bytes:
    return orjson.dumps({INPUT: row.ravel()}, option=orjson.OPT_SERIALIZE_NUMPY)


def _encode_nested_list(_: BenchModel, row: Array) -> bytes:
    return orjson.dumps({INPUT: row[None]}, option=orjson.OPT_SERIALIZE_NUMPY)


def _decode_list(body: bytes) -> Array:
    return np.array(orjson.loads(body)["y"], dtype=_FLOAT32).ravel()


def _decode_bare_list(body: bytes) -> Array:
    return np.array(orjson.loads(body), dtype=_FLOAT32).ravel()


def _encode_base64(_: BenchModel, row: Array) -> bytes:
    return orjson.dumps({"b": base64.b64encode(row.tobytes()).decode()})


def _encode_raw(_: BenchModel, row: Array) -> bytes:
    return row.tobytes()


def _decode_raw(body: bytes) -> Array:
    return np.frombuffer(body, dtype=_FLOAT32)


_JSON, _OCTETS = "application/json", "application/octet-stream"
OIP_JSON = Wire(
    name="Open Inference Protocol, JSON",
    kind="json",
    body=encode_oip_json,
    decode=_decode_oip_json,
    content_type=_JSON,
)
OIP_BINARY = Wire(
    name="Open Inference Protocol, binary tensors",
    kind="binary",
    body=_encode_oip_binary,
    decode=_decode_oip_binary,
    content_type=_OCTETS,
    header=lambda model: f"Inference-Header-Content-Length: {len(_oip_header(model))}\r\n",
)
LIST_JSON = Wire(name="flat list", kind="json", body=_encode_list, decode=_decode_list, content_type=_JSON)
NESTED_JSON = Wire(
    name="nested list", kind="json", body=_encode_nested_list, decode=_decode_bare_list, content_type=_JSON
)
BASE64_JSON = Wire(name="base64 in JSON", kind="binary", body=_encode_base64, decode=_decode_list, content_type=_JSON)
RAW = Wire(name="raw bytes", kind="binary", body=_encode_raw, decode=_decode_raw, content_type=_OCTETS)
