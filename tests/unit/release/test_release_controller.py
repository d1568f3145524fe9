"""The controller between record and endpoint: races, crashes, an endpoint that is busy."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lambdas.release.controller import Controller
from serving.errors import (
    AliasConflictError,
    ApprovalError,
    EndpointError,
    ReleaseError,
    StaleWriteError,
    TelemetryError,
)
from serving.ports import EndpointStatus, VariantStatus
from serving.release.audit import AuditEntry
from serving.release.decide import DecisionKind, decide
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec import ModelSpec, Slot, StageSpec
from serving.spec.codec import converter, from_json, to_json
from serving.spec.manifest import AliasRecord, RegisteredModel
from serving.telemetry.evidence import Evidence, StageEvidence

MODEL = "recommendation_ranker"
MakeArm = Callable[..., Evidence]


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Store:
    """A table with compare-and-set, through JSON as the real one."""

    current: bytes | None = None
    entries: dict[int, bytes] = field(default_factory=dict)
    before_put: Callable[[], None] = lambda: None
    after_put: Callable[[], None] = lambda: None

    def get(self, model: str) -> ReleaseRecord | None:
        del model
        return from_json(self.current, ReleaseRecord) if self.current is not None else None

    def put(self, entry: AuditEntry, *, expected_version: int) -> None:
        self.before_put()
        stored = self.get(MODEL)
        if (stored.version if stored is not None else 0) != expected_version:
            raise StaleWriteError("another writer came first")
        self.current = to_json(entry.record)
        self.entries[entry.record.version] = to_json(entry)
        self.after_put()

    def entry(self, model: str, version: int) -> AuditEntry | None:
        del model
        return from_json(self.entries[version], AuditEntry) if version in self.entries else None

    def history(self, model: str, *, limit: int) -> Sequence[AuditEntry]:
        del model
        return [from_json(self.entries[version], AuditEntry) for version in sorted(self.entries, reverse=True)][:limit]


@dataclass
class Audit:
    objects: dict[int, AuditEntry] = field(default_factory=dict)

    def has(self, record: ReleaseRecord) -> bool:
        return record.version in self.objects

    def write(self, entry: AuditEntry) -> None:
        self.objects.setdefault(entry.record.version, entry)


@dataclass
class Endpoint:
    """An endpoint that takes its new weights when the test says so."""

    weights: dict[Slot, float] = field(default_factory=lambda: {"a": 1.0, "b": 0.0})
    wanted: dict[Slot, float] = field(default_factory=lambda: {"a": 1.0, "b": 0.0})
    instances: dict[Slot, int] = field(default_factory=lambda: {"a": 1, "b": 1})
    asked: dict[Slot, int] = field(default_factory=dict)
    minimum: dict[Slot, int] = field(default_factory=dict)
    status: str = "InService"
    at_once: bool = True
    calls: list[dict[Slot, float]] = field(default_factory=list)
    held: dict[Slot, str] = field(default_factory=dict)

    def holds(self, endpoint: str) -> dict[Slot, str]:
        del endpoint
        return self.held

    def describe(self, endpoint: str) -> EndpointStatus:
        if self.status == "gone":
            raise EndpointError(f"endpoint {endpoint}: got no answer")
        return EndpointStatus(
            name=endpoint,
            status=self.status,
            variants=tuple(
                VariantStatus(
                    slot=slot,
                    weight=self.weights[slot],
                    instances=self.instances[slot],
                    desired_weight=self.wanted[slot],
                    desired_instances=self.instances[slot],
                )
                for slot in self.weights
            ),
        )

    def set_weights(self, endpoint: str, weights: Mapping[Slot, float]) -> None:
        if self.status != "InService":
            raise EndpointError(f"endpoint {endpoint} is busy")
        self.calls.append(dict(weights))
        self.wanted = dict(weights)
        if self.at_once:
            self.weights = dict(weights)
        else:
            self.status = "Updating"

    def arrive(self) -> None:
        self.weights, self.status = dict(self.wanted), "InService"

    def ensure_instances(self, endpoint: str, slot: Slot, count: int) -> bool:
        del endpoint
        self.asked[slot] = self.minimum[slot] = count
        return self.instances[slot] >= count

    def set_minimum(self, endpoint: str, slot: Slot, count: int) -> None:
        del endpoint
        self.minimum[slot] = count


@dataclass
class Evidences:
    seen: StageEvidence | None = None

    def read(self, record: ReleaseRecord) -> StageEvidence:
        del record
        if self.seen is None:
            raise TelemetryError("table: got no answer")
        return self.seen


@dataclass
class Aliases:
    versions_moved: list[str] = field(default_factory=list)
    unapproved: str = ""

    def refuse_unapproved(self, name: str, alias: str, version: str) -> None:
        if version == self.unapproved:
            raise ApprovalError(f"{name} {alias}: not approved")

    def versions(self, name: str) -> list[RegisteredModel]:
        """Give two versions, named by their first digit all along."""
        return [
            RegisteredModel(
                name=name,
                version=version,
                sha256=version[0] * 64,
                s3_uri="",
                created_at=datetime(2026, 1, 1, tzinfo=UTC),
                created_by="",
            )
            for version in ("2.0.0", "3.0.0")
        ]

    def alias(self, name: str, alias: str) -> AliasRecord | None:
        if not self.versions_moved:
            return None
        return AliasRecord(
            name=name,
            alias=alias,
            version=self.versions_moved[-1],
            sha256="0",
            previous=None,
            generation=len(self.versions_moved),
            actor="",
            reason="",
            moved_at=datetime(2026, 1, 1, tzinfo=UTC),
        )

    def move_alias(self, name: str, alias: str, version: str, *, actor: str, reason: str) -> AliasRecord:
        del actor, reason
        self.versions_moved.append(version)
        moved = self.alias(name, alias)
        assert moved is not None
        return moved


@dataclass
class World:
    root: Path
    store: Store = field(default_factory=Store)
    audit: Audit = field(default_factory=Audit)
    endpoint: Endpoint = field(default_factory=Endpoint)
    evidence: Evidences = field(default_factory=Evidences)
    aliases: Aliases = field(default_factory=Aliases)
    now: datetime = datetime(2026, 1, 5, tzinfo=UTC)
    versions: dict[str, str] = field(default_factory=dict)

    def controller(self) -> Controller:
        toml = tomllib.loads((self.root / "models" / MODEL / "model.toml").read_text())
        dev = tomllib.loads((self.root / "stages/dev.toml").read_text())
        dev["models"][MODEL]["versions"] |= self.versions
        stage = converter().structure(dev, StageSpec)
        return Controller(
            stage=stage,
            models={MODEL: converter().structure(toml, ModelSpec)},
            store=self.store,
            evidence=self.evidence,
            endpoints=self.endpoint,
            audit=self.audit,
            registry=self.aliases,  # type: ignore[arg-type] - the four calls a release makes
            clock=lambda: self.now,
        )

    def record(self) -> ReleaseRecord:
        record = self.store.get(MODEL)
        assert record is not None
        return record

    def canary(self) -> Controller:
        controller = self.controller()
        controller.start(MODEL, version="3.0.0", actor="ada")
        controller.tick(MODEL)
        assert self.record().state is ReleaseState.CANARY
        return controller


@pytest.fixture(name="world")
def world_fixture(root: Path) -> World:
    return World(root)


@pytest.fixture(name="good")
def good_fixture(make_arm: MakeArm) -> Callable[[float], StageEvidence]:
    def at(share: float) -> StageEvidence:
        return StageEvidence(
            challenger=make_arm(impressions=int(2_000_000 * share), ctr=0.056, seed=1),
            control=make_arm(impressions=int(2_000_000 * (1 - share)), seed=2),
        )

    return at


def test_a_good_challenger_walks_the_ramp_and_is_promoted(world: World, good: Callable[[float], StageEvidence]) -> None:
    controller = world.canary()
    states = []
    for share in (0.1, 0.5, 1.0):
        world.now += timedelta(days=2)
        world.evidence.seen = good(min(share, 0.5))
        step = controller.tick(MODEL)
        assert step is not None
        states.append((step.record.state, step.record.share, world.endpoint.weights["b"]))
    assert states == [
        (ReleaseState.DECISION, 0.5, 0.5),
        (ReleaseState.PROMOTING, 1.0, 1.0),
        (ReleaseState.PROMOTED, 0.0, 1.0),
    ]
    assert (world.record().production, world.record().production_version) == ("b", "3.0.0")
    assert world.aliases.versions_moved == ["3.0.0"]
    assert world.endpoint.minimum == {"a": 1, "b": 1}
    assert sorted(world.audit.objects) == [1, 2, 3, 4, 5]


def test_a_decision_can_be_made_again_from_its_audit_record_alone(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    controller = world.canary()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)
    controller.tick(MODEL)
    entry = controller.history(MODEL)[0]
    assert entry.before is not None
    assert decide(entry.before, entry.evidence, entry.policy, entry.record.updated_at) == entry.decision


def test_the_loser_of_two_ticks_does_nothing(world: World, good: Callable[[float], StageEvidence]) -> None:
    first, second = world.canary(), world.controller()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)

    def other_ticks_first() -> None:
        world.store.before_put = lambda: None
        second.tick(MODEL)

    world.store.before_put = other_ticks_first
    step = first.tick(MODEL)
    assert step is not None
    assert (step.moved, step.record.stage_index, step.record.version) == (False, 1, 3)
    assert "another controller" in step.notes[0]
    assert world.endpoint.calls == [{"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}]


def test_a_crash_between_record_and_weights_is_repaired_by_the_next_tick(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    controller = world.canary()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)

    def die() -> None:
        world.store.after_put = lambda: None
        raise Killed

    world.store.after_put = die
    with pytest.raises(Killed):
        controller.tick(MODEL)
    assert (world.record().share, world.endpoint.weights["b"], 3 in world.audit.objects) == (0.5, 0.1, False)

    step = world.controller().tick(MODEL)
    assert step is not None
    assert (step.moved, world.endpoint.weights["b"], 3 in world.audit.objects) == (False, 0.5, True)


def test_ticks_while_nothing_changes_change_nothing(world: World, good: Callable[[float], StageEvidence]) -> None:
    controller = world.canary()
    world.evidence.seen = good(0.1)
    before, calls = world.store.current, len(world.endpoint.calls)
    for _ in range(3):
        step = controller.tick(MODEL)
        assert step is not None
        assert step.moved is False
    assert (world.store.current, len(world.endpoint.calls)) == (before, calls)


def test_an_endpoint_that_is_updating_holds_an_advance_and_says_why(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    controller = world.canary()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)
    world.endpoint.status = "Updating"
    step = controller.tick(MODEL)
    assert step is not None
    assert step.decision is not None
    assert (step.decision.kind, step.moved) == (DecisionKind.HOLD, False)
    assert "would advance, but" in step.decision.rule
    assert "Updating" in step.decision.rule


def test_a_rollback_writes_the_record_while_the_endpoint_is_updating_and_weights_follow(world: World) -> None:
    world.endpoint.at_once = False
    controller = world.canary()
    assert world.endpoint.status == "Updating"
    step = controller.rollback(MODEL, actor="grace", reason="pager")
    assert (step.record.state, step.record.share) == (ReleaseState.ROLLING_BACK, 0.0)
    assert "follow at InService" in step.notes[0]
    status = controller.status(MODEL)
    assert status is not None
    assert (status.diverged, status.decision.kind) == (False, DecisionKind.HOLD)  # the update has not arrived yet

    world.endpoint.arrive()
    assert world.endpoint.weights["b"] == pytest.approx(0.1)
    controller.tick(MODEL)
    assert world.endpoint.wanted == {"a": 1.0, "b": 0.0}
    world.endpoint.arrive()
    step_after = controller.tick(MODEL)
    assert step_after is not None
    assert step_after.record.state is ReleaseState.ROLLED_BACK


def test_a_broken_challenger_is_rolled_back_although_the_endpoint_does_not_answer(
    world: World, make_arm: MakeArm
) -> None:
    controller = world.canary()
    world.endpoint.status = "gone"
    world.evidence.seen = StageEvidence(
        challenger=make_arm(impressions=3_000, errors=0.3, seed=1), control=make_arm(impressions=3_000, seed=2)
    )
    step = controller.tick(MODEL)
    assert step is not None
    assert (step.record.state, step.record.share) == (ReleaseState.ROLLING_BACK, 0.0)
    assert any("weights follow" in note for note in step.notes)


def test_a_rollback_after_the_promotion_gives_everything_back(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    controller = world.canary()
    world.evidence.seen = good(0.1)
    controller.promote(MODEL, actor="ada", reason="hotfix")
    controller.tick(MODEL)
    assert (world.record().state, world.record().production) == (ReleaseState.PROMOTED, "b")
    controller.rollback(MODEL, actor="grace", reason="pager")
    controller.tick(MODEL)
    assert (world.record().state, world.record().production) == (ReleaseState.ROLLED_BACK, "a")
    assert world.endpoint.weights == {"a": 1.0, "b": 0.0}
    assert world.aliases.versions_moved == ["3.0.0", "2.0.0"]


def test_a_promotion_ends_only_when_the_alias_moved_too(
    world: World, good: Callable[[float], StageEvidence], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = world.canary()
    world.evidence.seen = good(0.1)
    controller.promote(MODEL, actor="ada", reason="hotfix")

    def lost(*_: object, **__: object) -> AliasRecord:
        raise AliasConflictError("alias production: moved by somebody else")

    with monkeypatch.context() as broken:
        broken.setattr(world.aliases, "move_alias", lost)
        step = controller.tick(MODEL)
    assert step is not None
    assert (step.record.state, step.moved) == (ReleaseState.PROMOTING, False)
    assert "moved by somebody else" in step.notes[-1]
    assert world.endpoint.weights == {"a": 0.0, "b": 1.0}
    after = controller.tick(MODEL)
    assert after is not None
    assert after.record.state is ReleaseState.PROMOTED


def test_no_effect_gives_the_traffic_back(world: World, make_arm: MakeArm) -> None:
    controller = world.canary()
    world.now += timedelta(days=15)
    world.evidence.seen = StageEvidence(challenger=make_arm(impressions=200, seed=1), control=make_arm(seed=2))
    step = controller.tick(MODEL)
    assert step is not None
    assert (step.record.state, step.record.production) == (ReleaseState.INCONCLUSIVE, "a")
    assert world.endpoint.weights == {"a": 1.0, "b": 0.0}
    assert world.aliases.versions_moved == []
    again = controller.start(MODEL, version="3.0.0", actor="ada")
    assert (again.version, again.state) == (4, ReleaseState.REGISTERED)


def test_capacity_comes_before_traffic(world: World, good: Callable[[float], StageEvidence]) -> None:
    controller = world.canary()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)
    world.endpoint.instances["a"] = 4
    step = controller.tick(MODEL)
    assert step is not None
    assert step.decision is not None
    # half of four instances' traffic needs two
    assert "slot b has 1 of the 2 instances that 50% of traffic needs" in step.decision.rule
    assert (world.endpoint.asked["b"], world.record().share) == (2, 0.1)
    world.endpoint.instances["b"] = 2
    controller.tick(MODEL)
    assert world.record().share == 0.5


def test_unreadable_evidence_holds_and_says_so(world: World) -> None:
    controller = world.canary()
    world.now += timedelta(days=3)
    step = controller.tick(MODEL)
    assert step is not None
    assert step.decision is not None
    assert step.decision.kind is DecisionKind.HOLD
    assert "never counts as good" in step.notes[0]


def test_pause_keeps_the_share_and_resume_goes_on(world: World, good: Callable[[float], StageEvidence]) -> None:
    controller = world.canary()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)
    controller.pause(MODEL, actor="ada", reason="launch day")
    controller.tick(MODEL)
    assert (world.record().state, world.record().share) == (ReleaseState.PAUSED, 0.1)
    controller.resume(MODEL, actor="ada", reason="over")
    controller.tick(MODEL)
    assert (world.record().state, world.record().share) == (ReleaseState.DECISION, 0.5)


def test_what_does_not_fit_the_state_is_refused(world: World) -> None:
    controller = world.canary()
    with pytest.raises(ReleaseError, match="cannot resume while canary"):
        controller.resume(MODEL, actor="ada", reason="-")
    with pytest.raises(ReleaseError, match="serves already"):
        World(world.root).controller().start(MODEL, version="2.0.0", actor="ada")


def test_an_old_record_never_moves_weights_back(world: World, good: Callable[[float], StageEvidence]) -> None:
    controller = world.canary()
    world.evidence.seen = good(0.1)
    stale = world.record()
    controller.rollback(MODEL, actor="grace", reason="pager")
    # a tick that read before the rollback and holds: it writes nothing, and then brings weights to the newest record
    step = controller._tick(replace(stale))
    assert (step.record.state, world.endpoint.weights) == (ReleaseState.ROLLING_BACK, {"a": 1.0, "b": 0.0})


def test_a_promotion_by_hand_waits_for_instances_that_carry_all_traffic(world: World) -> None:
    controller = world.canary()
    world.endpoint.instances["a"] = 2
    with pytest.raises(EndpointError, match="1 of the 2 instances that 100% of traffic needs"):
        controller.promote(MODEL, actor="ada", reason="hotfix")
    assert (world.record().state, world.endpoint.asked["b"]) == (ReleaseState.CANARY, 2)
    world.endpoint.instances["b"] = 2
    controller.promote(MODEL, actor="ada", reason="hotfix")
    assert world.record().state is ReleaseState.PROMOTING


def test_a_slot_that_was_deployed_anew_gets_no_more_traffic(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    world.canary()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)
    world.versions["b"] = "4.0.0"
    step = world.controller().tick(MODEL)
    assert step is not None
    assert step.decision is not None
    assert "slot b holds 4.0.0 now, not 3.0.0" in step.decision.rule
    assert world.record().share == 0.1


def test_a_rollback_never_gives_traffic_to_a_version_deployed_after_the_promotion(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    controller = world.canary()
    world.evidence.seen = good(0.1)
    controller.promote(MODEL, actor="ada", reason="hotfix")
    controller.tick(MODEL)
    world.versions["a"] = "4.0.0"
    with pytest.raises(ReleaseError, match=r"slot a holds 4\.0\.0 now, not 2\.0\.0"):
        world.controller().rollback(MODEL, actor="grace", reason="pager")
    assert (world.record().state, world.endpoint.weights) == (ReleaseState.PROMOTED, {"a": 0.0, "b": 1.0})


def test_a_release_does_not_keep_leftover_weights_as_those_to_restore(world: World, make_arm: MakeArm) -> None:
    controller = world.canary()
    world.now += timedelta(days=15)
    world.evidence.seen = StageEvidence(challenger=make_arm(impressions=200, seed=1), control=make_arm(seed=2))

    def die() -> None:
        world.store.after_put = lambda: None
        raise Killed

    world.store.after_put = die
    with pytest.raises(Killed):
        controller.tick(MODEL)
    assert (world.record().state, world.endpoint.weights["b"]) == (ReleaseState.INCONCLUSIVE, pytest.approx(0.1))
    with pytest.raises(EndpointError, match="the next tick sets them"):
        controller.start(MODEL, version="3.0.0", actor="ada")
    controller.tick(MODEL)
    assert controller.start(MODEL, version="3.0.0", actor="ada").saved_weights == {"a": 1.0, "b": 0.0}


def test_no_effect_is_on_record_only_when_the_slots_may_be_scaled_in(
    world: World, make_arm: MakeArm, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = world.canary()
    world.now += timedelta(days=15)
    world.evidence.seen = StageEvidence(challenger=make_arm(impressions=200, seed=1), control=make_arm(seed=2))

    def silent(*_: object) -> None:
        raise EndpointError("scaling: got no answer")

    with monkeypatch.context() as broken:
        broken.setattr(world.endpoint, "set_minimum", silent)
        step = controller.tick(MODEL)
    assert step is not None
    assert (step.record.state, step.moved) == (ReleaseState.CANARY, False)
    assert "scaling: got no answer" in step.notes[-1]
    after = controller.tick(MODEL)
    assert after is not None
    assert after.record.state is ReleaseState.INCONCLUSIVE


def test_a_rollback_wins_over_a_tick_that_came_between(world: World, good: Callable[[float], StageEvidence]) -> None:
    controller, other = world.canary(), world.controller()
    world.now += timedelta(days=2)
    world.evidence.seen = good(0.1)

    def tick_first() -> None:
        world.store.before_put = lambda: None
        other.tick(MODEL)

    world.store.before_put = tick_first
    step = controller.rollback(MODEL, actor="grace", reason="pager")
    assert (step.record.state, step.record.version, step.record.actor) == (ReleaseState.ROLLING_BACK, 4, "grace")
    assert world.endpoint.weights == {"a": 1.0, "b": 0.0}


def test_a_release_starts_when_the_live_slots_hold_what_the_stage_file_says(world: World) -> None:
    world.endpoint.held = {"a": "2" * 64, "b": "3" * 64}
    assert world.controller().start(MODEL, version="3.0.0", actor="ada").challenger_version == "3.0.0"


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ({"a": "2" * 64, "b": "2" * 64}, '2.0.0 in slot b; .* versions = { a = "2.0.0", b = "2.0.0" }'),
        ({"a": "3" * 64, "b": "3" * 64}, '3.0.0 in slot a, .* versions = { a = "3.0.0", b = "3.0.0" }'),
        ({"a": "2" * 64, "b": "9" * 64}, "sha256 999999999999… in slot b; .* deploy the stage"),
    ],
    ids=["not deployed yet", "deployed from elsewhere", "pushed nowhere"],
)
def test_a_stage_file_that_was_not_deployed_starts_no_release_and_names_the_line(
    world: World, held: dict[Slot, str], told: str
) -> None:
    world.endpoint.held = held
    with pytest.raises(ReleaseError, match=told):
        world.controller().start(MODEL, version="3.0.0", actor="ada")
    assert world.store.get(MODEL) is None


def test_a_version_that_its_alias_may_not_point_at_starts_no_release(world: World) -> None:
    world.aliases.unapproved = "3.0.0"
    with pytest.raises(ApprovalError):
        world.controller().start(MODEL, version="3.0.0", actor="ada")
    assert world.store.get(MODEL) is None


def test_a_slot_whose_archive_has_no_digest_is_not_compared(world: World) -> None:
    world.endpoint.held = {"a": "2" * 64}
    assert world.controller().start(MODEL, version="3.0.0", actor="ada").challenger == "b"


def test_a_clock_that_was_set_back_promotes_once_and_keeps_the_evidence(
    world: World, good: Callable[[float], StageEvidence]
) -> None:
    controller = world.canary()
    for days in (2, -3, 3, 2, -40, 41, 1, -5, 6):
        world.now += timedelta(days=days)
        world.evidence.seen = good(min(world.record().share, 0.5))
        controller.tick(MODEL)
    entries = controller.history(MODEL)[::-1]
    promoted = [entry for entry in entries if entry.decision and entry.decision.kind is DecisionKind.PROMOTE]
    moments = [entry.record.updated_at for entry in entries]
    assert len(promoted) == 1
    assert world.record().state is ReleaseState.PROMOTED
    assert moments == sorted(moments)
    assert {entry.record.release_id for entry in entries} == {world.record().release_id}, "evidence is kept under it"
    stages = [entry.record.stage_index for entry in entries]
    assert stages == sorted(stages)


def test_a_release_started_after_the_clock_was_set_back_counts_its_own_evidence(world: World) -> None:
    controller = world.canary()
    first = world.record()
    controller.rollback(MODEL, actor="ada", reason="broken")
    controller.tick(MODEL)
    world.now = first.started_at  # the same second again
    second = controller.start(MODEL, version="3.0.0", actor="ada")
    assert second.release_id != first.release_id
    assert second.started_at > first.started_at
