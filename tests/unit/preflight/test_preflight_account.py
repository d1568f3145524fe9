"""Account, stacks, quotas, artifacts and names; and that what cannot be read is never silent."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.preflight.checks.account import ACTIONS
from serving.preflight.finding import Finding, failing
from serving.preflight.live import Concurrency, Live, LiveStack, StoredArchive, Unread
from tests.unit.preflight.accounts import (
    ACCOUNT,
    BUCKET,
    ENDPOINT,
    IMAGE,
    NEW,
    OLD,
    TYPE,
    archive,
    checks,
    found,
    live,
    plan,
    ranker,
    served,
    variant,
)

RANKER_STACK = "streamhub-test-ranker"
UNREADABLE = (
    "bootstrap",
    "stacks",
    "targets",
    "quotas",
    "elsewhere",
    "permissions",
)
UNREADABLE_EACH = {"endpoints": ENDPOINT, "releases": ENDPOINT, "images": IMAGE, "archives": archive(OLD)}


def with_stack(status: str, **change: Any) -> Live:
    account = live()
    assert isinstance(account.stacks, dict)
    stack = replace(account.stacks[RANKER_STACK], status=status, **change)
    return replace(account, stacks={**account.stacks, RANKER_STACK: stack})


def test_another_account_than_the_stages_is_refused() -> None:
    # nothing else is said: another account's stacks and buckets are others
    [finding] = found(plan(ranker(a=NEW)), live(account="999999999999", bootstrap=None, images={IMAGE: False}))
    assert (finding.level, finding.got) == ("error", "account 999999999999")


def test_another_region_in_the_environment_is_a_warning() -> None:
    assert checks(found(plan(), live(region="eu-west-1")), "warning") == ["region"]
    assert found(plan(), live(region="")) == ()


@pytest.mark.parametrize(("version", "level"), [(None, "error"), (5, "error"), (6, ""), (33, "")])
def test_no_bootstrap_or_too_old_a_one_is_refused(version: int | None, level: str) -> None:
    levels = {finding.level for finding in found(plan(), live(bootstrap=version))}
    assert levels == ({level} if level else set())


def test_every_denied_action_is_one_finding() -> None:
    denied = {"sagemaker:CreateEndpoint": False, "s3:CreateBucket": False, "sagemaker:CreateModel": True}
    findings = found(plan(), live(permissions=denied))
    assert [finding.got for finding in findings] == ["s3:CreateBucket denied", "sagemaker:CreateEndpoint denied"]


@pytest.mark.parametrize("kind", sorted(ACTIONS))
def test_the_action_asked_for_is_one_of_cloudformations_schema(kind: str) -> None:
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema["handlers"]
    known = {action.lower() for handler in handlers.values() for action in handler.get("permissions", ())}
    assert ACTIONS[kind][0].lower() in known


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("CREATE_COMPLETE", ""),
        ("UPDATE_COMPLETE", ""),
        ("IMPORT_COMPLETE", ""),
        ("UPDATE_ROLLBACK_COMPLETE", "warning"),
        ("REVIEW_IN_PROGRESS", "warning"),
        ("ROLLBACK_COMPLETE", "warning"),
        ("UPDATE_ROLLBACK_FAILED", "error"),
        ("ROLLBACK_FAILED", "error"),
        ("DELETE_FAILED", "error"),
        ("CREATE_IN_PROGRESS", "error"),
        ("UPDATE_IN_PROGRESS", "error"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "error"),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "error"),
        ("DELETE_IN_PROGRESS", "error"),
    ],
)
def test_each_stack_status_says_whether_it_takes_an_update(status: str, level: str) -> None:
    findings = found(plan(), with_stack(status))
    assert [(finding.level, finding.what) for finding in findings] == ([(level, RANKER_STACK)] if level else [])


def test_a_protected_stack_whose_creation_failed_cannot_be_made_anew_by_a_deploy() -> None:
    assert checks(found(plan(), with_stack("ROLLBACK_COMPLETE", protected=True)), "error") == ["stack"]


def test_a_stack_that_left_the_templates_is_told() -> None:
    account = live()
    assert isinstance(account.stacks, dict)
    gone = LiveStack(name="streamhub-test-old", status="CREATE_COMPLETE")
    [finding] = found(plan(), replace(account, stacks={**account.stacks, gone.name: gone}))
    assert (finding.level, finding.what) == ("warning", "streamhub-test-old")


@pytest.mark.parametrize(
    ("quota", "elsewhere", "level"),
    [
        # an update: one instance a slot and two slots, both fleets: 4; at max 4 a slot, both fleets: 16
        (16, 0, ""),
        (15, 0, "warning"),
        (4, 0, "warning"),
        (3, 0, "error"),
        (7, 4, "error"),
        (8, 4, "warning"),
        (20, 4, ""),
    ],
)
def test_a_quota_must_hold_both_fleets_and_the_accounts_other_endpoints(quota: int, elsewhere: int, level: str) -> None:
    findings = found(plan(ranker(b=NEW)), live(quotas={TYPE: quota}, elsewhere={TYPE: elsewhere}))
    assert {finding.level for finding in findings if finding.check == "quota"} == ({level} if level else set())


def test_without_an_update_one_fleet_is_needed_now() -> None:
    assert checks(found(plan(), live(quotas={TYPE: 2})), "error") == []
    assert checks(found(plan(), live(quotas={TYPE: 1})), "error") == ["quota"]


def test_what_scaling_added_counts() -> None:
    scaled = served(variant("a", count=3, desired_count=4), variant("b"))
    findings = found(plan(ranker(b=NEW)), live(quotas={TYPE: 9}, endpoints=scaled))
    [finding] = [finding for finding in findings if finding.check == "quota"]
    assert (finding.level, finding.allowed) == ("error", "10 for this deploy, both fleets counted")


def with_function(*, reserved: int) -> dict[str, Any]:
    template = ranker()
    properties = {"FunctionName": "streamhub-test-release", "ReservedConcurrentExecutions": reserved}
    template["Resources"]["Function"] = {"Type": "AWS::Lambda::Function", "Properties": properties}
    return template


@pytest.mark.parametrize(
    ("limit", "unreserved", "is_refused"),
    [(10, 10, True), (50, 50, True), (1000, 1000, False), (1000, 101, False), (1000, 100, True), (101, 101, False)],
)
def test_lambda_keeps_a_hundred_executions_or_all_of_a_lower_limit(
    *, limit: int, unreserved: int, is_refused: bool
) -> None:
    """Lambda guide, *configuration-concurrency*: 100 stay for functions that reserve none."""
    account = live(concurrency=Concurrency(limit=limit, unreserved=unreserved))
    told = [one for one in found(plan(with_function(reserved=1)), account) if one.check == "concurrency"]
    assert [one.level for one in told] == (["error"] if is_refused else [])


def test_a_function_that_is_live_has_reserved_already_and_an_unread_limit_is_said() -> None:
    template, full = with_function(reserved=1), Concurrency(limit=10, unreserved=9)
    assert "concurrency" not in checks(found(plan(template), live(template, concurrency=full)), "error")
    unread = live(concurrency=Unread("denied"))
    assert "concurrency" in checks(found(plan(template), unread), "unverified")
    assert "concurrency" not in checks(found(plan(), unread), "unverified")


def test_a_quota_that_is_not_listed_is_not_verified() -> None:
    assert checks(found(plan(), live(quotas={})), "unverified") == ["quota"]


def test_a_missing_image_and_a_missing_archive_are_refused() -> None:
    assert checks(found(plan(), live(images={IMAGE: False})), "error") == ["image"]
    [finding] = found(plan(), live(archives={archive(OLD): None}))
    assert (finding.check, finding.level, finding.what) == ("archive", "error", "ranker 1.0.0")


def test_bytes_that_are_not_those_of_their_digest_are_refused() -> None:
    other = {archive(OLD): StoredArchive(objects=1, sha256=NEW)}
    assert checks(found(plan(), live(archives=other)), "error") == ["archive"]


def test_an_archive_uploaded_in_parts_has_no_digest_of_its_own_and_passes() -> None:
    assert found(plan(), live(archives={archive(OLD): StoredArchive(objects=1)})) == ()


@pytest.mark.parametrize(
    ("owner", "said"), [("other-stack", "taken by stack other-stack"), ("", "taken, by no stack of this account")]
)
def test_a_name_that_somebody_has_is_refused(owner: str, said: str) -> None:
    account = live(stacks={}, endpoints={}, targets={}, owners={("AWS::S3::Bucket", BUCKET): owner})
    [finding] = [finding for finding in found(plan(), account) if finding.check == "name"]
    assert finding.level == "error"
    assert said in finding.got


def test_a_name_that_the_stages_own_stack_has_is_no_finding() -> None:
    assert found(plan(), live(owners={("AWS::S3::Bucket", BUCKET): "streamhub-test-registry"})) == ()


def test_without_an_account_that_alone_is_said() -> None:
    [finding] = found(plan(), live(account=Unread("no credentials"), bootstrap=None))
    assert (finding.check, finding.level) == ("account", "error")


@settings(deadline=None)
@given(unread=st.sets(st.sampled_from([*UNREADABLE, *UNREADABLE_EACH]), min_size=1))
def test_whatever_cannot_be_read_is_said_and_never_taken_for_good(unread: set[str]) -> None:
    silent = {name: Unread("denied") for name in unread & set(UNREADABLE)}
    each = {name: {UNREADABLE_EACH[name]: Unread("denied")} for name in unread & set(UNREADABLE_EACH)}
    findings = found(plan(), live(**silent, **each))
    unverified = [finding for finding in findings if finding.level == "unverified"]
    # without quotas the account's other endpoints do not matter
    assert len(unverified) >= len(unread - ({"elsewhere"} if "quotas" in unread else set()))
    assert [finding for finding in findings if finding.level == "error"] == []


def test_every_part_of_an_account_is_covered_by_the_claim_above() -> None:
    named = {*UNREADABLE, *UNREADABLE_EACH, "account", "region", "approvals", "owners", "concurrency"}
    assert {field.name for field in fields(Live)} == named


def test_an_unread_approval_or_name_is_said_too() -> None:
    assert checks(found(plan(), live(approvals={archive(OLD): Unread("denied")})), "unverified") == ["approval"]
    owners = {("AWS::S3::Bucket", BUCKET): Unread("denied")}
    assert "name" in checks(found(plan(), live(stacks={}, owners=owners)), "unverified")


def test_a_version_that_is_not_approved_is_refused_with_the_command() -> None:
    [finding] = found(plan(), live(approvals={archive(OLD): False}))
    assert (finding.check, finding.fix) == ("approval", "streamhub registry approve ranker 1.0.0")


@pytest.mark.parametrize(
    ("fail_on", "failed"), [("destructive", ["lost"]), ("error", ["lost", "bad"]), ("warning", ["lost", "bad", "odd"])]
)
def test_each_threshold_fails_on_what_it_names(fail_on: Any, failed: list[str]) -> None:
    def finding(level: Any, check: str, *, destructive: bool = False) -> Finding:
        return Finding(level=level, check=check, what="w", got="g", allowed="a", fix="f", destructive=destructive)

    said = (
        finding("error", "lost", destructive=True),
        finding("error", "bad"),
        finding("warning", "odd"),
        finding("unverified", "unread"),
    )
    assert [finding.check for finding in failing(said, fail_on=fail_on)] == failed


def test_the_account_id_of_these_tests_is_the_one_that_the_plan_names() -> None:
    assert {stack.account for stack in plan().stacks} == {ACCOUNT}
