"""A line of JSON a request that failed or was slow, with the id its client knows, and never what was in it."""

from __future__ import annotations

import threading
from typing import Any

import orjson

from serving.runtime.journal import Journal

ASKED = {"method": b"POST", "path": b"/invocations?secret=1", "request_id": b"r-1", "seconds": 0.0125}


def lines_of(*, failures: int, clock: Any = lambda: 0.0, answers: int = 0) -> list[dict[str, Any]]:
    written: list[bytes] = []
    journal = Journal(slow_ms=1000, write=written.append, clock=clock)
    for _ in range(failures):
        journal.failed(status=400, **ASKED)
    for _ in range(answers):
        journal.answered(**ASKED)
    journal.close()
    return [orjson.loads(line) for line in written]


def test_a_line_says_what_happened_to_whom_and_when() -> None:
    (line,) = lines_of(failures=1)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "event": "request failed",
        "status": 400,
        "method": "POST",
        "path": "/invocations",
        "request_id": "r-1",
        "ms": 12.5,
    }


def test_errors_of_the_server_stand_out() -> None:
    written: list[bytes] = []
    journal = Journal(slow_ms=1000, write=written.append)
    journal.failed(status=500, **ASKED)
    journal.answered(**ASKED)
    journal.close()
    assert [orjson.loads(line)["level"] for line in written] == ["error", "info"]


def test_a_flood_is_cut_and_the_next_line_says_by_how_much() -> None:
    second = iter([0.0] * 250 + [1.0])
    lines = lines_of(failures=251, clock=lambda: next(second))
    assert len(lines) == 101
    assert lines[-1]["not_written"] == 150
    assert "not_written" not in lines[0]


def test_nobody_waits_for_a_reader_who_does_not_read() -> None:
    stuck = threading.Event()
    written: list[bytes] = []

    def late(line: bytes) -> None:
        assert stuck.wait(60), "who tells waited for the reader"
        written.append(line)

    journal = Journal(slow_ms=1000, write=late, clock=iter(range(100_000)).__next__)
    for _ in range(5_000):  # a second passes before each, so only the queue's bound ends it
        journal.failed(status=400, **ASKED)
    stuck.set()
    journal.close()
    assert 0 < len(written) < 5_000, "what nobody reads is cut"


def test_a_closed_stderr_ends_the_log_and_nothing_else() -> None:
    def broken(line: bytes) -> None:
        raise BrokenPipeError(line)

    journal = Journal(slow_ms=1000, write=broken)
    journal.failed(status=400, **ASKED)
    journal.close()
    journal.failed(status=400, **ASKED)


def test_ids_are_not_given_twice() -> None:
    journals = [Journal(slow_ms=1, write=lambda _: None) for _ in range(2)]
    ids = [journal.new_id() for journal in journals for _ in range(50)]
    assert len(set(ids)) == 100
