"""`bench local` for a moment: each way is measured, and every answer was the model server's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.local_stack.command import run
from benchmarks.serving.environments import DEFAULT

pytestmark = [
    pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="it measures; make test-train runs it alone"),
    pytest.mark.train,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the load client is compiled: no C compiler here"),
]


def test_a_short_run_has_every_way_and_writes_its_three_files(tmp_path: Path) -> None:
    told: list[str] = []
    document, lines = run(repeats=1, seconds=0.5, cache=DEFAULT.expanduser(), out=tmp_path, told=told.append)
    samples = document["samples"]
    assert isinstance(samples, list)
    assert {(each["way"], each["clients"]) for each in samples} == {
        ("model server", 1), ("model server", 8), ("InvokeEndpoint", 1), ("InvokeEndpoint", 8), ("boto3", 1),
    }  # fmt: skip
    assert all(0 < each["p50_ms"] <= each["p90_ms"] <= each["p99_ms"] for each in samples)
    assert all(each["server_cpu_us"] > 0 and each["client_cpu_us"] > 0 for each in samples)
    assert {path.name for path in tmp_path.iterdir()} == {"local_stack.json", "local_stack.md", "local_stack.svg"}
    assert len(lines) == 4
