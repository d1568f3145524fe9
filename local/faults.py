"""Faults on demand: what the stack shall do wrong, in one file that the services look at before they act."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from serving.errors import LocalStackError

Kind = Literal[
    "slow",
    "error",
    "throttle",
    "unavailable",
    "internal",
    "dependency",
    "not-ready",
    "stream",
    "capacity",
    "unhealthy",
    "s3-412",
    "s3-409",
    "s3-503",
    "dynamodb-throttle",
    "cache",
    "clock-jump",
]
EVERY: Final = "*"
_FILE = "faults.json"
_LOCK = "faults.lock"
_MOST_DELAY_MS: Final = 60_000  # InvokeEndpoint's own limit
_MOST_JUMP_S: Final = 31 * 86_400


class KindOfFault(NamedTuple):
    """What a kind does, and which options of a fault it takes; the first names what it meets."""

    does: str
    options: tuple[str, ...]


_S3: Final = ("bucket", "prefix", "operation", "share", "count")
KINDS: Final[Mapping[str, KindOfFault]] = {
    "slow": KindOfFault("adds a delay to answers of endpoints", ("endpoint", "delay_ms", "share")),
    "error": KindOfFault("answers 500 in the container's place", ("endpoint", "share")),
    "throttle": KindOfFault("refuses InvokeEndpoint with ThrottlingException", ("endpoint", "share")),
    "unavailable": KindOfFault("refuses invocations with 503 ServiceUnavailable", ("endpoint", "share")),
    "internal": KindOfFault("refuses invocations with 500 InternalFailure", ("endpoint", "share")),
    "dependency": KindOfFault("refuses invocations with 530 InternalDependencyException", ("endpoint", "share")),
    "not-ready": KindOfFault("refuses invocations with 429 ModelNotReadyException", ("endpoint", "share")),
    "stream": KindOfFault("ends streams behind their first part with InternalStreamFailure", ("endpoint", "share")),
    "capacity": KindOfFault("lets no instances be had", ("endpoint",)),
    "unhealthy": KindOfFault("fails the health check of new containers", ("endpoint",)),
    "s3-412": KindOfFault("answers conditional writes 412 PreconditionFailed", _S3),
    "s3-409": KindOfFault("answers conditional writes 409 ConditionalRequestConflict", _S3),
    "s3-503": KindOfFault("answers S3 calls 503 SlowDown", _S3),
    "dynamodb-throttle": KindOfFault(
        "refuses DynamoDB calls with ProvisionedThroughputExceededException", ("table", "operation", "share", "count")
    ),
    "clock-jump": KindOfFault("sets the stack's clock forward, or back; removed, it is set right", ("seconds",)),
    "cache": KindOfFault("stops the Valkey server; it goes on when the fault is removed", ()),
}
"""Every kind of fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault; `*` for endpoint, bucket, table or operation meets every one.

    `share` (above 0, up to 1) of the calls meet it. `count` calls meet it and then it is gone; 0 stands for no end.
    `prefix` is that of S3 keys. `operation` is the API's name, such as PutObject. `seconds` is how far the clock is
    set forward, back if negative.
    """

    name: str
    kind: Kind
    endpoint: str = EVERY
    delay_ms: float = 1000.0
    share: float = 1.0
    bucket: str = EVERY
    prefix: str = ""
    table: str = EVERY
    operation: str = EVERY
    count: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no fault can be.

        Raises:
            LocalStackError: with all that is wrong.

        """
        wrong = [*self._foreign()]
        if self.kind not in KINDS:
            wrong.append(f"kind: got {self.kind}; allowed: {', '.join(KINDS)}")
        if not 0 < self.share <= 1:
            wrong.append(f"share: got {self.share:g}; allowed: above 0, up to 1")
        if not 0 <= self.delay_ms <= _MOST_DELAY_MS:
            wrong.append(f"delay_ms: got {self.delay_ms:g}; allowed: 0 to {_MOST_DELAY_MS}")
        if self.count < 0:
            wrong.append(f"count: got {self.count}; allowed: 0 (no end) or more")
        if self.kind == "clock-jump" and not 0 < abs(self.seconds) <= _MOST_JUMP_S:
            wrong.append(f"seconds: got {self.seconds:g}; allowed: up to {_MOST_JUMP_S} forward or back, but 0")
        if wrong:
            raise LocalStackError("; ".join(wrong))

    @property
    def meets(self) -> str:
        """What it meets: the name of an endpoint, a bucket or a table, `*` for every one."""
        options = KINDS[self.kind].options
        return str(getattr(self, options[0])) if options else EVERY

    def _foreign(self) -> Iterator[str]:
        """Say which options were given that this kind does not take."""
        kind = KINDS.get(self.kind)
        for field in fields(self) if kind is not None else ():
            given = field.default is not MISSING and getattr(self, field.name) != field.default
            if given and kind is not None and field.name not in kind.options:
                yield f"{field.name}: not an option of {self.kind}; allowed: {', '.join(kind.options) or 'none'}"


