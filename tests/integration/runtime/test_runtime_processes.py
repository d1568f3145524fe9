"""Several processes on one port look like one server, whatever happens to one of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.runtime.cgroup import usable_cores
from serving.spec.runtime import TritonRuntime

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="one core has no use for two processes")

Read = Callable[..., list[tuple[int, dict[str, str], bytes]]]
BODY = json.dumps(
    {
        "inputs": [
            {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]},
            {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [0]},
        ]
    }
)
REQUEST = f"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: {len(BODY)}\r\n\r\n{BODY}".encode()
OK = 'streamhub_requests_total,outcome="ok"'


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def members(server: Any) -> list[int]:
    """Give the processes that listen on the server's port."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text(encoding="ascii")
    return [int(pid) for pid in children.split() if not ended(int(pid))]


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.005)


@contextmanager
def connections(server: Any, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60)) for _ in range(count)
        ]


def test_whoever_is_asked_is_ready_and_answers_for_all(start: Any, read: Read) -> None:
    with start("linear", "--processes", "2") as server:
        assert server.ready == {"port": server.port, "name": "linear", "version": "2.1.0", "processes": 2}
        with connections(server, 40) as clients:  # that all are with one process has a chance of 2^-39
            for client in clients:
                client.sendall(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
                assert read(client, answers=1)[0][0] == 200
                client.sendall(REQUEST)
                assert read(client, answers=1)[0][0] == 200
        counts = [server.metric(OK) for _ in range(20)]
        assert counts == sorted(counts)
        until(lambda: server.metric(OK) == 40, "what the other process answered is counted")
        assert server.metric("streamhub_ready") == 1


def test_one_that_dies_is_started_again_while_the_others_serve(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with start("linear", "--processes", "2", said="process 1 ended with -9; started again in 0.1 s") as server:
        with connections(server, 30) as clients:
            for client in clients:
                client.sendall(REQUEST)
                assert client.recv(12) == b"HTTP/1.1 200"
        until(lambda: server.metric(OK) == 30, "all is counted")
        before = members(server)
        os.kill(before[1], signal.SIGKILL)
        until(lambda: ended(before[1]), "it is dead")
        with httpx.Client(base_url=server.url, transport=httpx.HTTPTransport(retries=5), timeout=60) as http:
            for _ in range(20):
                assert http.post("/invocations", content=BODY, headers={"connection": "close"}).status_code == 200
                assert http.get("/ping", headers={"connection": "close"}).status_code == 200
        until(lambda: len(members(server)) == 2, "another one is there")
        assert before[0] in members(server)
        until(lambda: server.metric(OK) == 50, "what the dead one counted is kept")
    assert list(tmp_path.iterdir()) == [], "what the dead one had unpacked is gone"


def test_sigterm_loses_nothing_that_was_accepted(start: Any, read: Read) -> None:
    body = json.dumps({"inputs": [{"name": "steps", "shape": [1, 1], "datatype": "INT64", "data": [40_000]}]})
    request = f"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    runtime = TritonRuntime(device="cpu", max_batch_size=1, max_queue_size=64)
    with start("slow", "--processes", "2", runtime=runtime) as server, connections(server, 10) as clients:
        for client in clients:
            client.sendall(request)
        answered = server.metric(OK)
        gauges = ("streamhub_running_batches", "streamhub_waiting_requests")
        until(lambda: sum(map(server.metric, (OK, *gauges))) - answered >= len(clients), "all were accepted")
        assert server.metric(OK) - answered < len(clients), "all were answered before it was asked to end"
        server.process.send_signal(signal.SIGTERM)
        for client in clients:
            assert [answer[0] for answer in read(client, answers=-1)] == [200]
        assert server.process.wait(timeout=60) == 0


def test_no_process_outlives_the_one_that_watches_it(packed: Any) -> None:
    command = [sys.executable, "-m", "serving.runtime", "--archive", str(packed("linear")), "--port", "0"]
    with subprocess.Popen([*command, "--processes", "2"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["processes"] == 2
        task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        pids = [int(pid) for pid in task.read_text(encoding="ascii").split()]
        assert len(pids) == 2
        process.kill()
        until(lambda: all(map(ended, pids)), "they are gone")


def refused(*arguments: str) -> str:
    command = [sys.executable, "-m", "serving.runtime", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_container_is_told_by_its_environment(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PROCESSES": "2", "THREADS": "1", "WORKERS": "2"}.items():
        monkeypatch.setenv(f"STREAMHUB_{name}", value)
    with start("linear") as server:
        assert server.ready["processes"] == 2


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", "²"])
def test_a_number_of_processes_that_is_none_is_wrong_usage(packed: Any, wrong: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "serving.runtime", "--archive", str(packed("linear"))],
        env={**os.environ, "STREAMHUB_PROCESSES": wrong},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "allowed a whole number of 1 or more" in done.stderr


def test_what_cannot_be_is_refused_in_one_line(packed: Any, tmp_path: Path) -> None:
    assert "allowed 1 to" in refused("--archive", str(packed("linear")), "--processes", "1000")
    assert "come and go" in refused("--model-repository", str(tmp_path), "--processes", "2")
    assert "does not load" in refused("--archive", str(packed("linear", graph=b"no graph")), "--processes", "2")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "--port" in refused("--archive", str(packed("linear")), "--processes", "2", "--port", port)
