"""In which form the answers to the requests behind one head are written, and how they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from serving.errors import InvalidRequestError
from serving.protocol import codec, npy, tabular
from serving.protocol.accept import acceptable
from serving.protocol.tensors import DTYPES, Array
from serving.runtime.asked import Asked
from serving.runtime.exchange import JSON, OK, Exchange
from serving.runtime.journal import Journal
from serving.runtime.repository import Hosted

_OCTETS = b"application/octet-stream"
_BINARY = codec.BINARY_PREFIX.encode()
_TRITON_TYPE = codec.BINARY_PREFIX.partition(";")[0]
_PIECE_BYTES = 65_536
_CSV_RANK = 2


class NotAcceptableError(InvalidRequestError):
    """There is no form of the answer that the client takes."""


class Reply:
    """The answers of one model to the requests behind one head; `lines` go with each, `accept` chooses the form."""

    __slots__ = ("_forms", "_hosted", "_lines", "_sagemaker", "choosing", "journal")

    def __init__(
        self,
        hosted: Hosted,
        journal: Journal,
        *,
        sagemaker: bool,
        accept: bytes | None = None,
        lines: bytes = b"",
    ) -> None:
        self._hosted = hosted
        self.journal = journal
        self._sagemaker = sagemaker
        self._lines = lines
        self.choosing = accept is not None
        """Whether the client said what it takes, so that each request must be asked `form`."""
        self._forms = acceptable(accept.decode("latin-1"), _offers(hosted)) if accept is not None else []

    def form(self, asked: Asked) -> Asked:
        """Give what was asked for in the form that it will be given.

        Raises:
            NotAcceptableError: none that the client takes can carry it.

        """
        alone = len(asked.outputs or self._hosted.served.outputs) == 1
        raw = asked.binary or bool(asked.raw_names)
        for form in self._forms:
            if form in {npy.NPY_TYPE, tabular.CSV_TYPE}:
                if alone:
                    return replace(asked, form=form)
            elif _TRITON_TYPE in self._forms and codec.JSON_TYPE in self._forms:
                return asked  # both may come: the request itself says which
            elif form == codec.JSON_TYPE:
                return replace(asked, binary=False, raw_names=frozenset()) if raw else asked
            else:
                return replace(asked, binary=True)
        raise NotAcceptableError(
            f"accept: got types that this answer cannot have; allowed {', '.join(_offers(self._hosted))} "
            f"({npy.NPY_TYPE} and {tabular.CSV_TYPE} for one output of numbers); leave it out for {codec.JSON_TYPE}"
        )

    def each(self, outputs: Sequence[Array], asked: Asked) -> tuple[list[bytes], bytes] | None:
        """Give a body for every row of a batch, and the lines before each up to the value of its length.

        None: only `write` can tell.
        """
        if asked.form or asked.stream:
            return None
        written = self._hosted.writer.each(outputs, asked)
        if written is None:
            return None
        bodies, header_bytes = written
        content_type, lines = self._around(header_bytes)
        return bodies, b"%s\r\n%scontent-length: " % (OK + content_type, lines)

    def write(self, arrays: list[Array], asked: Asked) -> tuple[bytes, bytes, bytes]:
        """Give body, content type and further header lines.

        Raises:
            InvalidRequestError: JSON cannot carry these numbers.

        """
        writer = self._hosted.writer
        if asked.form:
            array = writer.one(arrays, asked)
            body = npy.encode_npy(array) if asked.form == npy.NPY_TYPE else tabular.encode_csv(array)
            return body, asked.form.encode(), self._lines
        body, header_bytes = writer.write(arrays, asked)
        return body, *self._around(header_bytes)

    def _around(self, header_bytes: int | None) -> tuple[bytes, bytes]:
        """Give the content type and further header lines."""
        if header_bytes is None:
            return JSON, self._lines
        if self._sagemaker:
            return b"%s%d" % (_BINARY, header_bytes), self._lines
        return _OCTETS, b"inference-header-content-length: %d\r\n%s" % (header_bytes, self._lines)


def _offers(hosted: Hosted) -> list[str]:
    outputs = hosted.served.outputs
    offers = [codec.JSON_TYPE, _TRITON_TYPE]
    if all(npy.holds(DTYPES[tensor.dtype]) for tensor in outputs):
        offers.append(npy.NPY_TYPE)
    ranks = [len(tensor.shape) + hosted.reader.batched for tensor in outputs]
    if all(tabular.holds(DTYPES[tensor.dtype]) for tensor in outputs) and set(ranks) <= {1, _CSV_RANK}:
        offers.append(tabular.CSV_TYPE)
    return offers


class Pump:
    """Sends a body piece by piece, as its client reads; forgets it when the client goes."""

    def __init__(self, exchange: Exchange, body: bytes, content_type: bytes, lines: bytes) -> None:
        self._stream = exchange.stream(200, content_type, lines)
        exchange.job = self
        self._task = asyncio.ensure_future(self._send(body))

    async def _send(self, body: bytes) -> None:
        view = memoryview(body)
        for at in range(0, len(body), _PIECE_BYTES):
            self._stream.write(bytes(view[at : at + _PIECE_BYTES]))
            await self._stream.drained()
        self._stream.end()

    def cancel(self) -> None:
        """Stop: the client is gone."""
        self._task.cancel()
