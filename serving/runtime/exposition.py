"""The metrics of several processes as those of one server: Prometheus text in, Prometheus text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

_ENDED = ".ended"
_ALIVE = ".alive"


def summed(alive: Iterable[str], ended: Iterable[str] = ()) -> str:
    """Add up texts: counters and histograms of all, gauges of those processes that are `alive`.

    Of gauges, `…_ready` is that of the least ready process and `…_ratio` the largest; the others are sums. Series come
    in the order in which they are first seen.
    """
    kinds: dict[str, str] = {}
    lines: dict[str, float | None] = {}
    for text, lives in (*((text, True) for text in alive), *((text, False) for text in ended)):
        for line in text.splitlines():
            if line.startswith("#"):
                _, word, name, *rest = line.split(maxsplit=3)
                if word == "TYPE":
                    kinds[name] = rest[0]
                lines.setdefault(line, None)
                continue
            series, _, number = line.rpartition(" ")
            name = series.partition("{")[0]
            gauge = kinds.get(name) == "gauge"
            if gauge and not lives:
                continue
            before = lines.get(series)
            lines[series] = float(number) if before is None else _together(name, before, float(number), gauge=gauge)
    return "".join(line + ("\n" if value is None else f" {_written(value)}\n") for line, value in lines.items())


def _together(name: str, before: float, value: float, *, gauge: bool) -> float:
    if gauge and name.endswith("_ready"):
        return min(before, value)
    if gauge and name.endswith("_ratio"):
        return max(before, value)
    return before + value


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


class Board:
    """A folder in which every process leaves its metrics, so that whichever is asked answers for all.

    Who is asked writes its own first and then reads all files: a later answer is never made of older numbers, whoever
    gives it, so no counter runs backwards. What a process counted outlives it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, text: str, *, process: int) -> None:
        """Leave the metrics of a process, whole or not at all."""
        draft = self._folder / f"{process}.draft"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._folder / f"{process}{_ALIVE}")

    def end(self, process: int) -> None:
        """Keep what a process counted that is no more."""
        left = self._folder / f"{process}{_ALIVE}"
        if left.exists():
            left.rename(self._folder / f"{process}{_ENDED}")

    def text(self) -> str:
        """Give the metrics of all."""
        return summed(self._texts(_ALIVE), self._texts(_ENDED))

    def _texts(self, suffix: str) -> Iterator[str]:
        for path in sorted(self._folder.glob(f"*{suffix}")):
            try:
                yield path.read_text(encoding="utf-8")
            except FileNotFoundError:  # it ended meanwhile
                continue
