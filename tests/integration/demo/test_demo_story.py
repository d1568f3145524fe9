"""`streamhub demo --fast` from its start to its end, and ended in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.demo.pace import FAST
from cli.demo.story import planned

pytestmark = pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ, reason="it takes both cores for a minute; make test-train runs it alone"
)
COMMAND = [sys.executable, "-c", "from cli.main import main; main()", "demo", "--fast", "--json"]


def left_of(state: Path) -> list[str]:
    """Give the command lines of processes that name the stack's folder."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(state) in line:
            lines.append(line)
    return lines


@pytest.fixture(scope="module", name="told")
def told_fixture(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, Path]:
    state = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [*COMMAND, "--state", str(state)], cwd=root, capture_output=True, text=True, check=False, timeout=840
    )
    assert (done.returncode, left_of(state)) == (0, []), done.stderr
    return json.loads(done.stdout), done.stderr, state


@pytest.mark.timeout(900)
def test_every_scene_comes_in_order_and_keeps_its_promises(told: tuple[dict[str, Any], str, Path]) -> None:
    document, progress, _ = told
    assert document["as_promised"]
    assert [scene["title"] for scene in document["scenes"]] == list(planned(keep=False))
    assert [promise for scene in document["scenes"] for promise in scene["promises"] if not promise["kept"]] == []
    assert [line for line in progress.splitlines() if line in planned(keep=False)] == list(planned(keep=False))


def test_the_better_version_ends_with_all_traffic_and_the_worse_one_with_none(
    told: tuple[dict[str, Any], str, Path],
) -> None:
    better, worse = told[0]["better"], told[0]["worse"]
    assert better["weights"] == worse["weights"] == {"2.0.0": 0.0, "3.0.0": 1.0}
    assert better["looks"][-1]["lower"] > 0 > worse["looks"][-1]["upper"]
    assert all(look["weights"]["2.0.0"] <= 0.5 for look in worse["looks"])


def test_every_request_is_counted_and_the_fault_degrades_about_half(told: tuple[dict[str, Any], str, Path]) -> None:
    document, _, _ = told
    requests = document["requests"]
    assert requests["sent"] == sum(requests[name] for name in ("answered", "shed", "errors", "lost"))
    [fault] = document["faults"]
    # 100 calls of which each fails with chance 1/2: five standard deviations
    assert abs(fault["during"]["degraded"] - FAST.visits_an_outage / 2) < 25
    assert fault["during"]["reasons"] == {"fallback_model": fault["during"]["degraded"]}


def test_it_says_what_it_left_out_and_leaves_a_report(told: tuple[dict[str, Any], str, Path]) -> None:
    document, progress, state = told
    assert document["shortened"] == list(FAST.shortened)
    assert all(text in progress for text in FAST.shortened)
    assert Path(document["report"]) == state.resolve() / "report.html"
    assert "All as promised" in Path(document["report"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_in_the_middle_ends_all_of_it(root: Path, tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*COMMAND, "--state", str(tmp_path)], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        while "services" not in (line := demo.stderr.readline()) and "brought" not in line:
            assert line, "it ended before it started"
        demo.send_signal(number)
        out, last = demo.communicate(timeout=120)
    assert demo.returncode == 128 + number
    assert out == ""
    assert last.splitlines()[-1:] == ["streamhub: interrupted; what it had started is ended"]
    assert left_of(tmp_path) == []
