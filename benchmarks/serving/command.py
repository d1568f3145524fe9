"""What `streamhub bench serving` does between its options and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from benchmarks.serving import peers, plan, report
from benchmarks.serving.peers import Peer
from benchmarks.serving.plots import draw
from benchmarks.serving.rounds import Told
from benchmarks.serving.run import run as measured
from benchmarks.serving.targets import targets


def run(
    asked: Sequence[str], *, quick: bool, repeats: int | None, cache: Path, out: Path, told: Told
) -> tuple[dict[str, object], list[str]]:
    """Measure, write the three files into `out`, and give the document and its lines.

    Raises:
        BenchmarkError: there is no C compiler.

    """
    chosen = chosen_peers(asked, quick=quick)
    sizes = plan.QUICK if quick else plan.Plan()
    if repeats is not None:
        sizes = replace(sizes, repeats=repeats)
    names = ", ".join(peer.name for peer in chosen)
    told(f"{names}: about {plan.estimate_s(sizes, chosen) / 60:.0f} minutes, once they are installed")
    results = measured(chosen, sizes, cache=cache, told=told)
    reached = targets(results)
    document = report.document(results, reached)
    out.mkdir(parents=True, exist_ok=True)
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    (out / "serving.json").write_bytes(orjson.dumps(document, option=options) + b"\n")
    (out / "serving.md").write_text(report.markdown(results, reached))
    draw(results, out / "serving.svg")
    told(f"written: {out}/serving.json, serving.md and serving.svg")
    return document, report.summary(results, reached)


def unknown_peers(asked: Sequence[str]) -> str:
    """Say which names are in no table and which are; empty when all are known."""
    unknown = sorted(set(asked) - set(peers.BY_NAME))
    return f"got {', '.join(unknown)}; allowed {', '.join(peers.BY_NAME)}" if unknown else ""


def chosen_peers(asked: Sequence[str], *, quick: bool) -> list[Peer]:
    """Give the peers by name, ours and the floor always among them, in the order of the table."""
    wanted = {*asked, peers.OURS, peers.NOOP} if asked else set(peers.QUICK if quick else peers.BY_NAME)
    return [peer for peer in peers.ALL if peer.name in wanted]
