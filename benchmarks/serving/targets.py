"""The numbers the model server has to reach, beside what was measured in the same run; pure.

A ratio is of medians. What was not measured, since a peer was left out or did not run, is neither met nor missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.serving.invariants import GOODPUT_SHARE
from benchmarks.serving.models import MODERATOR, RANKER
from benchmarks.serving.peers import NOOP, OURS
from benchmarks.serving.results import Closed, Results
from benchmarks.serving.wires import Kind

TRITON_ONNX_CPU_US: dict[Kind, float] = {"json": 33.0, "binary": 30.0}
"""CPU a request of Triton 2.51 with its C++ ONNX backend, 32 clients, ranker, 10 ms: measured apart on two cores in
December 2026, since no package carries that backend. With no delay it took 42 and 38."""

TRITON_ONNX_LONE_MS = 0.06
"""Lone request, p50, of the same server with no delay."""

_CLIENTS = 32
_FLOOR = {"binary": 1.6, "json": 2.2}
_PEER_SHARE = 0.5
_START_S, _IDLE_MIB = 1.0, 110.0
_IN_PROCESS_SHARE = {"binary": 0.95, "json": 0.85}
_BEST_PEER = 2.0
Bound = Literal["at most", "at least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One number: `measured` against `bound` `target`; `of` says the two figures it was made from."""

    what: str
    bound: Bound
    target: float
    measured: float | None
    of: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None where it was not measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target if self.bound == "at most" else self.measured >= self.target

    def document(self) -> dict[str, object]:
        """Give plain values."""
        return {
            "what": self.what,
            "bound": self.bound,
            "target": self.target,
            "measured": None if self.measured is None else round(self.measured, 3),
            "met": self.met,
            "of": self.of,
        }


def targets(results: Results) -> list[Target]:
    """Give every target of the model server."""
    return [
        *_cpu(results),
        *_moderator(results),
        *_open(results),
        *_startup(results),
        *_overload(results),
        *_lone(results),
    ]


def _cpu(results: Results) -> Iterator[Target]:
    for kind in ("json", "binary"):
        ours = _best(results, OURS, RANKER.name, kind)
        for peer, share in (("mosec", _PEER_SHARE), (NOOP, _FLOOR[kind])):
            theirs = _best(results, peer, RANKER.name, kind)
            of = f"{ours.cpu_us:.1f} / {theirs.cpu_us:.1f} us" if ours and theirs else ""
            measured = ours.cpu_us / theirs.cpu_us if ours and theirs else None
            what = f"CPU a request, ranker, {kind}, {_CLIENTS} clients: share of {peer}"
            yield Target(what=what, bound="at most", target=share, measured=measured, of=of)
        triton_us = TRITON_ONNX_CPU_US[kind]
        yield Target(
            what=f"CPU a request, ranker, {kind}: share of Triton with its C++ ONNX backend, measured apart",
            bound="at most",
            target=_PEER_SHARE,
            measured=ours.cpu_us / triton_us if ours else None,
            of=f"{ours.cpu_us:.1f} / {triton_us:g} us" if ours else "",
        )


def _moderator(results: Results) -> Iterator[Target]:
    alone = max((each.rate for each in results.in_process if each.model == MODERATOR.name), default=None)
    for kind in ("binary", "json"):
        ours = _best(results, OURS, MODERATOR.name, kind)
        known = ours is not None and alone is not None
        yield Target(
            what=f"images a second, {kind}, {_CLIENTS} clients: share of ONNX Runtime in process",
            bound="at least",
            target=_IN_PROCESS_SHARE[kind],
            measured=ours.rate / alone if ours and alone else None,
            of=f"{ours.rate:.0f} / {alone:.0f} a second" if known and ours and alone else "",
        )
    ours, triton = (_best(results, peer, MODERATOR.name, "binary") for peer in (OURS, "triton"))
    yield Target(
        what="images a second, binary: share of Triton (Python backend)",
        bound="at least",
        target=1.0,
        measured=ours.rate / triton.rate if ours and triton else None,
        of=f"{ours.rate:.0f} / {triton.rate:.0f} a second" if ours and triton else "",
    )


def _open(results: Results) -> Iterator[Target]:
    for model, share in ((RANKER.name, _BEST_PEER), (MODERATOR.name, 1.0)):
        rates = {each.peer: each.rate for each in results.open if each.model == model and each.rate is not None}
        ours = rates.pop(OURS, None)
        peers = {name: rate for name, rate in rates.items() if name == "triton" or model == RANKER.name}
        best = max(peers, key=lambda name: peers[name], default=None)
        yield Target(
            what=f"highest open-loop rate, {model}, binary: share of the best peer"
            if model == RANKER.name
            else f"highest open-loop rate, {model}, binary: share of Triton (Python backend)",
            bound="at least",
            target=share,
            measured=ours / peers[best] if ours and best else None,
            of=f"{ours:.0f} / {peers[best]:.0f} a second ({best})" if ours and best else "",
        )


def _startup(results: Results) -> Iterator[Target]:
    ours = next((each for each in results.started if each.peer == OURS and each.model == RANKER.name), None)
    yield Target(
        what="start to first answer, s", bound="at most", target=_START_S, measured=ours.start_s if ours else None
    )
    yield Target(
        what="memory of an idle server, MiB (PSS)",
        bound="at most",
        target=_IDLE_MIB,
        measured=ours.idle_mib if ours else None,
    )


def _overload(results: Results) -> Iterator[Target]:
    for each in results.overload:
        yield Target(
            what=f"goodput at {each.load:g} x capacity, {each.model}: share of capacity",
            bound="at least",
            target=GOODPUT_SHARE,
            measured=each.share,
            of=f"{each.goodput:.0f} / {each.capacity:.0f} a second",
        )


def _lone(results: Results) -> Iterator[Target]:
    ours, triton = (results.cell(peer, RANKER.name, "binary", 1) for peer in (OURS, "triton"))
    yield Target(
        what="lone request, ranker, binary, p50: share of Triton without delay (Python backend)",
        bound="at most",
        target=1.0,
        measured=ours.p50_ms / triton.p50_ms if ours and triton else None,
        of=f"{ours.p50_ms:.3f} / {triton.p50_ms:.3f} ms" if ours and triton else "",
    )
    yield Target(
        what="lone request, ranker, binary, p50 in ms; Triton's C++ ONNX backend, measured apart",
        bound="at most",
        target=TRITON_ONNX_LONE_MS,
        measured=ours.p50_ms if ours else None,
    )


def _best(results: Results, peer: str, model: str, kind: Kind) -> Closed | None:
    """Give the cell of the setting that took less CPU: a peer is compared at its best."""
    found: Sequence[Closed | None] = [
        results.cell(peer, model, kind, _CLIENTS, "best"),
        results.cell(peer, model, kind, _CLIENTS, "window"),
    ]
    return min((each for each in found if each is not None), key=lambda each: each.cpu_us, default=None)
