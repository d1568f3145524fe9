"""The benchmark's client counts what servers count, and its clock does not wait for a slow server."""

from __future__ import annotations

import re
import shutil
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from benchmarks.serving import in_process, instance
from benchmarks.serving.graphs import write_archive
from benchmarks.serving.launch import Site
from benchmarks.serving.load import Client, compiled, framed
from benchmarks.serving.models import RANKER
from benchmarks.serving.peers import BY_NAME, OURS
from benchmarks.serving.wires import Kind
from serving.errors import BenchmarkError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load client needs a C compiler")

ASK = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[int], bytes]


@pytest.fixture(name="client")
def client_fixture(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Client:
    (tmp_path / "asks").write_bytes(framed([ASK]))
    return Client(program=compiled(tmp_path_factory.getbasetemp() / "client"), folder=tmp_path)


@contextmanager
def scripted(answer: Answer, *, delay_s: float = 0) -> Iterator[int]:
    """Serve each connection in a thread: after a delay the n-th request of the connection gets `answer(n)`."""

    def talk(connection: socket.socket) -> None:
        with connection, suppress(ConnectionResetError):  # a client whose time is up leaves answers unread
            count = 0
            while connection.recv(len(ASK), socket.MSG_WAITALL):
                sleep(delay_s)
                reply = answer(count)
                connection.sendall(reply)
                count += 1
                if b"Connection: close" in reply:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_counts_are_those_of_our_server_and_answers_are_compared(client: Client, tmp_path: Path) -> None:
    archive = write_archive(RANKER, tmp_path)
    graph = tmp_path / "ranker.onnx"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = Site(
        python=Path(sys.executable),
        model=RANKER,
        graph=graph,
        archive=archive,
        answer=tmp_path,
        window_ms=0,
        port=port,
        spare_ports=(),
        folder=tmp_path,
    )
    expected = in_process.expected(RANKER, graph)
    ours = instance.start(BY_NAME[OURS], "best", site, expected=expected, client=client)
    try:
        with ours.awake():
            before = answered_by(port)
            kinds: tuple[Kind, ...] = ("json", "binary")
            for kind in kinds:
                load = client.drive(port, ours.requests[kind], connections=8, seconds=0.2)
                assert load.statuses == {200: load.answered}
                assert answered_by(port) - before == load.answered
                before += load.answered
                assert ours.closed_loop(kind, clients=8, seconds=0.1).wrong == 0
                before = answered_by(port)
            ours.expected = expected + 1
            assert ours.closed_loop("json", clients=8, seconds=0.1).wrong == 8
    finally:
        ours.end()
    assert ours.process.poll() is not None


def answered_by(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        counts = re.findall(r'streamhub_requests_total\{[^}]*outcome="ok"[^}]*\} (\d+)', answer.read().decode())
    return sum(map(int, counts))


def test_latency_of_an_open_loop_runs_from_when_a_request_was_due(client: Client) -> None:
    # one connection answers 50 a second and 100 are due, so that the last of a second waits for about a second
    with scripted(lambda _: OK, delay_s=0.02) as port:
        load = client.drive(port, client.folder / "asks", connections=1, seconds=1, rate=100)
        closed = client.drive(port, client.folder / "asks", connections=1, seconds=0.5)
    assert load.records[:, 1].max() > 0.4
    assert np.median(closed.latency_s) == pytest.approx(0.02, rel=1.0)


def test_an_open_loop_asks_as_often_as_it_was_told(client: Client) -> None:
    with scripted(lambda _: OK) as port:
        load = client.drive(port, client.folder / "asks", connections=32, seconds=1, rate=400)
    assert len(load.records) == pytest.approx(400, abs=5 * 20)  # five standard deviations of a Poisson count
    gaps_s = np.diff(np.sort(load.due_s))
    assert np.std(gaps_s) == pytest.approx(np.mean(gaps_s), rel=0.3)  # as an exponential has it


def test_who_finds_no_connection_in_time_is_given_up_and_counts_as_unanswered(client: Client) -> None:
    with scripted(lambda _: OK, delay_s=0.02) as port:
        load = client.drive(port, client.folder / "asks", connections=1, seconds=1, rate=200, patience_s=0.05)
    assert load.statuses[0] > load.answered
    assert load.records[load.records[:, 2] == 200][:, 1].max() < 0.5


def test_statuses_are_counted_apart_and_refusals_are_infinitely_late(client: Client) -> None:
    refused = OK.replace(b"200 OK", b"503 No")
    with scripted(lambda count: refused if count % 2 else OK) as port:
        load = client.drive(port, client.folder / "asks", connections=1, seconds=0.1)
    assert abs(load.statuses[200] - load.statuses[503]) <= 1
    assert np.isinf(load.latency_s).sum() == load.statuses[503]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"2\r\nok\r\n0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-LENGTH:2\r\nConnection: close\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"y" * 100_000, b"y" * 100_000),
    ],
    ids=["chunked", "closing", "longer than a buffer"],
)
def test_answers_end_where_http_says(client: Client, answer: bytes, body: bytes) -> None:
    with scripted(lambda _: answer) as port:
        load = client.drive(port, client.folder / "asks", connections=2, seconds=0.1)
    assert set(load.statuses) == {200}
    assert load.bodies == (body, body)


def test_a_server_that_is_not_there_is_said_in_a_line(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(BenchmarkError, match=f"port {port}: connect"):
        client.drive(port, client.folder / "asks", connections=1, seconds=0.1)
