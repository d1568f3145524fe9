"""A stream through libdeflate in pieces of equal size, on every core: the bytes are those of one core."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Self

import deflate

PIECE_BYTES = 4 << 20
LEVEL = 6
MAX_THREADS = 16
"""More would hold more pieces in memory than they are faster: beyond, one reader and its hash are what waits."""


def compress(piece: bytes | bytearray) -> bytes:
    """Give a piece as a gzip member of its own; libdeflate lets other threads run meanwhile."""
    return bytes(deflate.gzip_compress(piece, LEVEL))


def thread_count() -> int:
    """How many pieces are compressed at a time: one a core that this process may use."""
    return min(MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class Pieces:
    """Compresses what is written to it, in order, in a pool of threads; at most two pieces a thread are in memory."""

    def __init__(self, file: BinaryIO, *, threads: int | None = None) -> None:
        self.plain_bytes = 0
        self.size_bytes = 0
        self._digest = hashlib.sha256()
        self._file = file
        self._plain = bytearray()
        self._threads = threads or thread_count()
        self._pool = ThreadPoolExecutor(max_workers=self._threads, thread_name_prefix="archive")
        self._pending: deque[Future[bytes]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def sha256(self) -> str:
        """Of all that was written to the file."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Take plain bytes; whole pieces are compressed and written."""
        self.plain_bytes += len(data)
        view = memoryview(data)
        while view:
            taken = view[: PIECE_BYTES - len(self._plain)]
            self._plain += taken
            view = view[len(taken) :]
            if len(self._plain) == PIECE_BYTES:
                self._submit()

    def finish(self) -> None:
        """Write what is left."""
        if self._plain:
            self._submit()
        while self._pending:
            self._emit()

    def _submit(self) -> None:
        piece, self._plain = self._plain, bytearray()
        self._pending.append(self._pool.submit(compress, piece))
        while self._pending and (self._pending[0].done() or len(self._pending) > 2 * self._threads):
            self._emit()

    def _emit(self) -> None:
        packed = self._pending.popleft().result()
        self._file.write(packed)
        self._digest.update(packed)
        self.size_bytes += len(packed)