def make(kind: str, *, name: str = "", **options: Any) -> Fault:  # noqa: ANN401 - the options of Fault
    """Give a fault; without a name it is called by its kind and by what it meets.

    Raises:
        LocalStackError: with all that is wrong.

    """
    fault = Fault(name=name or kind, kind=kind, **options)  # type: ignore[arg-type]  # it refuses other kinds itself
    return fault if name else replace(fault, name=f"{kind}:{fault.meets}")


class Faults:
    """The faults of one stack; `of` reads the file again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._seen: tuple[int, int] = (0, 0)
        self._held: tuple[Fault, ...] = ()

    def all(self) -> tuple[Fault, ...]:
        """Give every fault, in the order in which they were added."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._seen, self._held = (0, 0), ()
            return ()
        now = (found.st_mtime_ns, found.st_ino)
        if now != self._seen:
            self._held = tuple(Fault(**document) for document in orjson.loads(self._path.read_bytes()))
            self._seen = now
        return self._held

    def of(self, endpoint: str, kind: Kind) -> Fault | None:
        """Give the first fault of that kind that an endpoint has."""
        return next((fault for fault in self.all() if fault.kind == kind and fault.endpoint in {endpoint, EVERY}), None)

    def clock_offset_s(self) -> float:
        """Give how far the stack's clock shall be off."""
        return sum(fault.seconds for fault in self.all() if fault.kind == "clock-jump")

    def add(self, fault: Fault) -> None:
        """Add a fault, in place of the one of that name."""
        with self._alone():
            self._write([*(held for held in self.all() if held.name != fault.name), fault])

    def spend(self, fault: Fault) -> bool:
        """Take one of the calls that a fault meets; False when it is gone, or has changed in the meantime."""
        if not fault.count:
            return True
        with self._alone():
            held = self.all()
            if fault not in held:
                return False
            left = [replace(fault, count=fault.count - 1)] if fault.count > 1 else []
            at = held.index(fault)
            self._write([*held[:at], *left, *held[at + 1 :]])
        return True

    def remove(self, name: str) -> None:
        """Remove a fault.

        Raises:
            LocalStackError: there is none of that name.

        """
        with self._alone():
            names = [fault.name for fault in self.all()]
            if name not in names:
                raise LocalStackError(f"fault: got {name}; allowed: {', '.join(names) or 'none, there are no faults'}")
            self._write([fault for fault in self.all() if fault.name != name])

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from changing the file in between."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with (self._path.parent / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._seen = (0, 0)  # two files written in one tick of the disk's clock may look the same
            yield

    def _write(self, faults: list[Fault]) -> None:
        scratch = self._path.with_suffix(".tmp")
        scratch.write_bytes(orjson.dumps([asdict(fault) for fault in faults]))
        scratch.replace(self._path)
