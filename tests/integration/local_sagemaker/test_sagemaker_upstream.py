"""The small HTTP client against servers that behave badly in the ways that servers do."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable

import pytest

from local.sagemaker.streamed import opened
from local.sagemaker.upstream import Answer, UnreachableError, Upstream
from serving.errors import EndpointError

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


def against(script: Script, use: Callable[[Upstream], Awaitable[None]]) -> int:
    """Run `use` against a server whose connections follow the script; gives how many connections there were."""

    async def run() -> int:
        count = 0
        ended: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            ended.append(writer)
            try:
                await script(reader, writer, count)
            except asyncio.IncompleteReadError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        upstream = Upstream(server.sockets[0].getsockname()[1])
        try:
            await use(upstream)
        finally:
            upstream.close()
            server.close()
            await server.wait_closed()
            await asyncio.gather(*(writer.wait_closed() for writer in ended), return_exceptions=True)
        return count

    return asyncio.run(asyncio.wait_for(run(), 30))


async def post(upstream: Upstream, body: bytes = b"x") -> Answer:
    return await upstream.post("/invocations", {"content-type": "text/plain"}, body)


def test_one_connection_serves_one_caller_after_the_other() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        while True:
            _, body = await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    async def use(upstream: Upstream) -> None:
        for size in (0, 1, 100, 1_000_000):
            answer = await post(upstream, b"y" * size)
            assert (answer.status, len(answer.body)) == (200, size)

    assert against(script, use) == 1


def test_callers_at_once_get_a_connection_each() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        while True:
            _, body = await read_request(reader)
            await asyncio.sleep(0.01)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    async def use(upstream: Upstream) -> None:
        bodies = [str(number).encode() for number in range(20)]
        answers = await asyncio.gather(*(post(upstream, body) for body in bodies))
        assert [answer.body for answer in answers] == bodies

    assert against(script, use) == 20


def test_an_answer_in_chunks_is_put_together() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\nX-Why: Full\r\n\r\n3\r\nque")
        await writer.drain()
        writer.write(b"\r\n2\r\nue\r\n0\r\n\r\n")
        await reader.read()

    async def use(upstream: Upstream) -> None:
        answer = await post(upstream)
        assert (answer.status, answer.body, answer.headers["x-why"]) == (503, b"queue", "Full")

    against(script, use)


def test_a_connection_that_the_server_closes_after_its_answer_is_not_used_again() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        writer.write(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))

    async def use(upstream: Upstream) -> None:
        for _ in range(3):
            assert (await post(upstream)).body == b"ok"

    assert against(script, use) == 3


def test_a_kept_connection_that_was_closed_meanwhile_costs_the_caller_nothing() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(OK)
        if number == 1:
            await read_request(reader)  # and leave without a word
        else:
            await reader.read()

    async def use(upstream: Upstream) -> None:
        for _ in range(2):
            assert (await post(upstream)).body == b"ok"

    assert against(script, use) == 2


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", b"SSH-2.0-OpenSSH\r\n"])
def test_a_server_that_breaks_off_or_talks_nonsense_is_an_error_and_not_asked_twice(said: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        writer.write(said)

    async def use(upstream: Upstream) -> None:
        with pytest.raises(EndpointError) as caught:
            await post(upstream)
        assert not isinstance(caught.value, UnreachableError)

    assert against(script, use) == 1


def test_a_caller_that_gives_up_closes_the_connection() -> None:
    async def use(upstream: Upstream) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(post(upstream), 0.05)
        await left.wait()

    async def script(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        assert await reader.read() == b""
        left.set()

    left = asyncio.Event()
    assert against(script, use) == 1


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(UnreachableError, match=f"port {port} cannot be reached"):
            await post(Upstream(port))

    asyncio.run(run())


def test_a_server_that_no_file_is_left_to_reach_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """socket(2): EMFILE is of the process that asks; only ECONNREFUSED (connect(2)) says that nobody listens."""

    async def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def run() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", none_left, raising=False)
        for ask in (post(Upstream(1)), opened(1, "/", {}, b"").__aenter__()):
            with pytest.raises(EndpointError, match="Too many open files") as caught:
                await ask
            assert not isinstance(caught.value, UnreachableError)

    asyncio.run(run())
