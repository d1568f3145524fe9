"""Faults on demand: what the stack shall do wrong, in one file that the services look at before they act."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import orjson

from serving.errors import LocalStackError

Kind = Literal["slow", "error", "throttle", "capacity", "unhealthy"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
EVERY: Final = "*"
_FILE = "faults.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one endpoint, or of every one.

    `slow` adds `delay_ms` to answers; `error` answers 500 in the container's place; `throttle` refuses calls;
    `capacity` lets no instances be had; `unhealthy` fails the health check of new containers. `share` (0 to 1) of the
    calls meet the first three.
    """

    name: str
    kind: Kind
    endpoint: str = EVERY
    delay_ms: float = 1000.0
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no fault can be.

        Raises:
            LocalStackError: with all that is wrong.

        """
        wrong = []
        if self.kind not in KINDS:
            wrong.append(f"kind: got {self.kind}; allowed: {', '.join(KINDS)}")
        if not 0 < self.share <= 1:
            wrong.append(f"share: got {self.share:g}; allowed: above 0, up to 1")
        if not 0 <= self.delay_ms <= 60_000:  # noqa: PLR2004 - InvokeEndpoint's own limit
            wrong.append(f"delay_ms: got {self.delay_ms:g}; allowed: 0 to 60000")
        if wrong:
            raise LocalStackError("; ".join(wrong))


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

    def add(self, fault: Fault) -> None:
        """Add a fault, in place of the one of that name."""
        self._write([*(held for held in self.all() if held.name != fault.name), fault])

    def remove(self, name: str) -> None:
        """Remove a fault.

        Raises:
            LocalStackError: there is none of that name.

        """
        names = [fault.name for fault in self.all()]
        if name not in names:
            raise LocalStackError(f"fault: got {name}; allowed: {', '.join(names) or 'none, there are no faults'}")
        self._write([fault for fault in self.all() if fault.name != name])

    def _write(self, faults: list[Fault]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".tmp")
        scratch.write_bytes(orjson.dumps([asdict(fault) for fault in faults]))
        scratch.replace(self._path)
