"""What packaging costs beside the compressor alone and beside tar: MB/s, peak memory, in turns, each in a process.

    .venv/bin/streamhub bench packaging --json

*ours* writes an archive: tar, SHA-256 of the file and of the archive, libdeflate. *compressor* reads the same file and
writes the same pieces through the same libdeflate, level and threads, and does nothing else. Both flush to disk.
*tar* is `tar czf` (GNU gzip, level 6, one thread). Bytes are plain ones; a ratio is of medians in the same run.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measured import peak_rss_bytes
from model_packaging.archive import Member, write_archive
from model_packaging.pieces import PIECE_BYTES, compress, thread_count
from serving.errors import PackagingError

Told = Callable[[str], None]

MB = 10**6
_BLOCK_VALUES = 1 << 20
_NOISE_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One run of one way: wall and CPU seconds of its process, and the most memory it held."""

    seconds: float
    cpu_s: float
    peak_rss_bytes: int
    archive_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeReport:
    """All runs over one size; rates in MB/s of plain bytes, medians; `ratio` is ours to the compressor alone."""

    size_bytes: int
    repeats: int
    ours_mb_s: float
    compressor_mb_s: float
    ratio: float
    cpu_ratio: float
    ours_peak_rss_bytes: int
    compressor_peak_rss_bytes: int
    tar_czf_mb_s: float | None


def run(sizes_bytes: Sequence[int], *, repeats: int, folder: Path | None, told: Told) -> list[SizeReport]:
    """Measure each size; `folder` needs three times the largest free.

    Raises:
        PackagingError: the disk is too full.

    """
    with tempfile.TemporaryDirectory(prefix="streamhub-bench-", dir=folder) as temporary:
        work = Path(temporary)
        wanted = 3 * max(sizes_bytes)
        if (free := shutil.disk_usage(work).free) < wanted:
            raise PackagingError(f"{work}: got {free} bytes free; allowed {wanted}; name a folder with --folder")
        smallest = min(sizes_bytes)
        return [_measure(size, work, repeats=repeats, with_tar=size == smallest, told=told) for size in sizes_bytes]


def _measure(size: int, work: Path, *, repeats: int, with_tar: bool, told: Told) -> SizeReport:
    told(f"writing {size // MB} MB of made-up weights")
    data = work / "model.bin"
    write_weights(data, size)
    runs: Mapping[str, list[Timing]] = {"ours": [], "compressor": []}
    for turn in range(repeats):
        for way in sorted(runs, reverse=bool(turn % 2)):  # in turns, so that a noisy minute falls on both
            runs[way].append(_in_process(way, data, work / "out.tar.gz"))
            told(f"{size // MB} MB, turn {turn + 1} of {repeats}: {way} {runs[way][-1].seconds:.2f} s")
    tar_s = _tar(data, work / "out.tar.gz", told) if with_tar else None
    data.unlink()
    seconds = {way: statistics.median(each.seconds for each in timings) for way, timings in runs.items()}
    cpu = {way: statistics.median(each.cpu_s for each in timings) for way, timings in runs.items()}
    return SizeReport(
        size_bytes=size,
        repeats=repeats,
        ours_mb_s=round(size / MB / seconds["ours"], 1),
        compressor_mb_s=round(size / MB / seconds["compressor"], 1),
        ratio=round(statistics.median(_ratios(runs)), 3),
        cpu_ratio=round(cpu["compressor"] / cpu["ours"], 3),
        ours_peak_rss_bytes=max(each.peak_rss_bytes for each in runs["ours"]),
        compressor_peak_rss_bytes=max(each.peak_rss_bytes for each in runs["compressor"]),
        tar_czf_mb_s=round(size / MB / tar_s, 1) if tar_s is not None else None,
    )


def _ratios(runs: Mapping[str, Sequence[Timing]]) -> list[float]:
    return [alone.seconds / ours.seconds for ours, alone in zip(runs["ours"], runs["compressor"], strict=True)]


def write_weights(path: Path, size: int) -> None:
    """Write bytes that compress as a network's do: float32 of few significant bits, and a share of noise; seeded."""
    rng = np.random.default_rng(7)
    left = size
    with path.open("wb") as file:
        while left:
            if rng.random() < _NOISE_SHARE:
                block = rng.bytes(4 * _BLOCK_VALUES)
            else:
                values = rng.standard_normal(_BLOCK_VALUES, dtype=np.float32)
                block = (values.view(np.uint32) & np.uint32(0xFFFF0000)).tobytes()
            left -= file.write(block[:left])


def _in_process(way: str, data: Path, out: Path) -> Timing:
    done = subprocess.run(  # noqa: S603 - this module, by the same Python
        [sys.executable, "-m", "benchmarks.packaging", way, str(data), str(out)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    out.unlink()
    return Timing(**json.loads(done.stdout))


def _tar(data: Path, out: Path, told: Told) -> float | None:
    tar = shutil.which("tar")
    if tar is None:
        told("tar: not installed, not compared")
        return None
    began = time.perf_counter()
    subprocess.run([tar, "czf", str(out), "-C", str(data.parent), data.name], check=True)  # noqa: S603
    seconds = time.perf_counter() - began
    told(f"tar czf {seconds:.2f} s")
    out.unlink()
    return seconds


def _ours(data: Path, out: Path) -> None:
    write_archive([Member("model/1/model.bin", data)], out)


def _compressor(data: Path, out: Path) -> None:
    threads = thread_count()
    free = [bytearray(PIECE_BYTES) for _ in range(2 * threads + 1)]
    pending: deque[tuple[bytearray, Future[bytearray]]] = deque()
    with data.open("rb", buffering=0) as file, out.open("wb") as packed, ThreadPoolExecutor(threads) as pool:

        def emit() -> None:
            buffer, packing = pending.popleft()
            packed.write(packing.result())
            free.append(buffer)

        while True:
            if not free:
                emit()
            buffer = free.pop()
            count = file.readinto(buffer)
            if not count:
                break
            pending.append((buffer, pool.submit(compress, memoryview(buffer)[:count])))
        while pending:
            emit()
        packed.flush()
        os.fsync(packed.fileno())


WAYS: Mapping[str, Callable[[Path, Path], None]] = {"ours": _ours, "compressor": _compressor}


def _child(way: str, data: Path, out: Path) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    WAYS[way](data, out)
    document = {
        "seconds": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "peak_rss_bytes": peak_rss_bytes(),
        "archive_bytes": out.stat().st_size,
    }
    sys.stdout.write(json.dumps(document))


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
