"""What a process costs: `python -m benchmarks.measured COMMAND…` runs one and prints seconds, CPU and peak memory.

A process of its own stands between, because Linux counts what a process held before its `exec` as the child's
(`ru_maxrss`, getrusage(2)): the child of a large one would seem as large.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from serving.errors import BenchmarkError

_ROOT = Path(__file__).parents[1]
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One run of a command: wall and CPU seconds from its start to its end, and the most memory it held."""

    seconds: float
    cpu_s: float
    peak_rss_bytes: int


def peak_rss_bytes() -> int:
    """Give the most memory that this process held since its `exec`; where there is no /proc, what getrusage says."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else _KIB)
    return int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, flags=re.MULTILINE)[0]) * _KIB


def run(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command to its end.

    Raises:
        BenchmarkError: it failed; with the last line it said.

    """
    done = subprocess.run(  # noqa: S603 - commands of the benchmarks
        [sys.executable, "-m", "benchmarks.measured", *command],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "PYTHONPATH": str(_ROOT)},
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BenchmarkError(f"{Path(command[0]).name}: got exit {done.returncode} ({said}); allowed 0; try it by hand")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _measure(command: Sequence[str]) -> int:
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=sys.stderr) as process:  # noqa: S603 - as above
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    cost = {
        "seconds": time.perf_counter() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_rss_bytes": used.ru_maxrss * _KIB,
    }
    sys.stdout.write(json.dumps(cost))
    return process.returncode


if __name__ == "__main__":
    sys.exit(_measure(sys.argv[1:]))
