"""A run as Markdown: targets, then a table a model, then what the numbers are worth; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.serving.models import MODELS, WINDOW_MS, BenchModel
from benchmarks.serving.peers import BY_NAME, NOOP, OURS
from benchmarks.serving.results import Closed, Results, Started
from benchmarks.serving.targets import Target
from benchmarks.serving.wires import Kind

COMMAND = ".venv/bin/streamhub bench serving"
_NONE = "-"
_SETTINGS = {"best": "", "window": f", {WINDOW_MS} ms"}


def document(results: Results, reached: Sequence[Target]) -> dict[str, object]:
    """Give the JSON document of a run."""
    return {"targets": [target.document() for target in reached], **results.document()}


def markdown(results: Results, reached: Sequence[Target]) -> str:
    """Give the whole report."""
    return "\n".join(
        [
            "# Model servers, measured in one run",
            "",
            f"Written by `{COMMAND}`: {results.repeats} rounds, {results.seconds / 60:.0f} minutes, "
            + ", ".join(f"{key} {value}" for key, value in results.machine.items())
            + ".",
            "",
            *_targets(reached),
            *(line for model in MODELS for line in _model(results, model)),
            *_invariants(results),
            *_notes(results),
        ]
    )


def summary(results: Results, reached: Sequence[Target]) -> list[str]:
    """Give the lines a person reads at the end of a run."""
    marks = {True: "met   ", False: "MISSED", None: "-     "}
    lines = [f"{marks[target.met]} {target.what}: {_figure(target)}" for target in reached]
    lines += [f"{marks[each.held]} {each.name}: {each.measured}" for each in results.invariants]
    return lines + [f"not run: {each.peer} ({each.model}): {each.why}" for each in results.started if each.why]


def _targets(reached: Sequence[Target]) -> Iterator[str]:
    yield from ("## Targets", "", "| what | target | measured | met |", "| --- | --- | --- | --- |")
    words = {True: "yes", False: "**no**", None: "not measured"}
    for target in reached:
        measured = _NONE if target.measured is None else f"{target.measured:.2f}"
        of = f" ({target.of})" if target.of else ""
        yield f"| {target.what} | {target.bound} {target.target:g} | {measured}{of} | {words[target.met]} |"
    yield ""


def _figure(target: Target) -> str:
    if target.measured is None:
        return f"not measured; {target.bound} {target.target:g}"
    of = f", {target.of}" if target.of else ""
    return f"{target.measured:.2f} ({target.bound} {target.target:g}{of})"


def _model(results: Results, model: BenchModel) -> Iterator[str]:
    alone = [each for each in results.in_process if each.model == model.name]
    rates = ", ".join(f"{each.rate:,.0f} rows/s in batches of {each.rows}" for each in alone)
    yield from (f"## {model.name}", "", f"ONNX Runtime in process, one thread: {rates}.", "")
    yield (
        "| server | JSON, 32 clients: a second / p50 / p99 ms / CPU µs | binary, 32 clients | binary, 8 | binary, 64 | "
        f"alone, p50 ms (JSON / binary) | highest rate, p90 ≤ {model.budget_ms:g} ms | start s | idle MiB |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    started = [each for each in results.started if each.model == model.name]
    for each in sorted(started, key=lambda each: _cost(results, each)):
        yield _row(results, each)
    yield ""


def _cost(results: Results, started: Started) -> float:
    cell = results.cell(started.peer, started.model, "json", 32, started.setting)
    return cell.cpu_us if cell else float("inf")


def _row(results: Results, started: Started) -> str:
    def cell(kind: Kind, clients: int) -> Closed | None:
        return results.cell(started.peer, started.model, kind, clients, started.setting)

    name = f"{started.peer} {started.version}".strip() + _SETTINGS[started.setting]
    if started.start_s is None:
        return f"| {name} | not run: {started.why} |" + " |" * 7
    alone = " / ".join(
        _NONE if found is None else f"{found.p50_ms:.2f}" for found in (cell("json", 1), cell("binary", 1))
    )
    figures = [_loop(cell("json", 32)), *(_loop(cell("binary", clients)) for clients in (32, 8, 64))]
    memory = f"{started.idle_mib:.0f}" if started.idle_mib is not None else _NONE
    cells = [name, *figures, alone, _highest(results, started), f"{started.start_s:.1f}", memory]
    return "| " + " | ".join(cells) + " |"


def _loop(cell: Closed | None) -> str:
    if cell is None:
        return _NONE
    doubts = "".join(f", {count} {what}" for what, count in (("failed", cell.failed), ("wrong", cell.wrong)) if count)
    return f"{cell.rate:,.0f} / {cell.p50_ms:.2f} / {cell.p99_ms:.2f} / **{_us(cell.cpu_us)}**{doubts}"


def _us(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004 - three digits are enough


def _highest(results: Results, started: Started) -> str:
    for each in results.open:
        if (each.model, each.peer) == (started.model, started.peer) and started.setting == "best":
            return _NONE if each.rate is None else f"{each.rate:,.0f}/s (p90 {each.p90_ms:.1f}, p99 {each.p99_ms:.1f})"
    return _NONE


def _invariants(results: Results) -> Iterator[str]:
    yield from ("## Promises, tried on the real server", "", "| promise | held | measured |", "| --- | --- | --- |")
    for each in results.invariants:
        yield f"| {each.name} | {'yes' if each.held else '**no**'} | {each.measured} |"
    yield ""


_HOW = """\
## How to read it

Servers have core 0, the load client core 1; ONNX Runtime has one thread that does not spin; batches are of at most 32
rows. All servers of a model are started, one runs at a time, the others are stopped (SIGSTOP). CPU is of the server and
all it started, from `/proc/<pid>/task/*/schedstat`: it moves least with the host's noise, rates and p99 most. Closed
loops give the median of the rounds. The highest rate is searched with a Poisson process, latency counts from when a
request was due, and the median of the slices' p90 decides. Every connection's last answer is compared with in-process
results.
"""


def _notes(results: Results) -> Iterator[str]:
    share = max((each.client_share for each in results.closed if each.cell.peer in (OURS, NOOP)), default=0.0)
    yield from (_HOW, f"The client used at most {share:.0%} of its core against the two fastest servers.", "")
    present = {each.peer for each in results.started}
    yield from (f"- {peer.name}: {peer.note}" for peer in BY_NAME.values() if peer.note and peer.name in present)
    yield ""
