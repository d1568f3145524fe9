"""Releases on the page: the decision is that of `streamhub release status`, the bound is kept from look to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import pytest

from local.page.document import MAX_LOOKS, MAX_RELEASES, MAX_TEXT
from local.page.releases import ReleaseReader
from serving.errors import TelemetryError
from serving.release.audit import AuditEntry
from serving.release.decide import DecisionKind, decide
from serving.release.gates import uplift_gate
from serving.release.policy import policy_for
from serving.release.state import ReleaseRecord, ReleaseState
from serving.telemetry.evidence import UNIT_BUCKETS, Evidence, StageEvidence
from tests.fakes.page import RANKER, endpoint, variant
from tests.fakes.prediction import NOW, release_record, spec_of

MODEL = "recommendation_ranker"
SPEC = spec_of(MODEL)
POLICY = policy_for(SPEC.release)
ENDPOINTS = [
    endpoint(RANKER, MODEL, 12.0, variant("a", "2.0.0", 0.5, p99_ms=5), variant("b", "3.0.0", 0.5, p99_ms=5)),
]


def arm(clicks: int, *, impressions: int = 100) -> Evidence:
    random = np.random.default_rng(clicks)
    return Evidence(
        impressions=(impressions,) * UNIT_BUCKETS,
        clicks=tuple(random.binomial(impressions, clicks / 100, UNIT_BUCKETS).tolist()),
    )


def seen(clicks: int = 6, *, impressions: int = 100) -> StageEvidence:
    return StageEvidence(control=arm(5, impressions=impressions), challenger=arm(clicks, impressions=impressions))


def record(state: ReleaseState = ReleaseState.DECISION, **changes: object) -> ReleaseRecord:
    made = replace(release_record(state=state, share=0.5), policy="spec")
    return replace(made, **changes)  # type: ignore[arg-type]


@dataclass
class Stored:
    """A table and its evidence."""

    record: ReleaseRecord | None = None
    evidence: StageEvidence | None = field(default_factory=seen)
    entries: Sequence[AuditEntry] = ()
    histories: int = 0

    def get(self, model: str) -> ReleaseRecord | None:
        return self.record if model == MODEL else None

    def entry(self, model: str, version: int) -> AuditEntry | None:
        raise AssertionError(f"the page needs no single entry ({model}, {version})")

    def put(self, entry: AuditEntry, *, expected_version: int) -> None:
        raise AssertionError(f"the page writes nothing ({entry}, {expected_version})")

    def history(self, model: str, *, limit: int) -> Sequence[AuditEntry]:
        assert model == MODEL
        self.histories += 1
        return self.entries[:limit]

    def read(self, record: ReleaseRecord) -> StageEvidence:
        assert record == self.record
        if self.evidence is None:
            raise TelemetryError("table gone")
        return self.evidence


def reader(stored: Stored) -> ReleaseReader:
    models = {MODEL: SPEC, "thumbnail_scorer": spec_of("thumbnail_scorer")}
    return ReleaseReader(store=stored, evidence=stored, models=models, stage="dev")


def test_a_model_that_never_had_a_release_is_named() -> None:
    assert reader(Stored()).read(ENDPOINTS, NOW) == ([], [MODEL, "thumbnail_scorer"], 0)


def test_models_beyond_the_most_are_counted() -> None:
    models = {f"m{number:02}": SPEC for number in range(MAX_RELEASES + 3)}
    many = ReleaseReader(store=Stored(), evidence=Stored(), models=models, stage="dev")
    assert many.read(ENDPOINTS, NOW) == ([], sorted(models)[:MAX_RELEASES], 3)


@pytest.mark.parametrize("state", [ReleaseState.CANARY, ReleaseState.DECISION, ReleaseState.PAUSED])
def test_gates_and_decision_are_those_of_the_rules(state: ReleaseState) -> None:
    stored = Stored(record=record(state))
    [release], *_ = reader(stored).read(ENDPOINTS, NOW + timedelta(hours=30))
    assert stored.record is not None
    wanted = decide(stored.record, stored.evidence, POLICY, NOW + timedelta(hours=30))
    assert (release.decision, release.rule) == (wanted.kind.value, wanted.rule)
    assert [(gate.name, gate.verdict, gate.text) for gate in release.gates] == [
        (gate.gate, gate.verdict.value, gate.text[:MAX_TEXT]) for gate in wanted.reasons
    ]


def test_the_newest_look_is_the_uplift_gate_s_own_bound() -> None:
    [release], *_ = reader(Stored(record=record())).read(ENDPOINTS, NOW)
    numbers = uplift_gate(seen(), POLICY).numbers
    look = release.looks[-1]
    assert (look.estimate, look.lower, look.upper) == (numbers["uplift"], numbers["lower"], numbers["upper"])
    assert look.impressions == 2 * 100 * UNIT_BUCKETS


def test_the_bound_grows_by_a_look_only_when_the_evidence_does() -> None:
    stored = Stored(record=record())
    page = reader(stored)
    for second in range(5):
        [release], *_ = page.read(ENDPOINTS, NOW + timedelta(seconds=second))
    assert len(release.looks) == 1
    assert release.looks[0].at == NOW
    stored.evidence = seen(impressions=120)
    [release], *_ = page.read(ENDPOINTS, NOW + timedelta(seconds=9))
    assert [look.at for look in release.looks] == [NOW, NOW + timedelta(seconds=9)]


def test_looks_of_moves_are_there_though_nobody_had_the_page_open() -> None:
    before = record(ReleaseState.CANARY, stage_index=0)
    moved = record(updated_at=NOW + timedelta(hours=1), version=3)
    entry = AuditEntry(before=before, record=moved, policy=POLICY, evidence=seen(7))
    [release], *_ = reader(Stored(record=moved, entries=[entry])).read(ENDPOINTS, NOW + timedelta(hours=2))
    assert [(look.stage, look.at) for look in release.looks] == [
        (0, NOW + timedelta(hours=1)),
        (moved.stage_index, NOW + timedelta(hours=2)),
    ]
    assert [move.state for move in release.transitions] == ["decision"]


def test_looks_stay_bounded_and_keep_the_first_and_the_newest() -> None:
    stored = Stored(record=record())
    page = reader(stored)
    for number in range(3 * MAX_LOOKS):
        stored.evidence = seen(impressions=100 + number)
        [release], *_ = page.read(ENDPOINTS, NOW + timedelta(seconds=number))
    assert len(release.looks) == MAX_LOOKS
    assert release.looks[0].at == NOW
    assert release.looks[-1].at == NOW + timedelta(seconds=3 * MAX_LOOKS - 1)


def test_a_new_release_starts_its_bound_anew() -> None:
    stored = Stored(record=record())
    page = reader(stored)
    page.read(ENDPOINTS, NOW)
    stored.record = record(release_id="4.0.0-later", version=9)
    [release], *_ = page.read(ENDPOINTS, NOW + timedelta(hours=1))
    assert [look.at for look in release.looks] == [NOW + timedelta(hours=1)]


def test_evidence_that_cannot_be_read_is_said_and_never_counts_as_good() -> None:
    [release], *_ = reader(Stored(record=record(), evidence=None)).read(ENDPOINTS, NOW)
    assert "never counts as good" in release.note
    assert release.decision == "hold"
    assert release.looks == []


def test_an_endpoint_that_has_other_weights_does_not_follow() -> None:
    page = reader(Stored(record=record(share=0.9)))
    assert not page.read(ENDPOINTS, NOW)[0][0].follows
    assert reader(Stored(record=record(share=0.5))).read(ENDPOINTS, NOW)[0][0].follows


def test_history_is_read_again_only_after_a_move() -> None:
    stored = Stored(record=record())
    page = reader(stored)
    for _ in range(3):
        page.read(ENDPOINTS, NOW)
    assert stored.histories == 1
    stored.record = record(version=7)
    page.read(ENDPOINTS, NOW)
    assert stored.histories == 2


def test_a_release_that_ended_keeps_the_gates_that_ended_it() -> None:
    live = record()
    waits = decide(live, seen(), POLICY, NOW + timedelta(hours=30))
    decision = replace(waits, kind=DecisionKind.ROLL_BACK, rule="a guardrail is broken")
    rolling = record(ReleaseState.ROLLING_BACK, version=3)
    over = record(ReleaseState.ROLLED_BACK, version=4)
    followed = AuditEntry(before=rolling, record=over, policy=POLICY)
    decided = AuditEntry(before=live, record=rolling, policy=POLICY, decision=decision, evidence=seen())
    ramped = AuditEntry(before=live, record=live, policy=POLICY, decision=replace(decision, reasons=()))
    [release], *_ = reader(Stored(record=over, entries=[followed, decided, ramped])).read(ENDPOINTS, NOW)
    assert (release.decision, release.rule) == ("roll-back", decision.rule)
    assert [gate.text for gate in release.gates] == [gate.text[:MAX_TEXT] for gate in decision.reasons] != []


def test_gates_of_an_earlier_move_are_not_those_of_a_release_that_a_person_ended() -> None:
    live, over = record(), record(ReleaseState.ROLLED_BACK, version=4)
    rolling = record(ReleaseState.ROLLING_BACK, version=3)
    earlier = decide(live, seen(), POLICY, NOW + timedelta(hours=30))
    assert earlier.reasons
    entries = [
        AuditEntry(before=rolling, record=over, policy=POLICY),
        AuditEntry(before=live, record=rolling, policy=POLICY),
        AuditEntry(before=live, record=live, policy=POLICY, decision=earlier),
    ]
    [release], *_ = reader(Stored(record=over, entries=entries)).read(ENDPOINTS, NOW)
    assert release.gates == []
