from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local.autoscaling import AutoScalingApp
from local.clock import ManualClock
from local.cloudwatch.alarm_requests import check_metric_alarm
from local.settings import LocalSettings

TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/ranker/variant/a",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
TRACKING = {
    "TargetValue": 100.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
}


class Book:
    """CloudWatch's alarms, with CloudWatch's own check of each."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}

    def alarms(self) -> list[dict[str, Any]]:
        return list(self.held.values())

    def put_alarm(self, request: Mapping[str, Any]) -> None:
        check_metric_alarm(request)
        self.held[request["AlarmName"]] = {**request, "AlarmArn": f"arn:alarm:{request['AlarmName']}"}

    def delete_alarms(self, names: list[str]) -> None:
        for name in names:
            self.held.pop(name, None)


class Service:
    """Calls the application as the wire does, without one."""

    def __init__(self, folder: Path, book: Book | None = None) -> None:
        settings = LocalSettings(state_dir=folder, s3_endpoint_url="http://127.0.0.1:1")
        self.book = book or Book()
        self.app = AutoScalingApp(settings, clock=ManualClock(1000.0), book=self.book)

    def __call__(self, name: str, **call: Any) -> dict[str, Any]:
        status, answer = self.raw(name, call)
        assert status == 200, answer
        return answer

    def refused(self, name: str, **call: Any) -> str:
        status, answer = self.raw(name, call)
        assert status == 400
        return str(answer["__type"])

    def raw(self, name: str, call: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(call).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"x-amz-target", f"AnyScaleFrontendService.{name}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        # nothing in it waits, so one step ends it; an event loop would need sockets
        with pytest.raises(StopIteration):
            self.app(scope, receive, send).send(None)
        return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture(name="aas")
def aas_fixture(tmp_path: Path) -> Service:
    """Give the service on an empty state."""
    return Service(tmp_path)


@pytest.fixture(name="target_arn")
def target_arn_fixture(aas: Service) -> str:
    """Give a registered target."""
    return str(aas("RegisterScalableTarget", **TARGET, MinCapacity=1, MaxCapacity=4)["ScalableTargetARN"])


def test_a_target_is_registered_once_and_changed_afterwards(aas: Service, target_arn: str) -> None:
    again = aas("RegisterScalableTarget", **TARGET, MaxCapacity=8)
    (target,) = aas("DescribeScalableTargets", ServiceNamespace="sagemaker")["ScalableTargets"]
    assert again["ScalableTargetARN"] == target_arn == target["ScalableTargetARN"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 8)
    assert target["RoleARN"].endswith("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")


@pytest.mark.parametrize(
    "capacities", [{"MinCapacity": 1}, {}, {"MinCapacity": 3, "MaxCapacity": 2}], ids=["no maximum", "none", "crossed"]
)
def test_a_new_target_needs_a_range(aas: Service, capacities: dict[str, int]) -> None:
    assert aas.refused("RegisterScalableTarget", **TARGET, **capacities) == "ValidationException"


def test_a_dimension_that_aws_lacks_is_refused(aas: Service) -> None:
    call = {**TARGET, "ScalableDimension": "sagemaker:variant:Nothing", "MinCapacity": 1, "MaxCapacity": 2}
    assert aas.refused("RegisterScalableTarget", **call) == "ValidationException"


def test_a_policy_needs_its_target_and_the_configuration_of_its_type(aas: Service, target_arn: str) -> None:
    assert target_arn
    other = {**TARGET, "ResourceId": "endpoint/none/variant/a"}
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    tracking = {"TargetTrackingScalingPolicyConfiguration": TRACKING}
    assert aas.refused("PutScalingPolicy", **other, **put, **tracking) == "ObjectNotFoundException"
    assert aas.refused("PutScalingPolicy", **TARGET, **put) == "ValidationException"
    arn = aas("PutScalingPolicy", **TARGET, **put, **tracking)["PolicyARN"]
    (policy,) = aas("DescribeScalingPolicies", ServiceNamespace="sagemaker", PolicyNames=["p"])["ScalingPolicies"]
    assert policy["PolicyARN"] == arn
    assert policy["TargetTrackingScalingPolicyConfiguration"] == TRACKING


def test_a_policy_keeps_its_name_in_aws_when_it_changes(aas: Service, target_arn: str) -> None:
    assert target_arn
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    first = aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=TRACKING)
    changed = TRACKING | {"TargetValue": 5.0}
    second = aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=changed)
    (policy,) = aas("DescribeScalingPolicies", ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert first["PolicyARN"] == second["PolicyARN"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 5.0


def test_deregistering_a_target_takes_its_policies_and_actions_along(aas: Service, target_arn: str) -> None:
    assert target_arn
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=TRACKING)
    aas(
        "PutScheduledAction",
        **TARGET,
        ScheduledActionName="night",
        Schedule="cron(0 1 * * ? *)",
        ScalableTargetAction={"MinCapacity": 1},
    )
    (action,) = aas("DescribeScheduledActions", ServiceNamespace="sagemaker")["ScheduledActions"]
    aas("DeregisterScalableTarget", **TARGET)
    assert action["Schedule"] == "cron(0 1 * * ? *)"
    assert aas("DescribeScalingPolicies", ServiceNamespace="sagemaker")["ScalingPolicies"] == []
    assert aas("DescribeScheduledActions", ServiceNamespace="sagemaker")["ScheduledActions"] == []
    assert aas.refused("DeregisterScalableTarget", **TARGET) == "ObjectNotFoundException"


def test_a_policy_is_deleted_once(aas: Service, target_arn: str) -> None:
    assert target_arn
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=TRACKING)
    aas("DeleteScalingPolicy", **TARGET, PolicyName="p")
    assert aas.refused("DeleteScalingPolicy", **TARGET, PolicyName="p") == "ObjectNotFoundException"


def test_targets_are_paged_and_found_by_resource(aas: Service) -> None:
    for slot in "abc":
        call = {**TARGET, "ResourceId": f"endpoint/ranker/variant/{slot}"}
        aas("RegisterScalableTarget", **call, MinCapacity=1, MaxCapacity=2)
    first = aas("DescribeScalableTargets", ServiceNamespace="sagemaker", MaxResults=2)
    rest = aas("DescribeScalableTargets", ServiceNamespace="sagemaker", NextToken=first["NextToken"])
    one = aas("DescribeScalableTargets", ServiceNamespace="sagemaker", ResourceIds=["endpoint/ranker/variant/b"])
    assert len(first["ScalableTargets"]) == 2
    assert len(rest["ScalableTargets"]) == len(one["ScalableTargets"]) == 1
    wrong = {"ServiceNamespace": "sagemaker", "NextToken": "x"}
    assert aas.refused("DescribeScalableTargets", **wrong) == "InvalidNextTokenException"


def test_tags_belong_to_a_target(aas: Service, target_arn: str) -> None:
    aas("TagResource", ResourceARN=target_arn, Tags={"a": "1", "b": "2"})
    aas("UntagResource", ResourceARN=target_arn, TagKeys=["a"])
    assert aas("ListTagsForResource", ResourceARN=target_arn) == {"Tags": {"b": "2"}}
    missing = target_arn[:-1] + ("0" if target_arn[-1] != "0" else "1")
    assert aas.refused("ListTagsForResource", ResourceARN=missing) == "ResourceNotFoundException"


def test_a_restart_remembers_everything(tmp_path: Path) -> None:
    before = Service(tmp_path)
    before("RegisterScalableTarget", **TARGET, MinCapacity=1, MaxCapacity=4, Tags={"k": "v"})
    kept = before("DescribeScalableTargets", ServiceNamespace="sagemaker")
    assert Service(tmp_path)("DescribeScalableTargets", ServiceNamespace="sagemaker") == kept


PUT = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}


def put_tracking(aas: Service, config: dict[str, Any] = TRACKING) -> dict[str, Any]:
    return aas("PutScalingPolicy", **TARGET, **PUT, TargetTrackingScalingPolicyConfiguration=config)


def policy_of(aas: Service) -> dict[str, Any]:
    (policy,) = aas("DescribeScalingPolicies", ServiceNamespace="sagemaker")["ScalingPolicies"]
    return dict(policy)


@pytest.mark.usefixtures("target_arn")
def test_target_tracking_makes_an_alarm_above_its_target_and_one_below(aas: Service) -> None:
    answer = put_tracking(aas)
    names = [alarm["AlarmName"] for alarm in answer["Alarms"]]
    assert [name[:-36] for name in names] == [
        "TargetTracking-endpoint/ranker/variant/a-AlarmHigh-",
        "TargetTracking-endpoint/ranker/variant/a-AlarmLow-",
    ]
    high, low = (aas.book.held[name] for name in names)
    assert (high["ComparisonOperator"], high["Threshold"], high["EvaluationPeriods"]) == (
        "GreaterThanThreshold",
        100,
        3,
    )
    assert (low["ComparisonOperator"], low["Threshold"], low["EvaluationPeriods"]) == ("LessThanThreshold", 90, 15)
    assert (high["Namespace"], high["MetricName"], high["Statistic"], high["Period"]) == (
        "AWS/SageMaker",
        "InvocationsPerInstance",
        "Sum",
        60,
    )
    assert high["AlarmActions"] == low["AlarmActions"]
    assert high["AlarmActions"][0].startswith(f"{answer['PolicyARN']}:createdBy/")
    assert {alarm["AlarmName"] for alarm in policy_of(aas)["Alarms"]} == set(names)


@pytest.mark.usefixtures("target_arn")
@pytest.mark.parametrize("operation", ["DeleteScalingPolicy", "DeregisterScalableTarget"])
def test_its_alarms_go_with_the_policy_or_its_target(aas: Service, operation: str) -> None:
    put_tracking(aas)
    aas.book.put_alarm({**next(iter(aas.book.held.values())), "AlarmName": "of somebody else"})
    aas(operation, **TARGET, **({"PolicyName": "p"} if operation == "DeleteScalingPolicy" else {}))
    assert set(aas.book.held) == {"of somebody else"}


@pytest.mark.usefixtures("target_arn")
def test_a_changed_policy_has_new_alarms_and_only_those(aas: Service) -> None:
    put_tracking(aas)
    answer = put_tracking(aas, TRACKING | {"TargetValue": 10.0})
    assert set(aas.book.held) == {alarm["AlarmName"] for alarm in answer["Alarms"]}
    assert {alarm["Threshold"] for alarm in aas.book.held.values()} == {10.0, 9.0}


@pytest.mark.usefixtures("target_arn")
def test_a_policy_may_track_metric_math(aas: Service) -> None:
    stat = {"Metric": {"Namespace": "N", "MetricName": "Backlog"}, "Stat": "Sum"}
    metrics = [
        {"Id": "waiting", "MetricStat": stat, "ReturnData": False},
        {"Id": "each", "Expression": "FILL(waiting, 0) / 2", "ReturnData": True},
    ]
    answer = put_tracking(aas, {"TargetValue": 5.0, "CustomizedMetricSpecification": {"Metrics": metrics}})
    high = aas.book.held[answer["Alarms"][0]["AlarmName"]]
    assert high["Metrics"][0]["MetricStat"]["Period"] == 60
    assert "MetricName" not in high


@pytest.mark.usefixtures("target_arn")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"CustomizedMetricSpecification": {"Metrics": [{"Id": "e", "Expression": "SEARCH('x')"}]}}, "SEARCH"),
        ({"PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"}}, "ECSService"),
        # SageMaker guide, autoscaling policies: a variant has metrics per instance or model, a component per copy
        (
            {
                "PredefinedMetricSpecification": {
                    "PredefinedMetricType": "SageMakerInferenceComponentInvocationsPerCopy"
                }
            },
            "endpoint/ranker/variant/a: SageMakerVariantInvocationsPerInstance",
        ),
    ],
    ids=["function", "metric", "of a component"],
)
def test_a_policy_that_cannot_be_followed_is_refused_and_leaves_nothing(
    aas: Service, config: dict[str, Any], said: str
) -> None:
    call = {**TARGET, **PUT, "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 5.0, **config}}
    status, answer = aas.raw("PutScalingPolicy", call)
    assert (status, answer["__type"]) == (400, "ValidationException")
    assert said in answer["message"]
    assert aas.book.held == {}
    assert aas("DescribeScalingPolicies", ServiceNamespace="sagemaker")["ScalingPolicies"] == []


@pytest.mark.usefixtures("target_arn")
def test_predictive_scaling_is_refused_by_name(aas: Service) -> None:
    config = {
        "MetricSpecifications": [
            {
                "TargetValue": 1.0,
                "PredefinedMetricPairSpecification": {"PredefinedMetricType": "ECSServiceCPUUtilization"},
            }
        ]
    }
    call = {**TARGET, "PolicyName": "p", "PolicyType": "PredictiveScaling"}
    status, answer = aas.raw("PutScalingPolicy", {**call, "PredictiveScalingPolicyConfiguration": config})
    assert (status, answer["__type"]) == (400, "ValidationException")
    assert "PredictiveScaling" in answer["message"]


def test_a_restart_makes_the_alarms_again_that_cloudwatch_forgot_and_no_others(tmp_path: Path) -> None:
    before = Service(tmp_path)
    before("RegisterScalableTarget", **TARGET, MinCapacity=1, MaxCapacity=4)
    put_tracking(before)
    alarms = before.book.held
    after = Service(tmp_path)
    after.app.start()
    assert after.book.held == alarms
    again = Service(tmp_path, before.book)
    again.app.start()
    assert before.book.held == alarms


@pytest.mark.usefixtures("target_arn")
def test_the_alarms_of_a_step_policy_are_those_that_call_it(aas: Service) -> None:
    config = {"StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]}
    put = aas("PutScalingPolicy", **TARGET, PolicyName="s", StepScalingPolicyConfiguration=config)
    assert policy_of(aas)["Alarms"] == []
    aas.book.held["wake"] = {"AlarmName": "wake", "AlarmArn": "arn:wake", "AlarmActions": [put["PolicyARN"]]}
    assert policy_of(aas)["Alarms"] == [{"AlarmName": "wake", "AlarmARN": "arn:wake"}]


@pytest.mark.usefixtures("target_arn")
def test_a_changed_action_keeps_what_is_not_given_but_its_start_and_end(aas: Service) -> None:
    """API reference, PutScheduledAction."""
    named = {**TARGET, "ScheduledActionName": "evening"}
    wanted = {"Schedule": "rate(1 hour)", "ScalableTargetAction": {"MinCapacity": 2}}
    aas("PutScheduledAction", **named, **wanted, Timezone="UTC", StartTime=100.0, EndTime=200.0)
    aas("PutScheduledAction", **named, Schedule="rate(2 hours)", EndTime=300.0)
    [action] = aas("DescribeScheduledActions", ServiceNamespace="sagemaker")["ScheduledActions"]
    assert (action["Schedule"], action["Timezone"], action["EndTime"]) == ("rate(2 hours)", "UTC", 300.0)
    assert action["ScalableTargetAction"] == {"MinCapacity": 2}
    assert "StartTime" not in action


@pytest.mark.usefixtures("target_arn")
@pytest.mark.parametrize(
    "change",
    [
        {"Schedule": "cron(0 1 * * * *)"},
        {"Schedule": "rate(0 minutes)"},
        {"Schedule": "at(tomorrow)"},
        {"Schedule": "every day"},
        {"Timezone": "Mars/Olympus"},
        {"ScalableTargetAction": {}},
        {"ScalableTargetAction": {"MinCapacity": 3, "MaxCapacity": 2}},
        {"StartTime": 200.0, "EndTime": 100.0},
    ],
    ids=["both days", "rate of nothing", "no moment", "no schedule", "no zone", "no capacity", "crossed", "ends first"],
)
def test_a_scheduled_action_that_could_never_run_is_refused(aas: Service, change: dict[str, Any]) -> None:
    action = {"ScheduledActionName": "n", "Schedule": "rate(1 day)", "ScalableTargetAction": {"MinCapacity": 1}}
    assert aas.refused("PutScheduledAction", **TARGET, **(action | change)) == "ValidationException"
    assert aas("DescribeScheduledActions", ServiceNamespace="sagemaker")["ScheduledActions"] == []


@pytest.mark.parametrize("resource", ["endpoint/ranker", "service/a/b", "inference-component/x", "endpoint//variant/"])
def test_a_resource_that_is_no_variant_is_refused(aas: Service, resource: str) -> None:
    call = {**TARGET, "ResourceId": resource, "MinCapacity": 1, "MaxCapacity": 2}
    assert aas.refused("RegisterScalableTarget", **call) == "ValidationException"


def test_activities_are_paged_newest_first(aas: Service) -> None:
    for number in range(5):
        aas.app.note(
            {
                **TARGET,
                "ActivityId": str(number),
                "Description": "d",
                "Cause": "c",
                "StartTime": float(number),
                "StatusCode": "Successful",
            }
        )
    first = aas("DescribeScalingActivities", ServiceNamespace="sagemaker", MaxResults=3)
    rest = aas("DescribeScalingActivities", ServiceNamespace="sagemaker", NextToken=first["NextToken"])
    found = [activity["ActivityId"] for page in (first, rest) for activity in page["ScalingActivities"]]
    assert found == ["4", "3", "2", "1", "0"]
    assert "NextToken" not in rest
