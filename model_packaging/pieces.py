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


def compress(piece: memoryview) -> bytearray:
    """Give a piece as a gzip member of its own; libdeflate lets other threads run meanwhile."""
    packed: bytearray = deflate.gzip_compress(piece, LEVEL)
    return packed


def thread_count() -> int:
    """How many pieces are compressed at a time: one a core that this process may use."""
    return min(MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class Pieces:
    """Compresses what is written to it, in order, in a pool of threads; at most two pieces a thread are in memory.

    Buffers are used again: new ones for each piece would cost a page fault every 4 KiB.
    """

    def __init__(self, file: BinaryIO, *, threads: int | None = None) -> None:
        self.plain_bytes = 0
        self.size_bytes = 0
        self._digest = hashlib.sha256()
        self._file = file
        self._buffer = bytearray(PIECE_BYTES)
        self._filled = 0
        self._free: list[bytearray] = []
        self._threads = threads or thread_count()
        self._pool = ThreadPoolExecutor(max_workers=self._threads, thread_name_prefix="archive")
        self._pending: deque[tuple[bytearray, Future[bytearray]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def sha256(self) -> str:
        """Of all that was written to the file."""
        return self._digest.hexdigest()

    def room(self) -> memoryview:
        """Give the free end of the piece, never empty, to be read into; `filled` says how much of it was."""
        return memoryview(self._buffer)[self._filled :]

    def filled(self, count: int) -> None:
        """Take what was put into `room`; a whole piece is compressed."""
        self.plain_bytes += count
        self._filled += count
        if self._filled == PIECE_BYTES:
            self._submit()

    def write(self, data: bytes) -> None:
        """Take plain bytes; whole pieces are compressed and written."""
        view = memoryview(data)
        while view:
            room = self.room()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self.filled(count)
            view = view[count:]

    def finish(self) -> None:
        """Write what is left."""
        if self._filled:
            self._submit()
        while self._pending:
            self._emit()

    def _submit(self) -> None:
        buffer = self._buffer
        self._pending.append((buffer, self._pool.submit(compress, memoryview(buffer)[: self._filled])))
        while self._pending and (self._pending[0][1].done() or len(self._pending) > 2 * self._threads):
            self._emit()
        self._buffer, self._filled = self._free.pop() if self._free else bytearray(PIECE_BYTES), 0

    def _emit(self) -> None:
        buffer, packing = self._pending.popleft()
        packed = packing.result()
        self._free.append(buffer)
        self._file.write(packed)
        self._digest.update(packed)
        self.size_bytes += len(packed)
