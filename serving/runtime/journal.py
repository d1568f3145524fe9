"""One line of JSON on stderr a request that failed or was slow; never what was in it.

An error's text quotes the request, so it goes to the client alone: a line has the status, the path without its query,
and the id by which the client can be found. A flood of failures must not cost those who are served: a writer of its own
blocks where nobody reads stderr, and lines beyond some a second are only counted.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic

import orjson

_MOST_WAITING = 1024
_MOST_A_SECOND = 100
_SHOWN_BYTES = 200
_SERVER_ERROR = 500
_CLOSE_S = 1.0


def to_stderr(line: bytes) -> None:
    """Write one line, or as much of it as anybody takes."""
    os.write(2, line)


class Journal:
    """The log of requests; `slow_ms` 0 makes it an access log."""

    def __init__(
        self, *, slow_ms: float, write: Callable[[bytes], None] = to_stderr, clock: Callable[[], float] = monotonic
    ) -> None:
        self.slow_s = slow_ms / 1e3
        self._write = write
        self._clock = clock
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._prefix = os.urandom(6).hex()
        self._ids = 0
        self._second = 0
        self._written = 0
        self._unwritten = 0

    def new_id(self) -> bytes:
        """Give an id for a request whose client sent none."""
        self._ids += 1
        return b"%s-%x" % (self._prefix.encode(), self._ids)

    def failed(self, *, status: int, method: bytes, path: bytes, request_id: bytes, seconds: float) -> None:
        """Tell of a request that was answered with an error."""
        level = "error" if status >= _SERVER_ERROR else "warning"
        self._note(
            level=level,
            event="request failed",
            status=status,
            method=method,
            path=path,
            request_id=request_id,
            seconds=seconds,
        )

    def answered(self, *, method: bytes, path: bytes, request_id: bytes, seconds: float) -> None:
        """Tell of a request that was answered, slowly or not."""
        self._note(
            level="info",
            event="request answered",
            status=200,
            method=method,
            path=path,
            request_id=request_id,
            seconds=seconds,
        )

    def close(self) -> None:
        """Write what waits, unless nobody reads it."""
        if self._writer is not None:
            self._lines.put(None)
            self._writer.join(_CLOSE_S)

    def _note(
        self, *, level: str, event: str, status: int, method: bytes, path: bytes, request_id: bytes, seconds: float
    ) -> None:
        if not self._may_write():
            self._unwritten += 1
            return
        record: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            "status": status,
            "method": _shown(method),
            "path": _shown(path.partition(b"?")[0]),
            "request_id": _shown(request_id),
            "ms": round(seconds * 1e3, 3),
        }
        if self._unwritten:
            record["not_written"] = self._unwritten
            self._unwritten = 0
        self._start()
        self._lines.put(orjson.dumps(record) + b"\n")

    def _may_write(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written >= _MOST_A_SECOND or self._lines.qsize() >= _MOST_WAITING:
            return False
        self._written += 1
        return True

    def _start(self) -> None:
        if self._writer is None:
            self._writer = threading.Thread(target=self._work, name="journal", daemon=True)
            self._writer.start()

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError:  # nobody has stderr any more; the server goes on
                return


def _shown(data: bytes) -> str:
    return data[:_SHOWN_BYTES].decode("ascii", "replace")
