"""Which form the bodies behind one head have, and how each is read."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from struct import Struct

from serving.errors import InvalidRequestError
from serving.protocol import codec, npy, tabular
from serving.protocol.elements import from_bytes
from serving.protocol.inflate import CODINGS, TooLargeError, inflate
from serving.protocol.tensors import DTYPES, InferRequest, Tensor
from serving.runtime.asked import Decoded
from serving.runtime.repository import Hosted

Read = Callable[[bytes], Decoded]

_JSON_TYPES = frozenset(
    ("", codec.JSON_TYPE, "application/octet-stream", "text/plain", "text/json", "application/x-www-form-urlencoded")
)
"""What people and AWS's examples send JSON as; Triton's SageMaker frontend reads any type but its own as JSON."""
_TRITON_TYPE = codec.BINARY_PREFIX.partition(";")[0]
_DIGITS = 10
_LENGTH = Struct("<I")


class MediaTypeError(InvalidRequestError):
    """The body is of a type that this model does not take."""


class BodyTooLargeError(InvalidRequestError):
    """The body is larger than a body may be once it is decompressed."""


def reading(headers: dict[bytes, bytes], hosted: Hosted, *, sagemaker: bool, max_bytes: int) -> Read:
    """Give what reads every body behind a head with these headers; it raises InvalidRequestError."""
    read = _sagemaker(headers, hosted) if sagemaker else _open_inference(headers, hosted)
    coding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if coding in {"", "identity"}:
        return read
    if coding not in CODINGS:
        return _refusing(
            f"content-encoding: got {coding[:40]!r}; allowed {', '.join(CODINGS)} or identity; send the body as it is"
        )
    return _inflating(read, coding, max_bytes)


def _open_inference(headers: dict[bytes, bytes], hosted: Hosted) -> Read:
    size = headers.get(b"inference-header-content-length")
    if size == b"0" and len(hosted.served.inputs) == 1:
        return _bare(hosted)
    return _binary(hosted, size.decode("latin-1")) if size is not None else _json(hosted)


def _sagemaker(headers: dict[bytes, bytes], hosted: Hosted) -> Read:
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if content_type.startswith(codec.BINARY_PREFIX):
        return _binary(hosted, content_type[len(codec.BINARY_PREFIX) :])
    media = content_type.partition(";")[0].strip().lower()
    if media in _JSON_TYPES or (media.endswith("+json") and media != _TRITON_TYPE):
        return _json(hosted)
    if media in {npy.NPY_TYPE, tabular.CSV_TYPE} and len(hosted.served.inputs) == 1:
        return _npy(hosted) if media == npy.NPY_TYPE else _csv(hosted)
    return _refusing(
        f"content-type: got {content_type[:80]!r}; allowed {', '.join(types(hosted))} (this very text, then the bytes "
        f"of the JSON header); choose one of these"
    )


def types(hosted: Hosted) -> list[str]:
    """Give the media types of bodies that a model takes."""
    inputs = hosted.served.inputs
    found = [codec.JSON_TYPE]
    if len(inputs) == 1:
        found += [npy.NPY_TYPE] if npy.holds(DTYPES[inputs[0].dtype]) else []
        found += [tabular.CSV_TYPE] if _tabular(hosted) else []
    return [*found, codec.BINARY_PREFIX]


def _tabular(hosted: Hosted) -> bool:
    tensor = hosted.served.inputs[0]
    return tabular.holds(DTYPES[tensor.dtype]) and len(tensor.shape) + hosted.reader.batched == 2  # noqa: PLR2004 - rows and columns


def _json(hosted: Hosted) -> Read:
    read = hosted.reader.read
    return lambda body: read(body, None)


def _binary(hosted: Hosted, size: str) -> Read:
    read = hosted.reader.read
    if size.isascii() and size.isdecimal() and len(size) < _DIGITS:
        fixed = int(size)

        def quick(body: bytes) -> Decoded:
            return read(body, fixed if fixed <= len(body) else codec.check_header_size(size, body_size=len(body)))

        return quick
    return lambda body: read(body, codec.check_header_size(size, body_size=len(body)))


def _bare(hosted: Hosted) -> Read:
    """Read bodies that are one raw tensor of one row (Triton's extension_binary_data.md, *Raw Binary Request*)."""
    tensor, check = hosted.served.inputs[0], hosted.reader.check
    name, datatype = tensor.name, tensor.dtype.value
    fixed = prod(size for size in tensor.shape if size >= 0) * (DTYPES[datatype].itemsize if datatype != "BYTES" else 1)
    rows = [1] if hosted.reader.batched else []

    def read(body: bytes) -> Decoded:
        elements = len(body) // fixed if fixed and datatype != "BYTES" else 1
        shape = [*rows, *(elements if size < 0 else size for size in tensor.shape)]
        if tensor.shape.count(-1) > 1 or (datatype == "BYTES" and prod(shape) != 1):
            raise InvalidRequestError(
                f"Inference-Header-Content-Length: got 0 for {name!r} of {datatype} {list(tensor.shape)}; allowed if "
                f"the body alone says its shape; send a JSON header"
            )
        data = memoryview(_LENGTH.pack(len(body)) + body if datatype == "BYTES" else body)
        array = from_bytes(data, name=name, datatype=datatype, shape=shape, size=prod(shape))
        return check(InferRequest(inputs=(Tensor(name, array),)))

    return read


def _npy(hosted: Hosted) -> Read:
    name, check = hosted.served.inputs[0].name, hosted.reader.check
    return lambda body: check(InferRequest(inputs=(Tensor(name, npy.decode_npy(body)),)))


def _csv(hosted: Hosted) -> Read:
    tensor, check = hosted.served.inputs[0], hosted.reader.check
    if not _tabular(hosted):
        return _refusing(
            f"content-type: got {tabular.CSV_TYPE} for {tensor.name!r}, which is {tensor.dtype} {list(tensor.shape)}; "
            f"allowed for rows of numbers; send {codec.JSON_TYPE}"
        )
    dtype = DTYPES[tensor.dtype]
    return lambda body: check(
        InferRequest(inputs=(Tensor(tensor.name, tabular.decode_csv(body, name=tensor.name, dtype=dtype)),))
    )


def _inflating(read: Read, coding: str, max_bytes: int) -> Read:
    def inflated(body: bytes) -> Decoded:
        try:
            plain = inflate(body, coding, max_bytes=max_bytes)
        except TooLargeError:
            raise BodyTooLargeError(
                f"body: got more than {max_bytes} bytes of {coding}; allowed {max_bytes}; send fewer rows a request"
            ) from None
        return read(plain)

    return inflated


def _refusing(text: str) -> Read:
    def refuse(body: bytes) -> Decoded:
        del body
        raise MediaTypeError(text)

    return refuse
