"""IAM's evaluation of identity policies: the rules of its user guide, and another implementation as the oracle."""

from __future__ import annotations

import fnmatch
import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.permissions.conditions import OPERATORS, Condition, PolicyError
from local.permissions.patterns import matches, tokens
from local.permissions.policy import Call, Decision, decide, statements

OBJECT = "arn:aws:s3:::registry/models/ranker/v1"


def allow(action: Any = "s3:GetObject", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: Any = "s3:GetObject", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {**allow(action, resource, **more), "Effect": "Deny"}


def decided(
    *entries: dict[str, Any],
    action: str = "s3:GetObject",
    resource: str = OBJECT,
    boundary: list[dict[str, Any]] | None = None,
    version: str = "2012-10-17",
    **context: tuple[str, ...],
) -> Decision:
    call = Call(action, resource, {key.replace("__", ":"): values for key, values in context.items()})
    limits = None if boundary is None else statements({"Version": version, "Statement": boundary})
    return decide(call, statements({"Version": version, "Statement": list(entries)}), boundary=limits)


def test_nothing_is_allowed_that_no_statement_allows() -> None:
    assert decided() is Decision.NOT_ALLOWED
    assert decided(allow("s3:PutObject")) is Decision.NOT_ALLOWED
    assert decided(allow(resource="arn:aws:s3:::registry/models/other/*")) is Decision.NOT_ALLOWED


def test_a_deny_wins_wherever_it_stands() -> None:
    assert decided(allow(), deny()) is Decision.DENIED
    assert decided(deny("s3:*"), allow()) is Decision.DENIED


def test_actions_have_no_case_and_resources_have() -> None:
    assert decided(allow("S3:getobject")) is Decision.ALLOWED
    assert decided(allow(resource=OBJECT.replace("models", "Models"))) is Decision.NOT_ALLOWED


def test_not_action_and_not_resource_are_about_all_others() -> None:
    others = {"Effect": "Allow", "NotAction": "s3:Delete*", "Resource": "*"}
    assert decided(others) is Decision.ALLOWED
    assert decided(others, action="s3:DeleteObject") is Decision.NOT_ALLOWED
    elsewhere = {"Effect": "Deny", "Action": "*", "NotResource": "arn:aws:s3:::registry/*"}
    assert decided(allow("*"), elsewhere) is Decision.ALLOWED
    assert decided(allow("*"), elsewhere, resource="arn:aws:s3:::telemetry/a") is Decision.DENIED


def test_a_boundary_allows_nothing_and_limits_everything() -> None:
    assert decided(boundary=[allow()]) is Decision.NOT_ALLOWED
    assert decided(allow(), boundary=[allow("s3:*")]) is Decision.ALLOWED
    assert decided(allow(), boundary=[allow("sqs:*")]) is Decision.OUT_OF_BOUNDARY
    assert decided(allow(), boundary=[allow(), deny()]) is Decision.DENIED


@pytest.mark.parametrize(
    ("operator", "value", "asked", "holds"),
    [
        ("StringEquals", "a*", "a*", True),
        ("StringEquals", "a*", "ab", False),
        ("StringLike", "a*", "ab", True),
        ("StringNotLike", "a*", "ab", False),
        ("StringEqualsIgnoreCase", "AB", "ab", True),
        ("NumericLessThan", "1.2", "1.1", True),
        ("NumericLessThan", "1.2", "1.2", False),
        ("NumericGreaterThanEquals", "7", "many", False),
        ("DateLessThan", "2026-01-01T00:00:00Z", "1700000000", True),
        ("DateGreaterThan", "2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z", False),
        ("Bool", True, "true", True),
        ("IpAddress", "10.0.0.0/8", "10.1.2.3", True),
        ("NotIpAddress", "10.0.0.0/8", "10.1.2.3", False),
        ("ArnLike", "arn:aws:sns:*:123456789012:*", "arn:aws:sns:us-east-1:123456789012:alerts", True),
        ("ArnLike", "arn:aws:sns:*:t", "arn:aws:sns:us-east-1:123456789012:t", False),
        ("BinaryEquals", "QmluYXJ5", "QmluYXJ5", True),
    ],
)
def test_operators_compare_as_the_user_guide_says(operator: str, value: Any, asked: str, *, holds: bool) -> None:
    found = decided(allow(Condition={operator: {"aws:Key": value}}), aws__key=(asked,))
    assert (found is Decision.ALLOWED) == holds


@pytest.mark.parametrize(
    ("operator", "holds"),
    [
        ("StringEquals", False),
        ("StringEqualsIfExists", True),
        ("StringNotEquals", True),
        ("ForAllValues:StringEquals", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAnyValue:StringNotEquals", False),
        ("ForAnyValue:StringEqualsIfExists", True),
        ("NumericLessThan", False),
    ],
)
def test_a_key_that_the_request_lacks(operator: str, *, holds: bool) -> None:
    assert (decided(allow(Condition={operator: {"aws:Key": "1"}})) is Decision.ALLOWED) == holds


def test_null_asks_whether_a_key_is_there() -> None:
    absent = allow(Condition={"Null": {"aws:Key": "true"}})
    assert decided(absent) is Decision.ALLOWED
    assert decided(absent, aws__key=("x",)) is Decision.NOT_ALLOWED
    assert decided(allow(Condition={"Null": {"aws:Key": False}}), aws__key=("x",)) is Decision.ALLOWED


def test_sets_ask_for_all_or_for_any_value() -> None:
    every = allow(Condition={"ForAllValues:StringLike": {"aws:TagKeys": ["a*", "b"]}})
    assert decided(every, aws__tagkeys=("a1", "b")) is Decision.ALLOWED
    assert decided(every, aws__tagkeys=("a1", "c")) is Decision.NOT_ALLOWED
    some = allow(Condition={"ForAnyValue:StringEquals": {"aws:TagKeys": ["b"]}})
    assert decided(some, aws__tagkeys=("a", "b")) is Decision.ALLOWED


def test_all_keys_of_all_operators_must_hold() -> None:
    both = allow(Condition={"StringEquals": {"aws:A": "1", "aws:B": ["2", "3"]}, "Bool": {"aws:C": "true"}})
    assert decided(both, aws__a=("1",), aws__b=("3",), aws__c=("true",)) is Decision.ALLOWED
    assert decided(both, aws__a=("1",), aws__b=("3",), aws__c=("false",)) is Decision.NOT_ALLOWED
    assert decided(both, aws__a=("1",), aws__b=("4",), aws__c=("true",)) is Decision.NOT_ALLOWED


def test_variables_stand_for_what_the_request_has_and_never_for_a_wildcard() -> None:
    own = allow(resource="arn:aws:s3:::home/${aws:PrincipalTag/team}/*")
    mine = {"resource": "arn:aws:s3:::home/red/a", "action": "s3:GetObject"}
    tag = "aws__principaltag/team"
    assert decided(own, **mine, **{tag: ("red",)}) is Decision.ALLOWED  # type: ignore[arg-type]
    assert decided(own, **mine, **{tag: ("*",)}) is Decision.NOT_ALLOWED  # type: ignore[arg-type]
    assert decided(own, **mine) is Decision.NOT_ALLOWED  # type: ignore[arg-type]
    assert decided(allow(resource="arn:aws:s3:::home/${aws:X, 'red'}/a"), **mine) is Decision.ALLOWED  # type: ignore[arg-type]
    assert decided(allow(resource="a${*}"), resource="a*") is Decision.ALLOWED
    assert decided(allow(resource="a${*}"), resource="ab") is Decision.NOT_ALLOWED
    assert decided(allow(resource="a${*}"), resource="a${b}", version="2008-10-17") is Decision.ALLOWED


def test_a_variable_is_part_of_an_arn_although_its_name_has_a_colon() -> None:
    """IAM User Guide, "Variables and tags": policy variables work in conditions on ARNs."""
    topic = {"aws:SourceArn": "arn:aws:sns:${aws:RequestedRegion}:1:*"}
    here: dict[str, Any] = {"aws__requestedregion": ("eu-west-1",), "aws__sourcearn": ("arn:aws:sns:eu-west-1:1:t",)}
    there = {**here, "aws__requestedregion": ("us-east-1",)}
    for operator in ("ArnLike", "ArnEquals"):
        assert decided(allow(Condition={operator: topic}), **here) is Decision.ALLOWED
        assert decided(allow(Condition={operator: topic}), **there) is Decision.NOT_ALLOWED
    for operator in ("ArnNotLike", "ArnNotEquals"):
        assert decided(allow(), deny(Condition={operator: topic}), **here) is Decision.ALLOWED
        assert decided(allow(), deny(Condition={operator: topic}), **there) is Decision.DENIED


@pytest.mark.parametrize(
    "document",
    [
        "no json",
        {"Statement": [{"Effect": "allow", "Action": "*", "Resource": "*"}]},
        {"Statement": [{"Effect": "Allow", "Resource": "*"}]},
        {"Statement": [{"Effect": "Allow", "Action": "*", "NotAction": "*", "Resource": "*"}]},
        {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Equals": {"a": "b"}}}]},
        {"Version": "2012-10-17"},
        # IAM User Guide: IfExists may be added to any operator but Null
        {"Statement": [{**allow("*"), "Condition": {"NullIfExists": {"aws:MultiFactorAuthAge": "true"}}}]},
    ],
)
def test_a_policy_that_iam_would_not_take_is_refused(document: Any) -> None:
    with pytest.raises(PolicyError):
        statements(document)


@given(pattern=st.text("ab*?[", max_size=8), value=st.text("ab[*", max_size=10))
def test_wildcards_match_as_a_shells_do_without_classes(pattern: str, value: str) -> None:
    shell = fnmatch.translate(pattern.replace("[", "[[]"))
    found = tokens(pattern, {}, variables=True)
    assert found is not None
    assert matches(found, value) == (re.match(shell, value) is not None)


def test_a_hostile_pattern_takes_no_time_to_speak_of() -> None:
    found = tokens("*a" * 200 + "b", {}, variables=True)
    assert found is not None
    assert not matches(found, "a" * 2000)


NAMES = st.sampled_from(["s3:GetObject", "s3:*", "s3:Get?bject", "*", "sqs:SendMessage"])
ARNS = st.sampled_from([OBJECT, "*", "arn:aws:s3:::registry/*", "arn:aws:s3:::telemetry/*"])
KEYS = st.sampled_from(["aws:A", "aws:B"])
PLAIN = sorted({name for name in OPERATORS if not name.startswith(("arn", "binary", "date", "null"))})


def blocks(operators: list[str], values: list[str]) -> Any:
    """Give condition blocks; the oracle compares what is no number otherwise, so numbers meet numbers alone."""
    wanted = st.dictionaries(KEYS, st.lists(st.sampled_from(values), min_size=1, max_size=2), min_size=1)
    return st.dictionaries(st.sampled_from([name + end for name in operators for end in ("", "IfExists")]), wanted)


NUMERIC = [name for name in PLAIN if name.startswith("numeric")]
OTHERS = [name for name in PLAIN if name not in NUMERIC]
BLOCKS = blocks(OTHERS, ["1", "2", "1*", "10.0.0.0/8"]) | blocks(NUMERIC, ["1", "2"])
ENTRIES = st.builds(
    lambda effect, action, names, resource, arns, block: {
        "Effect": effect,
        action: names,
        resource: arns,
        "Condition": block,
    },
    st.sampled_from(["Allow", "Allow", "Deny"]),
    st.sampled_from(["Action", "NotAction"]),
    st.lists(NAMES, min_size=1, max_size=2),
    st.sampled_from(["Resource", "NotResource"]),
    st.lists(ARNS, min_size=1, max_size=2),
    BLOCKS,
)
POLICIES = st.lists(ENTRIES, max_size=4)
CALLS = st.builds(
    Call,
    st.sampled_from(["s3:GetObject", "s3:PutObject", "sqs:SendMessage"]),
    st.sampled_from([OBJECT, "arn:aws:s3:::telemetry/a", "*"]),
    st.dictionaries(st.sampled_from(["aws:a", "aws:b"]), st.sampled_from([("1",), ("2",), ("3",)]), max_size=2),
)


def parsed(policy: list[dict[str, Any]]) -> Any:
    return statements({"Version": "2012-10-17", "Statement": policy})


@given(call=CALLS, policy=POLICIES, boundary=st.none() | POLICIES)
def test_another_implementation_decides_alike(
    call: Call, policy: list[dict[str, Any]], boundary: list[dict[str, Any]] | None
) -> None:
    """The oracle is ministack's evaluator, where both speak: no variables, no set operators, one value a key."""
    oracle = import_module("ministack.core.iam_evaluator")
    context = oracle.EvalContext(
        principal_arn="arn:aws:sts::123456789012:assumed-role/r/s",
        principal_type="AssumedRole",
        principal_account="123456789012",
        action=call.action,
        resource_arn=call.resource,
        region="us-east-1",
        service_context={key: values[0] for key, values in call.context.items()},
    )
    layers = [[oracle.parse_policy_document({"Statement": layer})] for layer in (policy, boundary) if layer is not None]
    expected = oracle.evaluate(context, *layers).decision
    limits = None if boundary is None else parsed(boundary)
    ours = decide(call, parsed(policy), boundary=limits)
    assert {"Allow": "allowed", "Deny": "explicit deny"}.get(expected, "no allow") == ours.value.removesuffix(
        " in the boundary"
    )


@given(call=CALLS, policy=POLICIES, more=ENTRIES, order=st.randoms(use_true_random=False))
def test_an_allow_only_gives_a_deny_only_takes_and_order_says_nothing(
    call: Call, policy: list[dict[str, Any]], more: dict[str, Any], order: Any
) -> None:
    before, after = decide(call, parsed(policy)), decide(call, parsed([*policy, more]))
    if more["Effect"] == "Allow":
        assert after is before or (before, after) == (Decision.NOT_ALLOWED, Decision.ALLOWED)
    else:
        assert after in {before, Decision.DENIED}
    mixed = order.sample(policy, len(policy))
    assert decide(call, parsed(mixed)) is before
    assert decide(call, parsed(policy), boundary=parsed([allow("*")])) is before


@given(
    name=st.sampled_from(OPERATORS),
    wanted=st.text(max_size=6),
    found=st.text(max_size=6),
)
def test_no_text_breaks_an_operator(name: str, wanted: str, found: str) -> None:
    for prefix in ("", "ForAllValues:", "ForAnyValue:"):
        assert Condition(prefix + name, "aws:A", (wanted,)).holds({"aws:a": (found,)}, variables=True) in {True, False}
