"""Which models stay in memory: an estimate of what each takes, and who leaves when another one comes."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LOADING_FACTOR = 2
"""ONNX Runtime parses a graph and copies its weights, so a load takes up to twice the file (measured with 100 MB:
204 MB at the peak, 106 MB afterwards); the peak is what must fit."""

_LEAST_BYTES = 4 << 20
"""A session, its threads' stacks and the buffers of a model whatever its size."""


@dataclass(frozen=True, slots=True)
class Held:
    """One model in memory; `idle`: nobody waits for it now."""

    name: str
    size_bytes: int
    used_s: float
    idle: bool


def size_of(root: Path) -> int:
    """Estimate the bytes of memory that an unpacked model needs."""
    files = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    return _LEAST_BYTES + _LOADING_FACTOR * files


def leaving(held: Sequence[Held], *, needed_bytes: int, limit_bytes: int) -> tuple[str, ...] | None:
    """Say who leaves so that `needed_bytes` fit: the idle ones, least recently used first; None: not even then."""
    over_bytes = sum(each.size_bytes for each in held) + needed_bytes - limit_bytes
    names = []
    for each in sorted((each for each in held if each.idle), key=lambda each: each.used_s):
        if over_bytes <= 0:
            break
        names.append(each.name)
        over_bytes -= each.size_bytes
    return tuple(names) if over_bytes <= 0 else None


def give_back() -> None:
    """Return to the system what models that left had.

    A Python model's module holds cycles, and glibc keeps what the thread that loaded a model freed (malloc_trim(3));
    another C library may have no such call.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
