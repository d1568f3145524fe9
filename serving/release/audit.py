"""One immutable record a transition: all that the decision was made of, enough to make it again."""

from __future__ import annotations

from dataclasses import dataclass

from serving.release.decide import Decision
from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord
from serving.telemetry.evidence import StageEvidence

RULES = "1"
"""Version of what `decide` means; raised when the same input may lead to another decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """The record before and after, and why.

    `decision` and `evidence` are None where a person, or the endpoint, moved it. With a decision,
    `decide(before, evidence, policy, record.updated_at)` gives it again.
    """

    before: ReleaseRecord | None
    record: ReleaseRecord
    policy: ReleasePolicy
    decision: Decision | None = None
    evidence: StageEvidence | None = None
    rules: str = RULES

    @property
    def line(self) -> str:
        """One line for a person: when, from where to where, who, why."""
        came = self.before.state if self.before is not None and not self.before.terminal else "-"
        record = self.record
        return (
            f"{record.updated_at:%Y-%m-%d %H:%M:%S} {record.release_id} {came} -> {record.state} "
            f"{record.share:.0%} by {record.actor}: {record.reason}"
        )
