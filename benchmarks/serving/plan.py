"""How long and how often each thing is measured, so that all of it fits into the time there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.serving import peers
from benchmarks.serving.models import MODELS, RANKER, BenchModel
from benchmarks.serving.peers import Peer, Setting
from benchmarks.serving.wires import Kind

CLIENTS = (1, 8, 32, 64)
WINDOW_CLIENTS = (1, 32)
KINDS: tuple[Kind, ...] = ("json", "binary")
OVERLOADS = (1.5, 3.0)
OPEN_CONNECTIONS = 256
IN_PROCESS_ROWS = (1, 8, 32)

_SEARCHED = (peers.OURS, "triton", "mosec", "fastapi", "torchserve")
"""Whose highest rate is searched: the fastest by the closed loops; the others are many times slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sizes of one run.

    `slices` of `slice_s` make one probe of an open loop, behind `skip_s` of warm-up; `overload_s` is asked above
    capacity in each round.
    """

    repeats: int = 5
    closed_s: float = 0.5
    slices: int = 20
    slice_s: float = 0.1
    skip_s: float = 0.2
    overload_s: float = 1.5
    in_process_s: float = 0.4
    clients: tuple[int, ...] = CLIENTS

    @property
    def probe_s(self) -> float:
        """How long one rate is tried."""
        return self.skip_s + self.slices * self.slice_s

    def closed_for(self, peer: Peer) -> float:
        """How long one closed loop of a peer lasts: one that is not paused is slow, and has few answers to count."""
        return self.closed_s * (_ALONE_TIMES if peer.alone else 1)

    def settings(self, peer: Peer, model: BenchModel) -> tuple[Setting, ...]:
        """Give the settings a peer is started with: a window changes little where arithmetic decides."""
        return tuple(peer.windows_ms) if model is RANKER else ("best",)

    def cells(self, peer: Peer, setting: Setting) -> Iterator[tuple[Kind, int]]:
        """Give the closed loops of one server."""
        clients = self.clients if setting == "best" else WINDOW_CLIENTS
        for kind in KINDS:
            if kind in peer.routes:
                for count in clients:
                    yield kind, count

    def searched(self, chosen: Sequence[Peer]) -> list[Peer]:
        """Give the peers whose highest open-loop rate is searched."""
        return [peer for peer in chosen if peer.name in _SEARCHED]


QUICK = Plan(repeats=2, closed_s=0.3, slice_s=0.05, overload_s=0.6, clients=(1, 32))


def estimate_s(plan: Plan, chosen: Sequence[Peer]) -> float:
    """Say roughly how long a run will take, environments there."""
    start_s = {"ray-serve": 14.0, "bentoml": 4.0, "mlserver": 4.0, "litserve": 3.0, "torchserve": 3.0}
    total_s = 0.0
    for model in MODELS:
        for peer in chosen:
            for setting in plan.settings(peer, model):
                cells = len(list(plan.cells(peer, setting)))
                total_s += start_s.get(peer.name, 1.0) + peer.warm_s * len(peer.routes)
                total_s += plan.repeats * cells * (plan.closed_for(peer) + _PAUSE_S)
        total_s += len(plan.searched(chosen)) * _PROBES * (plan.probe_s + _PAUSE_S)
        total_s += plan.repeats * len(OVERLOADS) * (plan.overload_s + plan.closed_s)
        total_s += plan.repeats * len(IN_PROCESS_ROWS) * plan.in_process_s
    return total_s


_PAUSE_S = 0.1
_ALONE_TIMES = 2
_PROBES = 7
