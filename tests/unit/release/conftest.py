"""Evidence made from rates, and a policy with the numbers of the ranker's spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from serving.release.policy import ReleasePolicy, policy_for
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec import ReleaseSpec
from serving.telemetry.evidence import UNIT_BUCKETS, Evidence
from serving.telemetry.histogram import Histogram

T0 = datetime(2026, 1, 5, tzinfo=UTC)

MakeArm = Callable[..., Evidence]
MakeRecord = Callable[..., ReleaseRecord]


def arm(
    *,
    impressions: int = 1_000_000,
    ctr: float = 0.05,
    errors: float = 0.0,
    p99_ms: float = 10.0,
    watch_s: float = 0.0,
    seed: int = 0,
) -> Evidence:
    """One slot's evidence: Poisson counts around the rates, lognormal latencies around the p99."""
    random = np.random.default_rng(seed)
    shown = random.poisson(impressions / UNIT_BUCKETS, UNIT_BUCKETS)
    latencies = p99_ms * np.exp(0.3 * (random.standard_normal(20_000) - 2.3263))
    return Evidence(
        impressions=tuple(shown.tolist()),
        clicks=tuple(random.binomial(shown, ctr).tolist()),
        errors=tuple(random.binomial(shown, errors).tolist()),
        watch_s=tuple((watch_s * random.gamma(shown + 1e-9)).tolist()),
        latency=Histogram.of(latencies.tolist()),
    )


def record(*, state: ReleaseState = ReleaseState.DECISION, stage: int = 1, share: float = 0.5) -> ReleaseRecord:
    """A release that entered its stage at T0."""
    return ReleaseRecord(
        release_id="3.0.0-20260105T000000Z",
        model="recommendation_ranker",
        policy="spec",
        state=state,
        production="a",
        challenger="b",
        production_version="2.0.0",
        challenger_version="3.0.0",
        stage_index=stage,
        share=share,
        salt="s",
        saved_weights={"a": 1.0, "b": 0.0},
        version=3,
        started_at=T0,
        stage_started_at=T0,
        updated_at=T0,
        actor="ada",
        reason="started",
        resume_state=ReleaseState.DECISION if state is ReleaseState.PAUSED else None,
    )


@pytest.fixture(name="make_arm", scope="session")
def make_arm_fixture() -> MakeArm:
    return arm


@pytest.fixture(name="make_record", scope="session")
def make_record_fixture() -> MakeRecord:
    return record


@pytest.fixture(name="policy", scope="session")
def policy_fixture() -> ReleasePolicy:
    return replace(policy_for(ReleaseSpec()), min_stage=timedelta(hours=24))


@pytest.fixture(name="later", scope="session")
def later_fixture() -> datetime:
    """Give a time when the stage's least time is over and the release has not expired."""
    return T0 + timedelta(days=2)
