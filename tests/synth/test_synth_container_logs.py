"""What containers print is kept as long as the stage says, under its key, and their roles may write it there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from serving.spec.rules.place import logs_are_kept_by_a_known_number

ENDPOINT = "AWS::SageMaker::Endpoint"
GROUP = "AWS::Logs::LogGroup"


def places(stage: Any, slug: str) -> set[str]:
    """Name where SageMaker logs (guide, *logging-cloudwatch*): by endpoint, or by component where there are some."""
    components = {one.props["InferenceComponentName"] for one in stage.all("AWS::SageMaker::InferenceComponent", slug)}
    if components:
        return {f"/aws/sagemaker/InferenceComponents/{name}" for name in components}
    return {f"/aws/sagemaker/Endpoints/{one.props['EndpointName']}" for one in stage.all(ENDPOINT, slug)}


def test_each_place_that_sagemaker_logs_to_is_a_group_of_the_stack_that_expires(stage: Any) -> None:
    for model in stage.models():
        groups = {one.props["LogGroupName"]: one.props for one in stage.all(GROUP, model.slug)}
        assert groups.keys() == places(stage, model.slug)
        for props in groups.values():
            assert props["RetentionInDays"] == stage.stage.log_retention_days
            assert ("KmsKeyId" in props) is (stage.stage.encryption == "customer-key")


def test_a_role_that_may_make_a_group_comes_after_it(stage: Any) -> None:
    """SageMaker would make the group at the first line, without an end, and CloudFormation then finds it there."""
    for model in stage.models():
        groups = {one.id for one in stage.all(GROUP, model.slug)}
        roles = [one.entry.get("DependsOn", []) for one in stage.all("AWS::IAM::Role", model.slug)]
        awaited = {name for depends in roles for name in ([depends] if isinstance(depends, str) else depends)}
        assert groups <= awaited


def written(stage: Any, slug: str) -> Iterator[tuple[str, str]]:
    for policy in stage.all("AWS::IAM::Policy", slug):
        for statement in policy.props["PolicyDocument"]["Statement"]:
            actions, resources = statement["Action"], statement["Resource"]
            for action in [actions] if isinstance(actions, str) else actions:
                for resource in [resources] if isinstance(resources, str) else resources:
                    if action.startswith("logs:"):
                        yield action, resource


def test_the_roles_write_to_those_places_and_to_no_other(stage: Any) -> None:
    """The actions are those of the SageMaker guide, *sagemaker-roles*, CreateModel API."""
    prefix = f"arn:aws:logs:{stage.stage.region}:{stage.stage.account}:log-group:"
    actions = ("CreateLogGroup", "CreateLogStream", "DescribeLogStreams", "PutLogEvents")
    for model in stage.models():
        expected = {
            (f"logs:{action}", f"{prefix}{place}{suffix}")
            for action in actions
            for place in places(stage, model.slug)
            for suffix in ("", ":*")
        }
        assert set(written(stage, model.slug)) == expected


def test_a_containers_metrics_may_go_where_its_mode_publishes_them(stage: Any) -> None:
    for model in stage.models():
        allowed = {
            namespace
            for policy in stage.all("AWS::IAM::Policy", model.slug)
            for statement in policy.props["PolicyDocument"]["Statement"]
            if statement["Action"] == "cloudwatch:PutMetricData"
            for namespace in statement["Condition"]["StringEquals"]["cloudwatch:namespace"]
        }
        watched = {one.props["Namespace"] for one in stage.all("AWS::CloudWatch::Alarm", model.slug)} - {
            "StreamHub/Inference"
        }
        assert watched <= allowed


def test_every_retention_that_check_takes_is_one_that_synth_knows(project: Any) -> None:
    from infra.lifecycle import log_retention  # noqa: PLC0415 - starts node, which only these tests need

    prod = project.stages["prod"]
    stages = [replace(prod, log_retention_days=days) for days in range(1, 4000)]
    taken = [stage for stage in stages if not list(logs_are_kept_by_a_known_number(stage))]
    assert {stage.log_retention_days for stage in taken} >= {1, 365, 2557, 3653}
    for stage in taken:
        assert log_retention(stage).name
