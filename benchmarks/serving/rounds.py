"""The measurements themselves, over servers that are all started: in rounds, each server in turn, one awake at a time.

A noisy minute of the host so falls on everyone. A server that fails leaves the rounds, and its row says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.serving import in_process, processes
from benchmarks.serving.instance import Instance
from benchmarks.serving.models import BenchModel
from benchmarks.serving.peers import OURS
from benchmarks.serving.plan import IN_PROCESS_ROWS, OPEN_CONNECTIONS, OVERLOADS, Plan
from benchmarks.serving.results import Cell, Closed, InProcess, Open, Overload, Sample
from benchmarks.serving.statistics import Probe, goodput, highest, next_rate, probe_of
from benchmarks.serving.wires import Kind
from serving.errors import BenchmarkError

Told = Callable[[str], None]

FIRST_SHARE = 0.5
"""The search starts at this share of what the closed loop of 32 clients was answered."""

PATIENCE_SHARE = 0.25
"""How much of the time an answer has a caller spends on waiting for a free connection of its pool, in overload."""

_MOST_CLIENTS = 64
_SEARCH_CLIENTS = 32
_SEARCH_KIND: Kind = "binary"


@dataclass(slots=True, kw_only=True)
class Rounds:
    """The servers of one model and what was seen so far; `failed` says why a server left."""

    model: BenchModel
    graph: Path
    plan: Plan
    instances: list[Instance]
    told: Told
    samples: dict[Cell, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[str, str] = field(default_factory=dict)
    _alone: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def closed_loops(self) -> list[Closed]:
        """Run every cell of every server, and the model in this process, `repeats` times."""
        for instance in list(self.instances):
            self._guarded(instance, _warm_up)
        for turn in range(self.plan.repeats):
            self.told(f"{self.model.name}: closed loops, round {turn + 1} of {self.plan.repeats}")
            for instance in _rotated(self.instances, turn):
                self._guarded(instance, self._cells)
            with processes.pinned(processes.SERVER_CORE):
                for rows in IN_PROCESS_ROWS:
                    seconds = self.plan.in_process_s
                    self._alone[rows].append(in_process.rows_per_s(self.model, self.graph, rows=rows, seconds=seconds))
        return [Closed.of(cell, samples) for cell, samples in self.samples.items()]

    def floors(self) -> list[InProcess]:
        """Give how fast the model was in this process, in the same rounds."""
        name = self.model.name
        return [InProcess(model=name, rows=rows, rate=median(rates)) for rows, rates in self._alone.items()]

    def _cells(self, instance: Instance) -> None:
        for kind, clients in self.plan.cells(instance.peer, instance.setting):
            seconds = self.plan.closed_for(instance.peer)
            sample = instance.closed_loop(kind, clients=clients, seconds=seconds)
            self.samples[self._cell(instance, kind, clients)].append(sample)

    def _cell(self, instance: Instance, kind: Kind, clients: int) -> Cell:
        name, setting = instance.peer.name, instance.setting
        return Cell(model=self.model.name, peer=name, setting=setting, kind=kind, clients=clients)

    def searches(self) -> list[Open]:
        """Search the highest rate of the fastest servers, a probe of each in turn."""
        chosen = {peer.name for peer in self.plan.searched([each.peer for each in self.instances])}
        searched = [each for each in self.instances if each.peer.name in chosen and each.setting == "best"]
        active = list(searched)
        probes: dict[str, list[Probe]] = defaultdict(list)
        self.told(f"{self.model.name}: highest rates of {', '.join(each.peer.name for each in active)}")
        while active:
            for instance in list(active):
                tried = probes[instance.peer.name]
                rate = next_rate(tried, first=self._first_rate(instance), budget_ms=self.model.budget_ms)
                if rate is None or not self._guarded(instance, lambda each: tried.append(self._probe(each, rate))):  # noqa: B023 - called at once
                    active.remove(instance)
        return [self._open(each, tuple(probes[each.peer.name])) for each in searched]

    def _first_rate(self, instance: Instance) -> float:
        samples = self.samples[self._cell(instance, _SEARCH_KIND, _SEARCH_CLIENTS)]
        return FIRST_SHARE * median(sample.rate for sample in samples)

    def _probe(self, instance: Instance, rate: float) -> Probe:
        plan = self.plan
        load = instance.open_loop(
            _SEARCH_KIND, rate=rate, connections=OPEN_CONNECTIONS, seconds=plan.probe_s, seed=round(rate)
        )
        return probe_of(rate, load.due_s, load.latency_s, slice_s=plan.slice_s, skip_s=plan.skip_s)

    def _open(self, instance: Instance, probes: tuple[Probe, ...]) -> Open:
        found = highest(probes, budget_ms=self.model.budget_ms)
        return Open(
            model=self.model.name,
            peer=instance.peer.name,
            kind=_SEARCH_KIND,
            budget_ms=self.model.budget_ms,
            rate=found.rate if found else None,
            p90_ms=found.p90_ms if found else None,
            p99_ms=found.p99_ms if found else None,
            probes=probes,
        )

    def overloads(self) -> list[Overload]:
        """Ask our server above its capacity, which is measured just before; answers count within `in_time_ms`."""
        ours = next((each for each in self.instances if each.peer.name == OURS), None)
        if ours is None:
            return []
        self.told(f"{self.model.name}: overload")
        seen: dict[float, list[tuple[float, float]]] = defaultdict(list)
        for turn in range(self.plan.repeats):
            for load in OVERLOADS:
                self._guarded(ours, lambda each: seen[load].append(self._overload(each, load, turn)))  # noqa: B023 - called at once
        return [self._overload_of(load, pairs) for load, pairs in seen.items()]

    def _overload(self, ours: Instance, load: float, turn: int) -> tuple[float, float]:
        plan, in_time_s = self.plan, self.model.in_time_ms / 1e3
        capacity = ours.closed_loop(_SEARCH_KIND, clients=_MOST_CLIENTS, seconds=plan.closed_s).rate
        run = ours.open_loop(
            _SEARCH_KIND,
            rate=load * capacity,
            connections=OPEN_CONNECTIONS,
            seconds=plan.skip_s + plan.overload_s,
            patience_s=PATIENCE_SHARE * in_time_s,
            seed=turn,
        )
        return capacity, goodput(run.due_s, run.latency_s, within_s=in_time_s, skip_s=plan.skip_s)

    def _overload_of(self, load: float, pairs: Sequence[tuple[float, float]]) -> Overload:
        capacity = median(pair[0] for pair in pairs)
        return Overload(
            model=self.model.name,
            load=load,
            capacity=capacity,
            offered=load * capacity,
            goodput=median(pair[1] for pair in pairs),
            share=median(good / of for of, good in pairs),
        )

    def _guarded(self, instance: Instance, measure: Callable[[Instance], None]) -> bool:
        try:
            with instance.awake():
                measure(instance)
        except (BenchmarkError, OSError, ValueError) as error:
            self.told(f"{instance.name}: {error}")
            self.failed[instance.name] = str(error)
            self.instances.remove(instance)
            return False
        return True


def _warm_up(instance: Instance) -> None:
    for kind in instance.peer.routes:
        instance.closed_loop(kind, clients=_SEARCH_CLIENTS, seconds=instance.peer.warm_s)


def _rotated(instances: Sequence[Instance], turn: int) -> list[Instance]:
    first = turn % max(1, len(instances))
    return [*instances[first:], *instances[:first]]
