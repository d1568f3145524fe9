"""What a release must show before it moves on: the spec's own numbers, or those of a named policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from serving.errors import ReleaseError
from serving.spec.model import ReleaseSpec

GUARDRAILS = 4
"""Errors, latency, click rate, watch time: any one of them rolls back, so each gets its part of alpha (Bonferroni)."""

DEFAULT_POLICY = "spec"
DEMO_POLICY = "demo"
POLICIES = (DEFAULT_POLICY, DEMO_POLICY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePolicy:
    """All thresholds that `decide` reads; every number of a decision is here or in the evidence.

    `whole_days` rounds the decision stage's time up to whole days: mornings are not evenings. `alpha` is the chance,
    over all looks, to promote what does nothing; `tau` and `p99_tau` are the effects the bounds are tightest for.
    """

    metric: str
    min_uplift: float
    strict: bool
    ramp: tuple[float, ...]
    min_stage: timedelta
    whole_days: bool
    expires: timedelta
    min_impressions: int
    min_clicks: int
    min_buckets: int = 128
    alpha: float = 0.05
    tau: float = 0.02
    srm_alarm: float = 100.0
    srm_prior: float = 1_000.0
    p99_margin: float
    p99_min_requests: int = 5_000
    p99_alpha: float = 0.025
    p99_tau: float = 0.005
    max_error_rate: float
    error_tau: float = 0.01
    min_error_requests: int = 20
    watch_margin: float = 0.01

    @property
    def guardrail_alpha(self) -> float:
        """The chance that one guardrail rolls back what does no harm."""
        return self.alpha / GUARDRAILS

    def last_stage(self, index: int) -> bool:
        """Say whether the stage is the one that decides."""
        return index >= len(self.ramp) - 1

    def stage_time(self, index: int) -> timedelta:
        """Give how long a stage lasts at least."""
        if not self.whole_days or not self.last_stage(index):
            return self.min_stage
        days = -(-self.min_stage // timedelta(days=1))
        return timedelta(days=max(1, days))


def policy_for(spec: ReleaseSpec, *, name: str = DEFAULT_POLICY) -> ReleasePolicy:
    """Give the policy of a model's spec, or the named one on top of it.

    `demo` asks for samples so small, and is tightest for effects so large, that a laptop's traffic shows them. Its
    p99 may be four times the control's: a laptop that runs clients, API, endpoints and AWS at once has such tails by
    itself. The rules and the times are the spec's own.

    Raises:
        ReleaseError: no policy of that name.

    """
    policy = ReleasePolicy(
        metric=spec.metric,
        min_uplift=spec.min_uplift,
        strict=spec.strict,
        ramp=spec.ramp,
        min_stage=timedelta(hours=spec.min_stage_hours),
        whole_days=True,
        expires=timedelta(days=spec.expires_days),
        min_impressions=spec.min_impressions,
        min_clicks=spec.min_clicks,
        p99_margin=spec.guardrails.p99_margin,
        max_error_rate=spec.guardrails.max_error_rate,
    )
    if name == DEFAULT_POLICY:
        return policy
    if name == DEMO_POLICY:
        return replace(
            policy,
            min_impressions=100,
            min_clicks=30,
            min_buckets=32,
            tau=0.3,
            p99_margin=3.0,
            p99_min_requests=300,
            p99_tau=0.01,
        )
    raise ReleaseError(f"policy: got {name!r}; allowed {', '.join(POLICIES)}")
