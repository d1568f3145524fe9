"""What a client wants, and a request that was checked: what passes from reading to computing to answering."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from serving.protocol.tensors import Array
from serving.runtime.checks import Signature


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What a client wants back, and in which time; all outputs in raw bytes if `binary`, else those of `raw_names`."""

    id: str = ""
    outputs: tuple[str, ...] = ()
    binary: bool = False
    raw_names: frozenset[str] = frozenset()
    within_s: float = inf
    stream: bool = False
    form: str = ""
    """The media type of an answer that is one bare array; none: the protocol's own form."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What checked requests have in common that differ in their values only."""

    rows: int
    signature: Signature
    asked: Asked


Decoded = tuple[list[Array], Kind]
"""A checked request: arrays in the model's order, and the rest."""
