"""What the page can ask for: traffic, a fault, the end of a fault; each a JSON document in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar

import orjson

from local.faults import EVERY, KINDS, Fault, Faults, make
from local.page.document import FaultInForce, FaultKind, short
from local.page.traffic import Burst, Sender
from serving.errors import LocalStackError
from serving.spec.codec import from_json

T = TypeVar("T")

MAX_NAME: Final = 200
_KINDS_OF_VALUE: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "str": ("a text", (str,)),
    "float": ("a number", (int, float)),
    "int": ("a whole number", (int,)),
}
_OPTIONS: Final = {field.name: str(field.type) for field in fields(Fault) if field.name not in {"name", "kind"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The name of a fault."""

    name: str


class Actions:
    """Does what a POST asks for; `changed` is called after each change, so that the next document shows it."""

    def __init__(self, *, faults: Faults, sender: Sender, changed: Callable[[], None]) -> None:
        self._faults = faults
        self._sender = sender
        self._changed = changed

    def by_path(self) -> Mapping[str, Callable[[bytes], dict[str, Any]]]:
        """Give the actions by the last part of their path."""
        return {"traffic": self.send, "faults": self.add, "faults/remove": self.remove}

    def send(self, body: bytes) -> dict[str, Any]:
        """Send a burst: `{"target": …, "requests": …, "clients": …}`.

        Raises:
            LocalStackError: not such a document, out of bounds, or another burst is under way.

        """
        result = self._sender.send(_parse(body, Burst))
        self._changed()
        return asdict(result)

    def add(self, body: bytes) -> dict[str, Any]:
        """Add a fault, as `streamhub local fault add` does: `{"kind": …, <its options>}`.

        Raises:
            LocalStackError: not such a document, or no such fault.

        """
        fault = fault_of(body)
        self._faults.add(fault)
        self._changed()
        return {"added": fault.name}

    def remove(self, body: bytes) -> dict[str, Any]:
        """Remove a fault, as `streamhub local fault remove` does: `{"name": …}`.

        Raises:
            LocalStackError: not such a document, or there is no such fault.

        """
        named = _parse(body, Named)
        self._faults.remove(named.name)
        self._changed()
        return {"removed": named.name}


def fault_of(body: bytes) -> Fault:
    """Read a fault from JSON.

    Raises:
        LocalStackError: with all that is wrong.

    """
    document = _object(body)
    kind = document.pop("kind", None)
    wrong = [] if isinstance(kind, str) else [f"kind: got {kind!r}; allowed: {', '.join(KINDS)}"]
    wrong += [problem for name, value in document.items() if (problem := _wrong(name, value))]
    if wrong:
        raise LocalStackError("; ".join(wrong))
    return make(str(kind), **document)


def in_force(fault: Fault) -> FaultInForce:
    """Give a fault as the page shows it: what it meets and how."""
    said = (_said(name, getattr(fault, name)) for name in KINDS[fault.kind].options)
    return FaultInForce(name=short(fault.name), kind=fault.kind, text=short(", ".join(text for text in said if text)))


def kinds() -> list[FaultKind]:
    """Give every fault that can be asked for."""
    return [FaultKind(kind=kind, does=found.does, takes=found.options) for kind, found in KINDS.items()]


def _said(name: str, value: object) -> str:
    if value == EVERY:
        return f"every {name}"
    if name == "share":
        return f"{value:.0%} of calls"
    if name == "delay_ms":
        return f"{value:g} ms more"
    if name == "seconds":
        return f"{value:+g} s"
    if name == "count":
        return f"{value} calls left" if value else ""
    return f"{name} {value}" if value else ""


def _wrong(name: str, value: object) -> str:
    if name not in _OPTIONS:
        return f"{short(name)}: unknown; allowed: kind, {', '.join(_OPTIONS)}"
    allowed, types = _KINDS_OF_VALUE[_OPTIONS[name]]
    if isinstance(value, bool) or not isinstance(value, types):
        return f"{name}: got {short(repr(value))}; allowed: {allowed}"
    if isinstance(value, str) and len(value) > MAX_NAME:
        return f"{name}: got {len(value)} characters; allowed: up to {MAX_NAME}"
    return ""


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise LocalStackError(f"body: got no JSON ({error}); allowed: one JSON object") from error
    if not isinstance(document, dict):
        raise LocalStackError(f"body: got {type(document).__name__}; allowed: one JSON object")
    return document


def _parse(body: bytes, kind: type[T]) -> T:
    _object(body)
    try:
        return from_json(body, kind)
    except ValueError as error:
        raise LocalStackError(f"body: {error}") from error
