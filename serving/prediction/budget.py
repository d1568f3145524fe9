"""How long each part of a request may take, so that the parts together end before the deadline.

The spec's shares add up to the p99 promise. What is late by them is only slow; what is late by the deadline is
replaced. So every part may take its share of the deadline, in the proportions of the spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from serving.spec import BudgetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Time-outs in ms: of the feature read, of the endpoint call, and of all of it."""

    feature_read_ms: float
    invoke_ms: float
    answer_ms: float
    deadline_ms: float

    def feature_timeout_ms(self, spent_ms: float) -> float:
        """Give the feature read's part of what is left after `spent_ms`; 0 or less when it is too late for it.

        A request that waited before shares its delay: the read and the call that follows both get less.
        """
        left_ms = self.deadline_ms - self.answer_ms - spent_ms
        return min(self.feature_read_ms, left_ms * self.feature_read_ms / (self.feature_read_ms + self.invoke_ms))

    def invoke_timeout_ms(self, spent_ms: float) -> float:
        """Give what is left for the endpoint after `spent_ms`; 0 or less when it is too late to call."""
        return min(self.invoke_ms, self.deadline_ms - self.answer_ms - spent_ms)


def budget_of(spec: BudgetSpec, *, deadline_ms: float | None = None) -> Budget:
    """Divide a deadline (the stage's, where it has one) as the spec divides its p99."""
    total = deadline_ms if deadline_ms is not None else spec.deadline_ms
    scale = total / (spec.feature_read_ms + spec.invoke_ms + spec.overhead_ms)
    feature_read_ms, invoke_ms = spec.feature_read_ms * scale, spec.invoke_ms * scale
    # half of the overhead comes before the call (parsing, assembling), half after it
    return Budget(
        feature_read_ms=feature_read_ms, invoke_ms=invoke_ms, answer_ms=spec.overhead_ms * scale / 2, deadline_ms=total
    )
