"""What a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from serving.preflight.finding import Finding
from serving.preflight.live import Live
from serving.preflight.planned import Planned
from serving.preflight.stage_facts import StageFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What every check may look at."""

    planned: Planned
    live: Live
    facts: StageFacts


Check = Callable[[Comparison], Iterator[Finding]]
