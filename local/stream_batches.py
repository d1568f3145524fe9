"""What an event source mapping of a stream does after a batch: on, again, in halves, or past it.

Lambda Developer Guide, "How Lambda processes records from Amazon Kinesis Data Streams" and "Retain discarded batch
records": retries without end and without an age limit unless told otherwise; a split takes no retry; a function that
reports failed items is asked again from the first of them; no record past its age is sent to a function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

Condition = Literal["RetryAttemptsExhausted", "MaximumRecordAgeExceeded"]
WITHOUT_END = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of a mapping; -1 stands for no limit of retries or of a record's age."""

    batch_size: int = 100
    most_retries: int = WITHOUT_END
    most_age_s: float = WITHOUT_END
    bisects: bool = False
    reports_items: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a shard stands in a batch that failed: the sizes of its parts in order, and retries of the first."""

    parts: tuple[int, ...] = ()
    retries: int = 0

    def size(self, rules: Rules) -> int:
        """Give how many records the next call takes at most."""
        return self.parts[0] if self.parts else rules.batch_size


@dataclass(frozen=True, slots=True)
class Step:
    """How many records are done with, and why those of them that were given up were: the last ones, or all."""

    done: int
    progress: Progress
    given_up: Condition | None = None


def expired(progress: Progress, rules: Rules, ages_s: Sequence[float]) -> Step | None:
    """Decide before a call with records of these ages, oldest first: those past their age are given up, all of them.

    None if the call is to be made.
    """
    old = len(list(takewhile(lambda age_s: age_s > rules.most_age_s, ages_s))) if rules.most_age_s >= 0 else 0
    if not old:
        return None
    left = max(0, progress.size(rules) - old) if progress.parts else 0
    rest = Progress((left, *progress.parts[1:]), progress.retries) if left else Progress(progress.parts[1:])
    return Step(old, rest, "MaximumRecordAgeExceeded")


def after(progress: Progress, rules: Rules, *, taken: int, failed_at: int | None) -> Step:
    """Decide after a call with `taken` records, of which `failed_at` is the first that failed (None: none did)."""
    others = progress.parts[1:]
    if failed_at is None:
        return Step(taken, Progress(others))
    left = taken - failed_at
    if rules.bisects and left > 1:
        # at the item that was reported, else in the middle
        halves = (left,) if failed_at else (left - left // 2, left // 2)
        return Step(failed_at, Progress((*halves, *others)))
    retries = progress.retries + 1
    if 0 <= rules.most_retries < retries:
        return Step(taken, Progress(others), "RetryAttemptsExhausted")
    return Step(failed_at, Progress((left, *others), retries))


def first_failed(answer: object, sequence_numbers: Sequence[str]) -> int | None:
    """Give the first record that a function reported in `batchItemFailures`, None for a whole success.

    An identifier that is none of the batch, or a list that is none, fails the whole batch.
    """
    reported = answer.get("batchItemFailures") if isinstance(answer, Mapping) else None
    if not reported:
        return None
    named = [_index(item, sequence_numbers) for item in reported] if isinstance(reported, list) else [0]
    return min(named)


def _index(item: Any, sequence_numbers: Sequence[str]) -> int:  # noqa: ANN401 - any JSON value
    name = item.get("itemIdentifier") if isinstance(item, Mapping) else None
    return sequence_numbers.index(name) if name in sequence_numbers else 0
