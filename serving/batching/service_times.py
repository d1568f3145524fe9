"""How long a batch takes, learned a bucket of rows at a time and corrected by every run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_SMOOTHING = 0.1
_SHAPE_SMOOTHING = 0.05
_MOST_SLOWDOWN_A_RUN = 10.0
_TURNOVER_S = 0.0002
"""What a batch costs beside its run, for waking a worker and the loop: about 0.15 ms where both share a core (measured
by the CPU of requests in batches of 4 and of 16)."""

_AS_GOOD = 1.01
"""Times that differ by less cannot be told apart by three runs."""


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """What batches take: a curve through measured run times, times one slowdown of the machine.

    `knots` are the seconds at the bucket sizes 1, 2, 4, … and the largest, with straight lines between them. Every run
    corrects the slowdown, for all sizes: a size that is thought too slow is never run again, so an average of its own
    would stay wrong for ever. Two runs of different buckets one after the other share the machine's mood, so what
    their errors differ by belongs to the buckets, and that alone corrects the knots.
    """

    knots: tuple[float, ...]
    max_rows: int
    slowdown: float = 1.0
    last: tuple[int, float] | None = None
    """Bucket of the last run and its time over what was predicted."""
    worth_rows: int = 0
    """The smallest bucket in which a row costs no more than in any other: to wait for more company is worth nothing."""

    @classmethod
    def measured(cls, points: Sequence[tuple[int, float]], *, max_rows: int) -> ServiceTimes:
        """Learn from measured (rows, seconds), one or more; sizes in between and beyond lie on straight lines.

        Raises:
            ValueError: no points.

        """
        if not points:
            raise ValueError("points: got none; allowed one or more (rows, seconds); measure at least one row")
        known = sorted(points)
        rows = [row for row, _ in known]
        return cls._of([_between(known, rows, size) for size in sizes(max_rows)], max_rows)

    @classmethod
    def _of(
        cls, seconds: Sequence[float], max_rows: int, slowdown: float = 1.0, last: tuple[int, float] | None = None
    ) -> ServiceTimes:
        knots = tuple(accumulate(seconds, max))
        costs = [(knot + _TURNOVER_S) / size for knot, size in zip(knots, sizes(max_rows), strict=True)]
        least = min(costs) * _AS_GOOD
        worth = next(size for size, cost in zip(sizes(max_rows), costs, strict=True) if cost <= least)
        return cls(knots, max_rows, slowdown, last, worth)

    def seconds(self, rows: int) -> float:
        """Predict the run time of a batch of 1 to `max_rows` rows; more rows never take less."""
        at = (rows - 1).bit_length()
        if at == 0:
            return self.knots[0] * self.slowdown
        below = 1 << (at - 1)
        above = min(below * 2, self.max_rows)
        left = self.knots[at - 1]
        return (left + (self.knots[at] - left) * (rows - below) / (above - below)) * self.slowdown

    def after(self, rows: int, seconds: float) -> ServiceTimes:
        """Learn from a run; one freak run counts for little."""
        expected = self.seconds(rows)
        ratio = min(seconds / expected, _MOST_SLOWDOWN_A_RUN) if expected > 0 else 1.0
        slowdown = self.slowdown * (1 + _SMOOTHING * (ratio - 1))
        bucket, last = (rows - 1).bit_length(), self.last
        if last is None or last[0] == bucket:
            return ServiceTimes(self.knots, self.max_rows, slowdown, (bucket, ratio), self.worth_rows)
        knots = list(self.knots)
        differ = _SHAPE_SMOOTHING * max(-1.0, min(1.0, ratio - last[1]))
        knots[bucket] *= 1 + differ
        knots[last[0]] *= 1 - differ
        return self._of(knots, self.max_rows, slowdown, (bucket, ratio))


def sizes(max_rows: int) -> tuple[int, ...]:
    """Give the largest batch of every bucket: the powers of two below `max_rows`, and `max_rows`."""
    return (*(1 << at for at in range((max_rows - 1).bit_length())), max_rows)


def _between(known: Sequence[tuple[int, float]], rows: Sequence[int], size: int) -> float:
    if len(known) == 1:
        return known[0][1]
    at = min(max(bisect_left(rows, size), 1), len(rows) - 1)
    (left, left_s), (right, right_s) = known[at - 1], known[at]
    if size <= rows[0] or right == left:
        return known[0][1] if size <= rows[0] else right_s
    return max(left_s, left_s + (right_s - left_s) * (size - left) / (right - left))
