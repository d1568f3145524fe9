"""The load client: a small C program, compiled when it is first needed.

A client in Python takes 20 to 40 us of CPU a request, two to four times what the fastest servers here take: it would
measure itself. This one takes about three. It exists for this benchmark only.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.serving.processes import CLIENT_CORE, pinned
from serving.errors import BenchmarkError
from serving.protocol.tensors import Array

SOURCE = Path(__file__).with_name("load.c")
OK = 200
_FLAGS = ("-std=c11", "-O2")
_LENGTH = struct.Struct("=I")
_DUE, _LATENCY, _STATUS = range(3)


@dataclass(frozen=True, slots=True)
class Load:
    """What one run saw: a row `(due_s, latency_s, status)` a request, `bodies` by connection, the client's own cost."""

    records: Array
    bodies: tuple[bytes, ...]
    answered: int
    wall_s: float
    cpu_s: float

    @property
    def due_s(self) -> Array:
        """When each request was due, in seconds from the start."""
        return self.records[:, _DUE]

    @property
    def latency_s(self) -> Array:
        """From when a request was due to its answer; infinite where it was not answered with 200."""
        return np.where(self.records[:, _STATUS] == OK, self.records[:, _LATENCY], np.inf)

    @property
    def statuses(self) -> dict[int, int]:
        """How many requests had each status; 0 means no answer."""
        values, counts = np.unique(self.records[:, _STATUS].astype(int), return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))


def compiled(folder: Path) -> Path:
    """Give the client's program, compiled into a folder unless it is there.

    Raises:
        BenchmarkError: there is no C compiler.

    """
    source = SOURCE.read_bytes()
    program = folder / f"load-{hashlib.sha256(source).hexdigest()[:12]}"
    if program.is_file():
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchmarkError("cc: got no C compiler; allowed any; install one (Debian: gcc libc6-dev)")
    folder.mkdir(parents=True, exist_ok=True)
    made = program.with_suffix(".new")
    subprocess.run([compiler, *_FLAGS, "-o", str(made), str(SOURCE), "-lm"], check=True)  # noqa: S603 - this project's source
    return made.rename(program)


def framed(requests: Sequence[bytes]) -> bytes:
    """Give requests as the client reads them: each behind its length."""
    return b"".join(_LENGTH.pack(len(request)) + request for request in requests)


def unframed(data: bytes) -> tuple[bytes, ...]:
    """Give what `framed` joined."""
    found, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        found.append(data[at : at + length])
        at += length
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The compiled program and the folder its files go to."""

    program: Path
    folder: Path

    def drive(
        self,
        port: int,
        requests: Path,
        *,
        connections: int,
        seconds: float,
        rate: float = 0,
        patience_s: float = 0,
        seed: int = 1,
    ) -> Load:
        """Load a server: a closed loop, or with `rate` a Poisson process of so many requests a second.

        Args:
            port: on 127.0.0.1.
            requests: a file of `framed` requests; connection i sends the one of index i modulo their number.
            connections: how many ask at once; in an open loop the most that do.
            seconds: how long requests are sent.
            rate: requests a second; 0 for a closed loop.
            patience_s: how long a request waits for a free connection before it is given up; 0: for ever.
            seed: of the times between requests.

        Raises:
            BenchmarkError: the server cannot be reached.

        """
        out = self.folder / "load"
        asked = [port, requests, out, connections, seconds, rate, patience_s, seed]
        with pinned(CLIENT_CORE):
            done = subprocess.run(  # noqa: S603 - this project's program
                [str(self.program), *map(str, asked)], capture_output=True, text=True, check=False
            )
        if done.returncode:
            raise BenchmarkError(f"load on port {port}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        return Load(
            records=np.fromfile(out.with_suffix(".records")).reshape(-1, 3),
            bodies=unframed(out.with_suffix(".bodies").read_bytes()),
            answered=said["answered"],
            wall_s=said["wall_s"],
            cpu_s=said["cpu_s"],
        )
