"""What a run found: frozen values that the targets, the table, the plots and `--json` are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks.serving.peers import Setting
from benchmarks.serving.statistics import Probe
from benchmarks.serving.wires import Kind


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cell:
    """One closed loop: who is asked, how, by how many clients."""

    model: str
    peer: str
    setting: Setting
    kind: Kind
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One short run of a cell.

    `cpu_us` is of the server and all it started, a request; `client_share` how much of its core the client used;
    `failed` counts answers other than 200, `wrong` those that differ from in-process results.
    """

    rate: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    cpu_us: float
    client_share: float
    failed: int
    wrong: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Medians over the runs of a cell; `cpu_us_low` and `cpu_us_high` are the extremes."""

    cell: Cell
    runs: int
    rate: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    cpu_us: float
    cpu_us_low: float
    cpu_us_high: float
    client_share: float
    failed: int
    wrong: int

    @classmethod
    def of(cls, cell: Cell, samples: Sequence[Sample]) -> Closed:
        """Summarise at least one run."""
        cpu_us = [sample.cpu_us for sample in samples]
        return cls(
            cell=cell,
            runs=len(samples),
            rate=median(sample.rate for sample in samples),
            p50_ms=median(sample.p50_ms for sample in samples),
            p90_ms=median(sample.p90_ms for sample in samples),
            p99_ms=median(sample.p99_ms for sample in samples),
            cpu_us=median(cpu_us),
            cpu_us_low=min(cpu_us),
            cpu_us_high=max(cpu_us),
            client_share=median(sample.client_share for sample in samples),
            failed=sum(sample.failed for sample in samples),
            wrong=sum(sample.wrong for sample in samples),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One server that was started, or could not be: `why` is empty where it ran to the end."""

    model: str
    peer: str
    setting: Setting
    version: str
    start_s: float | None = None
    idle_mib: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """The highest rate of a Poisson process that kept the p90 within the budget; None where none did."""

    model: str
    peer: str
    kind: Kind
    budget_ms: float
    rate: float | None
    p90_ms: float | None
    p99_ms: float | None
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """Answers in time a second at `load` times the capacity, as a share of the capacity; medians.

    The capacity is what the server answers to the closed loop of most clients, in the same round.
    """

    model: str
    load: float
    capacity: float
    offered: float
    goodput: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """ONNX Runtime alone, one thread: rows a second at one batch size; the median of the rounds."""

    model: str
    rows: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One promise of the server, tried on the real one."""

    name: str
    held: bool
    measured: str


@dataclass(slots=True, kw_only=True)
class Results:
    """All of one run."""

    machine: Mapping[str, object]
    repeats: int
    seconds: float = 0.0
    started: list[Started] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    overload: list[Overload] = field(default_factory=list)
    in_process: list[InProcess] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)

    def cell(self, peer: str, model: str, kind: Kind, clients: int, setting: Setting = "best") -> Closed | None:
        """Find a cell; None where it was not measured."""
        wanted = Cell(model=model, peer=peer, setting=setting, kind=kind, clients=clients)
        return next((each for each in self.closed if each.cell == wanted), None)

    def document(self) -> dict[str, object]:
        """Give everything as plain values."""
        return asdict(self)
