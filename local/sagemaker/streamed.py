"""A model server's answer as it comes, part by part, over a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httptools

from local.sagemaker.upstream import HOST, ends_with_connection, not_connected, request_head
from serving.errors import EndpointError

_READ_BYTES = 1 << 16


class Stream:
    """Status and headers, which are there from the beginning, and `parts`, which are still to come."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._reader = reader
        self._parser = httptools.HttpResponseParser(self)
        self._arrived: list[bytes] = []
        self._began = False
        self._complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header from the parser."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take the end of the headers from the parser."""
        self.status = self._parser.get_status_code()
        self._began = True

    def on_body(self, body: bytes) -> None:
        """Take bytes of the body from the parser."""
        self._arrived.append(body)

    def on_message_complete(self) -> None:
        """Take the end of the answer from the parser."""
        self._complete = True

    async def begin(self) -> None:
        """Return once status and headers are there.

        Raises:
            EndpointError: the server went away before, or sent no HTTP.

        """
        while not self._began:
            await self._receive()

    async def parts(self) -> AsyncIterator[bytes]:
        """Give the body's bytes as they come; the server is read no faster than they are taken.

        Raises:
            EndpointError: the server went away before the end, or sent no HTTP.

        """
        while True:
            arrived, self._arrived = self._arrived, []
            for part in arrived:
                yield part
            if self._complete:
                return
            await self._receive()

    async def whole(self) -> bytes:
        """Give all of the body at once."""
        return b"".join([part async for part in self.parts()])

    async def _receive(self) -> None:
        try:
            data = await self._reader.read(_READ_BYTES)
            if data:
                self._parser.feed_data(data)
                return
        except (OSError, httptools.HttpParserError) as error:
            raise EndpointError(f"the model server broke off: {error}") from error
        if not self._began or not ends_with_connection(self.headers):
            raise EndpointError("the model server closed the connection: end of stream")
        self._complete = True


@contextlib.asynccontextmanager
async def opened(port: int, path: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Stream]:
    """Send one POST and give its answer from the headers on; leaving closes the connection, which the server sees.

    Raises:
        UnreachableError: there is no server.
        EndpointError: there is no way to it, or it went away before it had answered.

    """
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError as error:
        raise not_connected(port, error) from error
    try:
        writer.write(request_head(path, headers, port=port, length=len(body)) + body)
        stream = Stream(reader)
        await stream.begin()
        yield stream
    finally:
        writer.close()
