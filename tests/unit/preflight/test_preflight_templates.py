"""Templates against templates: what is lost; and what intrinsic functions stand for before anything is deployed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from serving.errors import PreflightError
from serving.preflight.compare import compare_templates
from serving.preflight.planned import read_planned
from serving.preflight.stateful import CREATE_ONLY
from serving.preflight.templates import UNKNOWN, PlannedStack, Resolver, read_stacks
from tests.unit.preflight.accounts import REGISTRY, checks, found, live, plan, ranker

IMPORTER = {
    "Resources": {"P": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Fn::ImportValue": "x:Value"}}}}
}


def stack(template: dict[str, Any], name: str = "streamhub-test-x") -> PlannedStack:
    return PlannedStack(name=name, account="123456789012", region="eu-west-1", template=template)


def resources(**entries: dict[str, Any]) -> dict[str, Any]:
    return {"Resources": entries}


def lost(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, bool]]:
    findings = compare_templates([stack(before)], [stack(after)], stage="test")
    return [(finding.level, finding.destructive) for finding in findings]


@pytest.mark.parametrize("kind", sorted(CREATE_ONLY))
def test_create_only_properties_are_those_of_cloudformations_schema(kind: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    assert {path.split("/")[2] for path in schema.get("createOnlyProperties", ())} == set(CREATE_ONLY[kind])


@pytest.mark.parametrize(("kind", "name"), [(kind, names[0]) for kind, names in sorted(CREATE_ONLY.items()) if names])
def test_a_change_of_a_create_only_property_is_a_destructive_replacement(kind: str, name: str) -> None:
    before = resources(R={"Type": kind, "Properties": {name: "one"}})
    after = resources(R={"Type": kind, "Properties": {name: "two"}})
    assert ("error", True) in lost(before, after)


@pytest.mark.parametrize("kind", sorted(set(CREATE_ONLY) - {"AWS::SageMaker::Endpoint"}))
def test_any_other_property_of_a_stateful_resource_may_change(kind: str) -> None:
    before, after = (resources(R={"Type": kind, "Properties": {"Tags": [{"Key": key}]}}) for key in "ab")
    assert lost(before, after) == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, ("error", True)),
        ("Delete", ("error", True)),
        ("Retain", ("warning", False)),
        ("RetainExceptOnCreate", ("warning", False)),
    ],
)
def test_a_bucket_that_leaves_its_template_is_lost_unless_it_is_kept(
    policy: str | None, expected: tuple[str, bool]
) -> None:
    entry = {"Type": "AWS::S3::Bucket", "Properties": {}} | ({"DeletionPolicy": policy} if policy else {})
    assert lost(resources(B=entry), resources()) == [expected]


def test_a_new_logical_id_for_the_same_bucket_is_a_loss() -> None:
    entry = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "b"}}
    assert lost(resources(Old=entry), resources(New=entry)) == [("error", True)]


def test_a_whole_stack_that_leaves_the_templates_counts_as_its_resources() -> None:
    before = [stack(resources(T={"Type": "AWS::DynamoDB::Table", "Properties": {}}))]
    [finding] = compare_templates(before, [stack(resources(), name="streamhub-test-y")], stage="test")
    assert finding.destructive


def test_stateless_resources_come_and_go() -> None:
    before = resources(A={"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmName": "a"}})
    assert lost(before, resources()) == []


def test_an_export_that_another_stack_imports_cannot_go_or_change_in_one_step() -> None:
    exporter = {**resources(), "Outputs": {"V": {"Value": "1", "Export": {"Name": "x:Value"}}}}
    importer = stack(IMPORTER, name="streamhub-test-importer")
    for after in (resources(), {**exporter, "Outputs": {"V": {"Value": "2", "Export": {"Name": "x:Value"}}}}):
        findings = compare_templates([stack(exporter), importer], [stack(after), importer], stage="test")
        assert [(finding.check, finding.level) for finding in findings] == [("export", "error")]
    # the importer that gives it up in the same deploy comes too late: the exporter goes first
    freed = stack(resources(), name="streamhub-test-importer")
    findings = compare_templates([stack(exporter), importer], [stack(resources()), freed], stage="test")
    assert "export" in {finding.check for finding in findings}


def test_a_weak_reference_to_an_output_that_its_stack_lacks_is_refused() -> None:
    read = {"Fn::GetStackOutput": {"StackName": "streamhub-test-x", "OutputName": "V", "Region": "eu-west-1"}}
    consumer = stack(
        resources(P={"Type": "AWS::SNS::Topic", "Properties": {"TopicName": read}}), name="streamhub-test-y"
    )
    producer = {**resources(), "Outputs": {"V": {"Value": "1"}}}
    assert compare_templates([], [consumer, stack(producer)], stage="test") == ()
    [finding] = compare_templates([], [consumer, stack(resources())], stage="test")
    assert (finding.check, finding.level, finding.what) == ("output", "error", "streamhub-test-y")


def test_an_export_that_nobody_imports_may_go() -> None:
    exporter = {**resources(), "Outputs": {"V": {"Value": "1", "Export": {"Name": "x:Value"}}}}
    assert compare_templates([stack(exporter)], [stack(resources())], stage="test") == ()


def test_a_lost_retain_flag_is_found_between_templates_alone() -> None:
    findings = compare_templates(
        plan().stacks, plan(ranker(endpoint={"RetainAllVariantProperties": False})).stacks, stage="test"
    )
    assert [(finding.check, finding.level) for finding in findings] == [("reset", "error")]


def test_the_same_templates_lose_nothing() -> None:
    assert compare_templates(plan().stacks, plan().stacks, stage="test") == ()


def test_against_the_account_a_renamed_bucket_is_destructive() -> None:
    renamed = copy.deepcopy(REGISTRY)
    renamed["Resources"]["Bucket"]["Properties"]["BucketName"] = "another"
    findings = found(plan(registry=renamed), live())
    assert "stateful" in checks(findings, "error")
    assert [finding.check for finding in findings if finding.destructive] == ["stateful"]


TEMPLATE = {
    "Parameters": {"Given": {"Type": "String", "Default": "default"}, "Asked": {"Type": "String"}},
    "Resources": {
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": {"Fn::Sub": "b-${AWS::Region}"}}},
        "Named": {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointName": "e"}},
        "Unnamed": {"Type": "AWS::S3::Bucket"},
    },
    "Outputs": {"B": {"Value": {"Ref": "Bucket"}, "Export": {"Name": "x:Bucket"}}},
}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("text", "text"),
        (7, 7),
        ({"Ref": "AWS::AccountId"}, "123456789012"),
        ({"Ref": "AWS::Partition"}, "aws"),
        ({"Ref": "Given"}, "default"),
        ({"Ref": "Asked"}, UNKNOWN),
        ({"Ref": "Bucket"}, "b-eu-west-1"),
        ({"Ref": "Unnamed"}, UNKNOWN),
        ({"Ref": "Nobody"}, UNKNOWN),
        ({"Fn::GetAtt": ["Named", "EndpointName"]}, "e"),
        ({"Fn::GetAtt": "Named.EndpointName"}, "e"),
        ({"Fn::GetAtt": ["Bucket", "Arn"]}, UNKNOWN),
        ({"Fn::Join": ["/", ["s3:/", {"Ref": "Bucket"}, "key"]]}, "s3://b-eu-west-1/key"),
        ({"Fn::Join": ["", ["a", {"Ref": "Unnamed"}]]}, UNKNOWN),
        ({"Fn::Sub": "arn:${AWS::Partition}:${Bucket}:${!Literal}"}, "arn:aws:b-eu-west-1:${!Literal}"),
        ({"Fn::Sub": ["${A}-${Named.EndpointName}", {"A": {"Ref": "Given"}}]}, "default-e"),
        ({"Fn::Sub": "${Unnamed}"}, UNKNOWN),
        ({"Fn::ImportValue": "x:Bucket"}, "b-eu-west-1"),
        ({"Fn::ImportValue": "y:Elsewhere"}, UNKNOWN),
        ({"Fn::GetStackOutput": {"StackName": "streamhub-test-x", "OutputName": "B"}}, "b-eu-west-1"),
        ({"Fn::GetStackOutput": {"StackName": "streamhub-test-x", "OutputName": "C"}}, UNKNOWN),
        ({"Fn::GetStackOutput": {"StackName": "another", "OutputName": "B"}}, UNKNOWN),
        ({"Fn::GetStackOutput": "malformed"}, UNKNOWN),
        ({"Fn::Select": [0, ["a"]]}, UNKNOWN),
        ({"Deep": [{"Ref": "Given"}]}, {"Deep": ["default"]}),
    ],
)
def test_intrinsic_functions_are_known_as_far_as_the_templates_tell(node: Any, expected: Any) -> None:
    made = stack(TEMPLATE)
    assert Resolver([made]).value(made, node) == expected


def test_a_folder_that_cdk_synth_did_not_write_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="run make synth"):
        read_stacks(tmp_path)
    nameless = json.dumps({"artifacts": {"x": {"type": "aws:cloudformation:stack"}}})
    for broken in ("", "[]", "{}", "{", nameless, '{"artifacts": []}', '{"artifacts": {"x": 1}}'):
        (tmp_path / "manifest.json").write_text(broken)
        with pytest.raises(PreflightError, match="run make synth"):
            read_stacks(tmp_path)


@pytest.mark.parametrize(
    "template",
    [
        {"Resources": {"E": {}}},
        {"Resources": []},
        {"Resources": {"T": {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": {}}}},
    ],
)
def test_a_template_that_is_none_is_refused_in_one_line(template: dict[str, Any], tmp_path: Path) -> None:
    properties = {"templateFile": "x.template.json"}
    artifact = {"type": "aws:cloudformation:stack", "environment": "aws://1/eu-west-1", "properties": properties}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": {"x": artifact}}))
    (tmp_path / "x.template.json").write_text(json.dumps(template))
    with pytest.raises(PreflightError, match="run make synth STAGE=test") as refused:
        read_planned(tmp_path, stage="test")
    assert "\n" not in str(refused.value)


def test_a_manifest_gives_environment_and_what_the_bootstrap_must_be(tmp_path: Path) -> None:
    properties = {
        "templateFile": "x.template.json",
        "requiresBootstrapStackVersion": 6,
        "bootstrapStackVersionSsmParameter": "/cdk-bootstrap/q/version",
        "cloudFormationExecutionRoleArn": "arn:${AWS::Partition}:iam::1:role/exec",
    }
    artifact = {"type": "aws:cloudformation:stack", "environment": "aws://1/eu-west-1", "properties": properties}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": {"x": artifact, "y": {"type": "cdk:tree"}}}))
    (tmp_path / "x.template.json").write_text("{}")
    [made] = read_stacks(tmp_path)
    assert (made.name, made.account, made.region) == ("x", "1", "eu-west-1")
    assert (made.execution_role, made.bootstrap_version) == ("arn:aws:iam::1:role/exec", 6)
