"""What a deploy would do to live traffic."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.preflight.live import LiveTarget
from serving.release.state import ReleaseRecord, ReleaseState
from tests.unit.preflight.accounts import (
    ENDPOINT,
    FACTS,
    IMAGE,
    NEW,
    OLD,
    TYPE,
    archive,
    checks,
    fleet,
    found,
    live,
    plan,
    ranker,
    served,
    variant,
)

NOW = datetime(2026, 12, 2, tzinfo=UTC)
TARGET_A = f"endpoint/{ENDPOINT}/variant/a"
RETAIN_NOTHING = {"RetainAllVariantProperties": False}
EXCLUDES = {"ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}]}


def release(*, state: ReleaseState, production: Literal["a", "b"] = "a", share: float = 0.25) -> ReleaseRecord:
    return ReleaseRecord(
        release_id="2.0.0-x",
        model="ranker",
        policy="spec",
        state=state,
        production=production,
        challenger="b" if production == "a" else "a",
        production_version="1.0.0",
        challenger_version="2.0.0",
        stage_index=0,
        share=share,
        salt="s",
        saved_weights={"a": 1.0, "b": 0.0},
        version=1,
        started_at=NOW,
        stage_started_at=NOW,
        updated_at=NOW,
        actor="ops",
        reason="r",
    )


def test_the_same_stage_again_is_cleared_without_a_word() -> None:
    assert found(plan(), live()) == ()


@settings(deadline=None)
@given(
    weights=st.tuples(st.floats(0, 100), st.floats(0, 100)),
    counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    minimum=st.integers(1, 4),
)
def test_whatever_weights_counts_and_minimum_are_live_the_same_templates_are_cleared(
    weights: tuple[float, float], counts: tuple[int, int], minimum: int
) -> None:
    variants = [
        variant(name, weight=weight, desired_weight=weight, count=count, desired_count=count)
        for name, weight, count in zip("ab", weights, counts, strict=True)
    ]
    raised = {f"endpoint/{ENDPOINT}/variant/{slot}": LiveTarget(minimum=minimum, maximum=4) for slot in "ab"}
    assert found(plan(), live(endpoints=served(*variants), targets=raised)) == ()


@pytest.mark.parametrize("endpoint", [RETAIN_NOTHING, EXCLUDES], ids=["no retain", "weights excluded"])
def test_a_template_that_would_reset_weights_or_counts_is_refused(endpoint: dict[str, Any]) -> None:
    findings = found(plan(ranker(endpoint=endpoint)), live())
    assert checks(findings, "error") == ["reset"]


@settings(deadline=None)
@given(weight=st.floats(min_value=0.001, max_value=100), slot=st.sampled_from("ab"))
def test_any_weight_above_nought_keeps_a_slots_version(weight: float, slot: str) -> None:
    variants = [
        variant(name, weight=weight if name == slot else 0.0, desired_weight=weight if name == slot else 0.0)
        for name in "ab"
    ]
    findings = found(plan(ranker(**{slot: NEW})), live(endpoints=served(*variants)))
    [finding] = [finding for finding in findings if finding.check == "slot"]
    assert finding.level == "error"
    assert finding.got.startswith("ranker 2.0.0 in place of ranker 1.0.0")
    assert f"slot {slot}" in finding.what


def test_the_idle_slot_may_take_a_new_version() -> None:
    assert found(plan(ranker(b=NEW)), live()) == ()


def test_a_weight_that_is_asked_for_and_not_there_yet_counts_as_traffic() -> None:
    endpoints = served(variant("a"), variant("b", weight=0.0, desired_weight=0.1))
    assert checks(found(plan(ranker(b=NEW)), live(endpoints=endpoints)), "error") == ["slot"]


def test_the_production_of_the_record_is_busy_even_at_weight_nought() -> None:
    # the API goes by the record; weights follow it when the endpoint is in service
    record = release(state=ReleaseState.PROMOTED, production="b")
    findings = found(plan(ranker(b=NEW)), live(releases={ENDPOINT: record}))
    assert checks(findings, "error") == ["slot"]


def test_the_challenger_of_a_moving_release_is_busy() -> None:
    record = release(state=ReleaseState.CANARY)
    findings = found(plan(ranker(b=NEW)), live(releases={ENDPOINT: record}))
    assert checks(findings, "error") == ["slot"]


def test_the_old_slot_after_a_promotion_is_free() -> None:
    record = release(state=ReleaseState.PROMOTED, production="b")
    endpoints = served(variant("a", weight=0.0, desired_weight=0.0), variant("b", weight=1.0, desired_weight=1.0))
    assert found(plan(ranker(a=NEW)), live(endpoints=endpoints, releases={ENDPOINT: record})) == ()


def test_another_container_of_the_same_version_is_a_warning() -> None:
    other = IMAGE.replace("26.05", "26.06")
    findings = found(plan(ranker(image=other)), live(images={other: True}))
    assert (checks(findings, "error"), checks(findings, "warning")) == ([], ["slot"])


def test_other_slot_names_are_refused() -> None:
    findings = found(plan(ranker(slots=("main",), targets=False)), live(targets={}))
    assert checks(findings, "error") == ["slot"]


def test_a_lower_minimum_than_a_release_raised_is_refused_and_says_by_whom() -> None:
    raised = {TARGET_A: LiveTarget(minimum=3, maximum=4)}
    record = release(state=ReleaseState.CANARY)
    account = live(targets=raised, releases={ENDPOINT: record}, endpoints=served(variant("a", desired_count=3)))
    findings = [finding for finding in found(plan(ranker(bounds=(2, 4))), account) if finding.check == "minimum"]
    assert [finding.level for finding in findings] == ["error"]
    assert "release 2.0.0-x raised it" in findings[0].allowed


def test_a_maximum_below_the_live_count_is_refused_since_it_takes_capacity_away() -> None:
    findings = found(plan(ranker(bounds=(1, 2))), live(endpoints=served(variant("a", count=4, desired_count=4))))
    assert checks(findings, "error") == ["scaling"]


def test_a_minimum_above_the_live_count_is_a_warning() -> None:
    findings = found(plan(ranker(bounds=(3, 4))), live())
    assert (checks(findings, "error"), checks(findings, "warning")) == ([], ["scaling"])


def test_another_instance_type_of_an_autoscaled_slot_is_refused_with_both_steps() -> None:
    findings = found(plan(ranker(instance_type="ml.c7i.large")), live(quotas={"ml.c7i.large": 40}))
    [finding, _] = [finding for finding in findings if finding.check == "instance type"]
    assert finding.level == "error"
    assert "(1) with the old type and autoscaling = false under [models.ranker] of stages/test.toml" in finding.fix
    assert "(2) with the new type" in finding.fix


def test_once_the_targets_are_gone_the_type_may_change_and_the_kept_count_is_told() -> None:
    before = ranker(targets=False)
    account = live(before, targets={}, quotas={"ml.c7i.large": 40})
    findings = found(plan(ranker(instance_type="ml.c7i.large")), account)
    assert (checks(findings, "error"), checks(findings, "warning")) == ([], ["instance type"])


def test_taking_the_targets_away_is_the_first_of_the_two_steps_and_is_cleared() -> None:
    assert found(plan(ranker(targets=False)), live()) == ()


def test_a_deploy_of_an_endpoint_whose_release_moves_is_a_warning_only_if_it_updates_the_endpoint() -> None:
    moving = {ENDPOINT: release(state=ReleaseState.CANARY)}
    assert found(plan(), live(releases=moving)) == ()
    other = IMAGE.replace("26.05", "26.06")
    findings = found(plan(ranker(image=other)), live(releases=moving, images={other: True}))
    assert "release" in checks(findings, "warning")


@pytest.mark.parametrize("status", ["Updating", "SystemUpdating", "RollingBack", "Creating"])
def test_an_endpoint_that_is_not_in_service_is_not_updated(status: str) -> None:
    account = live(endpoints=served(status=status))
    assert checks(found(plan(ranker(b=NEW)), account), "error") == ["endpoint"]
    assert checks(found(plan(), account), "error") == []
    assert checks(found(plan(), account), "warning") == ["endpoint"]


@pytest.mark.parametrize("status", ["Failed", "UpdateRollbackFailed"])
def test_a_broken_endpoint_is_an_error_whatever_changes(status: str) -> None:
    assert checks(found(plan(), live(endpoints=served(status=status))), "error") == ["endpoint"]


def test_an_update_that_was_rolled_back_silently_is_found() -> None:
    # InService on another config than the stack's: CloudFormation sees no difference and would do nothing
    findings = found(plan(), live(endpoints=served(config="config-0")))
    assert checks(findings, "error") == ["silent rollback"]
    assert "--endpoint-config-name config-1 --retain-all-variant-properties" in findings[0].fix


def test_a_config_is_the_stacks_own_whatever_letters_its_arn_has() -> None:
    assert found(plan(), live(endpoints=served(config="Config-1"))) == ()


def test_a_deploy_that_moves_a_rolled_back_endpoint_on_is_a_warning() -> None:
    findings = found(plan(ranker(b=NEW)), live(endpoints=served(config="config-0")))
    assert (checks(findings, "error"), checks(findings, "warning")) == ([], ["silent rollback"])


def on_fleet() -> dict[str, Any]:
    components = tuple(variant(slot, weight=0.0, desired_weight=0.0) for slot in "ab")
    machines = variant("fleet", archive=None, image=None, weight=1.0, desired_weight=1.0)
    return served(machines, components=components)


def test_components_are_slots_too_and_without_a_release_a_is_busy() -> None:
    account = live(fleet(), endpoints=on_fleet(), targets={})
    assert found(plan(fleet()), account) == ()
    assert found(plan(fleet(b=NEW)), account) == ()
    assert checks(found(plan(fleet(a=NEW)), account), "error") == ["slot"]


def test_components_go_by_the_record_of_their_release() -> None:
    promoted = {ENDPOINT: release(state=ReleaseState.PROMOTED, production="b")}
    account = live(fleet(), endpoints=on_fleet(), targets={}, releases=promoted)
    assert found(plan(fleet(a=NEW)), account) == ()
    assert checks(found(plan(fleet(b=NEW)), account), "error") == ["slot"]


def test_a_new_component_version_leaves_the_fleet_alone() -> None:
    # the config names no model: SageMaker rolls the component, and needs no second fleet
    account = live(fleet(), endpoints=on_fleet(), targets={}, quotas={TYPE: 6})
    assert found(plan(fleet(b=NEW)), account) == ()
    assert checks(found(plan(fleet(b=NEW)), replace(account, quotas={TYPE: 5})), "warning") == ["quota"]


def test_an_endpoint_of_one_slot_switches_its_version_with_a_warning() -> None:
    account = live(ranker(slots=("a",)), endpoints=served(variant("a")))
    findings = found(plan(ranker(slots=("a",), a=NEW)), account)
    assert (checks(findings, "error"), checks(findings, "warning")) == ([], ["slot"])


def test_a_change_of_another_endpoint_of_the_stack_is_no_update_of_this_one() -> None:
    other = ranker()
    other["Resources"]["Another"] = {"Type": "AWS::SageMaker::Model", "Properties": {"PrimaryContainer": {}}}
    account = live(endpoints=served(status="Updating"))
    assert checks(found(plan(other), account), "error") == []


def test_templates_older_than_the_stage_file_are_refused() -> None:
    facts = replace(FACTS, slots={(ENDPOINT, "b"): NEW})
    [finding] = found(plan(), live(), facts)
    assert (finding.check, finding.level) == ("stale", "error")
    assert "ranker 2.0.0" in finding.allowed


def test_nothing_is_said_of_an_endpoint_that_is_not_there_yet() -> None:
    assert found(plan(), live(endpoints={}, targets={})) == ()


def test_what_a_slot_holds_stays_unverified_when_its_model_cannot_be_read() -> None:
    findings = found(plan(), live(endpoints=served(variant("a", archive=None, image=None), variant("b"))))
    assert checks(findings, "unverified") == ["slot"]


def test_archives_are_told_by_version_or_else_by_digest() -> None:
    assert FACTS.told(archive(OLD)) == "ranker 1.0.0"
    assert FACTS.told(archive("c" * 64)) == "sha256 cccccccccccc…"
    assert FACTS.told(None) == "nothing"
