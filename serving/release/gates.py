"""One gate, one function: passed, failed or not enough data, always with the numbers that say why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord
from serving.release.statistics import (
    Estimate,
    Interval,
    binomial,
    compare_p99,
    design_effect,
    difference,
    interval,
    ratio_of_sums,
    relative_uplift,
    srm_bayes_factor,
)
from serving.telemetry.evidence import Evidence, StageEvidence


class Verdict(StrEnum):
    """What a gate says; the last one never counts as the first."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ENOUGH_DATA = "not-enough-data"


_HOUR_S = 3600
_MANY = 1_000_000
_WORDS = {Verdict.PASSED: "ok", Verdict.FAILED: "FAILED", Verdict.NOT_ENOUGH_DATA: "undecided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """A gate's verdict, one line on why, and its numbers."""

    gate: str
    verdict: Verdict
    text: str
    numbers: dict[str, float]

    @property
    def line(self) -> str:
        """One line for a person."""
        return f"{self.gate} {_WORDS[self.verdict]}: {self.text}"

    @property
    def passed(self) -> bool:
        """The gate is open."""
        return self.verdict is Verdict.PASSED

    @property
    def failed(self) -> bool:
        """The gate is shut, with enough data to say so."""
        return self.verdict is Verdict.FAILED


def time_gate(record: ReleaseRecord, policy: ReleasePolicy, now: datetime) -> GateResult:
    """Ask for the stage's least time."""
    elapsed = (now - record.stage_started_at).total_seconds()
    needed = policy.stage_time(record.stage_index).total_seconds()
    verdict = Verdict.PASSED if elapsed >= needed else Verdict.NOT_ENOUGH_DATA
    return GateResult(
        gate="time",
        verdict=verdict,
        text=f"{_lasting(elapsed)} of at least {_lasting(needed)}",
        numbers={"elapsed_s": elapsed, "needed_s": needed},
    )


def sample_gate(evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Ask for enough impressions, clicks and unit buckets in both slots: below them the bounds are not valid."""
    both = (evidence.control, evidence.challenger)
    impressions = min(arm.total_impressions for arm in both)
    clicks = min(arm.total_clicks for arm in both)
    buckets = min(arm.used_buckets for arm in both)
    enough = impressions >= policy.min_impressions and buckets >= policy.min_buckets
    if policy.metric != "none":
        enough = enough and clicks >= max(1, policy.min_clicks)  # nothing is relative to no click at all
    return GateResult(
        gate="sample",
        verdict=Verdict.PASSED if enough else Verdict.NOT_ENOUGH_DATA,
        text=(
            f"the smaller slot has {impressions:,} impressions (needs {policy.min_impressions:,}), {clicks:,} clicks "
            f"(needs {policy.min_clicks:,}), {buckets} groups of units (needs {policy.min_buckets})"
        ),
        numbers={"impressions": impressions, "clicks": clicks, "buckets": buckets},
    )


def split_gate(record: ReleaseRecord, evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Compare the split seen with the split asked for: when they differ, units were lost and no rate is to be trusted.

    Requests of one unit come together, so counts are divided by their design effect first.
    """
    ours, theirs = evidence.challenger, evidence.control
    total = ours.total_impressions + theirs.total_impressions
    if min(ours.used_buckets, theirs.used_buckets) < policy.min_buckets or not 0 < record.share < 1:
        return _lacking("split", f"{total} impressions say nothing of the split yet", {"impressions": total})
    effect = design_effect(ours.impressions, theirs.impressions)
    observed = (ours.total_impressions / effect, theirs.total_impressions / effect)
    factor = srm_bayes_factor(observed, (record.share, 1 - record.share), prior=policy.srm_prior)
    seen = ours.total_impressions / total
    return GateResult(
        gate="split",
        verdict=Verdict.FAILED if factor >= policy.srm_alarm else Verdict.PASSED,
        text=f"the challenger got {seen:.2%} of traffic and should get {record.share:.2%}; odds that requests are lost "
        f"or counted twice {_odds(factor)}, alarm at {policy.srm_alarm:g} to 1",
        numbers={"seen": seen, "expected": record.share, "bayes_factor": factor, "design_effect": effect},
    )


def error_gate(evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Fail when the challenger surely errs more than the ceiling and more than the control does at the same time."""
    ours, theirs = evidence.challenger, evidence.control
    if ours.total_impressions < policy.min_error_requests or theirs.total_impressions < policy.min_error_requests:
        seen = min(ours.total_impressions, theirs.total_impressions)
        return _lacking("errors", f"{seen} requests (needs {policy.min_error_requests})", {"requests": seen})
    mine, base = _error_rate(ours), _error_rate(theirs)
    alpha = policy.guardrail_alpha
    rate = interval(mine, tau=policy.error_tau, alpha=alpha)
    excess = interval(difference(mine, base), tau=policy.error_tau, alpha=alpha)
    if rate.lower > policy.max_error_rate and excess.lower > 0:
        verdict = Verdict.FAILED
    else:
        verdict = Verdict.PASSED if rate.estimate <= policy.max_error_rate else Verdict.NOT_ENOUGH_DATA
    return GateResult(
        gate="errors",
        verdict=verdict,
        text=f"the challenger fails {rate.estimate:.2%} of requests (surely {max(rate.lower, 0.0):.2%} or more), "
        f"production {base.value:.2%}; allowed {policy.max_error_rate:.2%}",
        numbers={"rate": rate.estimate, "rate_lower": rate.lower, "control_rate": base.value}
        | {"excess_lower": excess.lower},
    )


def latency_gate(evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Pass when the challenger's p99 is surely within the margin of the control's, fail when surely outside."""
    ours, theirs = evidence.challenger.latency, evidence.control.latency
    requests = min(ours.total, theirs.total)
    if requests < policy.p99_min_requests:
        return _lacking(
            "p99",
            f"the smaller slot has {requests:,} latencies (needs {policy.p99_min_requests:,})",
            {"requests": requests},
        )
    pass_at = compare_p99(ours, theirs, margin=policy.p99_margin, tau=policy.p99_tau, alpha=policy.p99_alpha)
    fail_alpha = min(policy.p99_alpha, policy.guardrail_alpha)
    fail_at = compare_p99(ours, theirs, margin=policy.p99_margin, tau=policy.p99_tau, alpha=fail_alpha)
    if fail_at.excess.lower > 0:
        verdict = Verdict.FAILED
    else:
        verdict = Verdict.PASSED if pass_at.excess.upper < 0 else Verdict.NOT_ENOUGH_DATA
    return GateResult(
        gate="p99",
        verdict=verdict,
        text=f"p99 {pass_at.challenger_p99_ms:.1f} ms, production's {pass_at.control_p99_ms:.1f} ms, allowed "
        f"{policy.p99_margin:.0%} more; requests above that, more than production's {_bounds(pass_at.excess)}",
        numbers={"challenger_p99_ms": pass_at.challenger_p99_ms, "control_p99_ms": pass_at.control_p99_ms}
        | {"excess": pass_at.excess.estimate, "excess_lower": fail_at.excess.lower}
        | {"excess_upper": pass_at.excess.upper},
    )


def harm_gate(evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Fail when the challenger's click rate is surely below the control's."""
    if policy.metric == "none":
        return GateResult(gate="harm", verdict=Verdict.PASSED, text="no click metric in the spec", numbers={})
    if not sample_gate(evidence, policy).passed:
        return _lacking("harm", "sample too small for a bound on the click rate", {})
    uplift = interval(_uplift(evidence), tau=policy.tau, alpha=policy.guardrail_alpha)
    return GateResult(
        gate="harm",
        verdict=Verdict.FAILED if uplift.upper < 0 else Verdict.PASSED,
        text=f"click rate uplift {_bounds(uplift)}; rolled back when surely below 0",
        numbers={"uplift": uplift.estimate, "upper": uplift.upper},
    )


def watch_gate(evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Fail when an impression of the challenger is surely watched for less than the control's, by more than allowed."""
    ours, theirs = evidence.challenger, evidence.control
    if theirs.total_watch_s <= 0:
        return GateResult(gate="watch", verdict=Verdict.PASSED, text="nobody sends watch times", numbers={})
    if min(ours.used_buckets, theirs.used_buckets) < policy.min_buckets:
        return _lacking("watch", "sample too small for a bound on the watch time", {})
    change = interval(
        relative_uplift(
            ratio_of_sums(ours.watch_s, ours.impressions), ratio_of_sums(theirs.watch_s, theirs.impressions)
        ),
        tau=policy.tau,
        alpha=policy.guardrail_alpha,
    )
    return GateResult(
        gate="watch",
        verdict=Verdict.FAILED if change.upper < -policy.watch_margin else Verdict.PASSED,
        text=f"watch time per impression {_bounds(change)}; rolled back when surely below {-policy.watch_margin:+.2%}",
        numbers={"change": change.estimate, "upper": change.upper},
    )


def uplift_gate(evidence: StageEvidence, policy: ReleasePolicy) -> GateResult:
    """Pass when the challenger is surely better and by enough, fail when enough is surely out of reach."""
    if policy.metric == "none":
        return GateResult(gate="uplift", verdict=Verdict.PASSED, text="no click metric in the spec", numbers={})
    if not sample_gate(evidence, policy).passed:
        return _lacking("uplift", "sample too small for a bound on the click rate", {})
    uplift = interval(_uplift(evidence), tau=policy.tau, alpha=policy.alpha)
    better = uplift.lower > 0 and (uplift.lower if policy.strict else uplift.estimate) >= policy.min_uplift
    if better:
        verdict = Verdict.PASSED
    else:
        verdict = Verdict.FAILED if uplift.upper < policy.min_uplift else Verdict.NOT_ENOUGH_DATA
    wanted = "surely" if policy.strict else "surely above 0, and an estimate of"
    return GateResult(
        gate="uplift",
        verdict=verdict,
        text=f"click rate uplift {_bounds(uplift)}; wanted: {wanted} at least {policy.min_uplift:+.2%}",
        numbers={"uplift": uplift.estimate, "lower": uplift.lower, "upper": uplift.upper}
        | {"min_uplift": policy.min_uplift},
    )


def _uplift(evidence: StageEvidence) -> Estimate:
    ours, theirs = evidence.challenger, evidence.control
    return relative_uplift(
        ratio_of_sums(ours.clicks, ours.impressions), ratio_of_sums(theirs.clicks, theirs.impressions)
    )


def _error_rate(arm: Evidence) -> Estimate:
    smoothed = binomial(arm.total_errors, arm.total_impressions)
    if arm.used_buckets < 2:  # noqa: PLR2004 - a variance between buckets needs two
        return smoothed
    clustered = ratio_of_sums(arm.errors, arm.impressions)
    return Estimate(clustered.value, max(clustered.variance, smoothed.variance))


def _bounds(value: Interval) -> str:
    return f"{value.estimate:+.2%} (surely between {value.lower:+.2%} and {value.upper:+.2%})"


def _lasting(seconds: float) -> str:
    return f"{seconds / _HOUR_S:.1f} h" if seconds >= _HOUR_S else f"{seconds:.0f} s"


def _odds(factor: float) -> str:
    return f"{factor:.2g} to 1" if factor < _MANY else f"above {_MANY:,} to 1"


def _lacking(gate: str, text: str, numbers: dict[str, float]) -> GateResult:
    return GateResult(gate=gate, verdict=Verdict.NOT_ENOUGH_DATA, text=text, numbers=numbers)
