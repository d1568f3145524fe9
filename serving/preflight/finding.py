"""One thing that preflight has to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "unverified"]
"""`error`: the deploy would fail or do harm; `warning`: look at it; `unverified`: it could not be read."""

FailOn = Literal["destructive", "error", "warning"]
"""From which findings on a command fails; `destructive` are errors that lose data or an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference between plan and account: what, got, allowed, how to mend it, and where that is written."""

    level: Level
    check: str
    what: str
    got: str
    allowed: str
    fix: str
    source: str = ""
    destructive: bool = False

    @property
    def line(self) -> str:
        """The finding in one line."""
        cited = f" ({self.source})" if self.source else ""
        return f"{self.level}: {self.check}: {self.what}: got {self.got}; allowed {self.allowed}; {self.fix}{cited}"


def unverified(check: str, what: str, why: str, *, fix: str) -> Finding:
    """Say that something could not be read: silence would look like approval."""
    return Finding(level="unverified", check=check, what=what, got=f"no answer: {why}", allowed="one", fix=fix)


def failing(findings: Iterable[Finding], *, fail_on: FailOn) -> tuple[Finding, ...]:
    """Give the findings for which a command exits with 1."""
    if fail_on == "destructive":
        return tuple(finding for finding in findings if finding.destructive)
    levels = {"error"} if fail_on == "error" else {"error", "warning"}
    return tuple(finding for finding in findings if finding.level in levels)
