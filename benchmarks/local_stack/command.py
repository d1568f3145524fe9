"""What `streamhub bench local` does between its options and its answer."""

from __future__ import annotations

from pathlib import Path

import orjson

from benchmarks.local_stack import report
from benchmarks.local_stack.measure import Told
from benchmarks.local_stack.measure import run as measured
from benchmarks.local_stack.plot import draw
from benchmarks.serving.processes import hardware
from cli.demo.result import machine


def run(*, repeats: int, seconds: float, cache: Path, out: Path, told: Told) -> tuple[dict[str, object], list[str]]:
    """Measure, write the three files into `out`, and give the document and its lines.

    Raises:
        BenchmarkError: there is no C compiler, a server does not start or a run is void.

    """
    facts = {**machine(), **hardware()}
    samples = measured(repeats=repeats, seconds=seconds, cache=cache, told=told)
    document = report.document(samples, facts, rounds=repeats)
    out.mkdir(parents=True, exist_ok=True)
    (out / "local_stack.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    (out / "local_stack.md").write_text(report.markdown(samples, facts, rounds=repeats))
    draw(samples, out / "local_stack.svg")
    told(f"written: {out}/local_stack.json, local_stack.md and local_stack.svg")
    return document, report.lines(samples)
