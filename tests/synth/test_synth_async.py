"""An async endpoint starts from nothing on its backlog, and each request ends as an object (docs/hosting.md)."""

from __future__ import annotations

from typing import Any

import pytest

SLUG = "sample-scorer"
NAME = "streamhub-lab-sample-scorer"
ASYNC = """
mode = "async"
instance_type = "ml.g4dn.xlarge"
min_count = 0
max_count = 3
[hosting.scaling]
target_backlog = 5
[hosting.asynchronous]
max_concurrent_invocations = 8
notify = true
[hosting.deployment]
strategy = "all-at-once"
"""
REALTIME_WITH_BATCH = """
instance_type = "ml.g4dn.2xlarge"
[hosting.scaling]
target_concurrency = 4
[hosting.batch]
max_count = 2
[hosting.batch.scaling]
target_backlog = 7
"""


@pytest.fixture(scope="module", name="queue")
def queue_fixture(host: Any) -> Any:
    return host(ASYNC)


@pytest.fixture(scope="module", name="batch")
def batch_fixture(host: Any) -> Any:
    return host(REALTIME_WITH_BATCH, entry="[models.sample_scorer.batch]")


def text(value: Any) -> str:
    """Give a joined value with its references as X."""
    return "".join(part if isinstance(part, str) else "X" for part in value["Fn::Join"][1])


def policies(stage: Any, kind: str, name: str) -> list[Any]:
    found = [one.props for one in stage.all("AWS::ApplicationAutoScaling::ScalingPolicy", SLUG)]
    return [one for one in found if one["PolicyType"] == kind and one["PolicyName"].startswith(name)]


def alarm(stage: Any, name: str) -> Any:
    (found,) = (one.props for one in stage.all("AWS::CloudWatch::Alarm", SLUG) if one.props["AlarmName"] == name)
    return found


def test_there_is_one_variant_which_is_created_with_one_instance(queue: Any) -> None:
    (variant,) = queue.one("AWS::SageMaker::EndpointConfig", SLUG).props["ProductionVariants"]
    assert variant["VariantName"] == "a"
    assert variant["InitialInstanceCount"] == 1, "CreateEndpointConfig takes no 0"


def test_its_target_goes_down_to_no_instance(queue: Any) -> None:
    target = queue.one("AWS::ApplicationAutoScaling::ScalableTarget", SLUG).props
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 3)
    assert target["ScalableDimension"] == "sagemaker:variant:DesiredInstanceCount"


def test_it_tracks_the_backlog_of_each_instance_by_the_endpoints_name_alone(queue: Any) -> None:
    # guide, async-inference-autoscale: the metric has no variant; one with it never gets data
    (policy,) = policies(queue, "TargetTrackingScaling", NAME)
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    assert tracking["TargetValue"] == 5
    assert tracking["CustomizedMetricSpecification"] == {
        "Namespace": "AWS/SageMaker",
        "MetricName": "ApproximateBacklogSizePerInstance",
        "Statistic": "Average",
        "Dimensions": [{"Name": "EndpointName", "Value": NAME}],
    }


def test_the_first_request_starts_the_first_instance(queue: Any) -> None:
    (policy,) = policies(queue, "StepScaling", NAME)
    step = policy["StepScalingPolicyConfiguration"]
    assert step["AdjustmentType"] == "ChangeInCapacity"
    assert step["StepAdjustments"] == [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]
    wake = alarm(queue, f"scaling-{NAME}-from-zero")
    assert (wake["Namespace"], wake["MetricName"]) == ("AWS/SageMaker", "HasBacklogWithoutCapacity")
    assert wake["Dimensions"] == [{"Name": "EndpointName", "Value": NAME}]
    assert (wake["Threshold"], wake["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold")
    assert (wake["Period"], wake["EvaluationPeriods"], wake["TreatMissingData"]) == (60, 2, "missing")
    ids = {one.id for one in queue.all("AWS::ApplicationAutoScaling::ScalingPolicy", SLUG)}
    assert wake["AlarmActions"][0]["Ref"] in ids


def test_answers_and_failures_have_places_of_their_own_below_the_endpoints_name(queue: Any) -> None:
    config = queue.one("AWS::SageMaker::EndpointConfig", SLUG).props["AsyncInferenceConfig"]
    assert config["ClientConfig"] == {"MaxConcurrentInvocationsPerInstance": 8}
    assert text(config["OutputConfig"]["S3OutputPath"]).endswith(f"/async/{NAME}/output")
    assert text(config["OutputConfig"]["S3FailurePath"]).endswith(f"/async/{NAME}/failure")


def test_both_ends_have_a_topic_of_tls_only(queue: Any) -> None:
    told = queue.one("AWS::SageMaker::EndpointConfig", SLUG).props["AsyncInferenceConfig"]["OutputConfig"]
    topics = {one.id: one.props["TopicName"] for one in queue.all("AWS::SNS::Topic", SLUG)}
    said = {key: topics[value["Ref"]] for key, value in told["NotificationConfig"].items()}
    assert said == {"SuccessTopic": f"{NAME}-succeeded", "ErrorTopic": f"{NAME}-failed"}
    assert len(queue.all("AWS::SNS::TopicPolicy", SLUG)) == 2


def test_its_role_reads_requests_and_writes_answers_of_this_endpoint_alone(queue: Any) -> None:
    granted: dict[str, set[str]] = {}
    for policy in queue.all("AWS::IAM::Policy", SLUG):
        for statement in policy.props["PolicyDocument"]["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
            for action in actions:
                granted.setdefault(action, set()).update(map(str, resources))
    bucket = "arn:aws:s3:::streamhub-lab-telemetry-111122223333"
    assert granted["s3:PutObject"] == {f"{bucket}/async/{NAME}/{place}/*" for place in ("output", "failure")}
    # SageMaker guide, *async-inference-create-endpoint-prerequisites*: answers of a gigabyte are put in parts
    assert granted["s3:AbortMultipartUpload"] == granted["s3:PutObject"]
    assert f"{bucket}/async/{NAME}/input/*" in granted["s3:GetObject"]
    assert len(granted["sns:Publish"]) == 2


def test_it_captures_nothing_since_requests_and_answers_are_objects_already(queue: Any) -> None:
    assert "DataCaptureConfig" not in queue.one("AWS::SageMaker::EndpointConfig", SLUG).props


def test_a_queue_that_is_too_long_or_too_old_alarms(queue: Any) -> None:
    backlog = alarm(queue, f"{NAME}-backlog")
    assert backlog["MetricName"] == "ApproximateBacklogSize"
    assert backlog["Threshold"] == 5 * 3, "target_backlog a instance, at max_count instances"
    oldest = alarm(queue, f"{NAME}-oldest-age")
    assert oldest["MetricName"] == "ApproximateAgeOfOldestRequest"
    assert oldest["Threshold"] == 21_600 / 2, "half of RequestTTLSeconds' default"


def test_the_guards_of_an_update_watch_the_new_fleet(queue: Any) -> None:
    deployment = queue.one("AWS::SageMaker::Endpoint", SLUG).props["DeploymentConfig"]
    assert deployment["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]["Type"] == "ALL_AT_ONCE"
    thresholds = {}
    for guard in deployment["AutoRollbackConfiguration"]["Alarms"]:
        props = queue.templates[SLUG]["Resources"][guard["AlarmName"]["Ref"]]["Properties"]
        assert {one["Name"] for one in props["Dimensions"]} == {"EndpointName", "VariantName", "EndpointConfigName"}
        thresholds[props["MetricName"]] = props["Threshold"]
    assert thresholds == {"Invocation5XXErrors": 0.02, "ModelLatency": 200_000}


def test_an_async_model_has_no_drift_and_no_part_in_releases(queue: Any) -> None:
    names = {one.props["AlarmName"] for one in queue.all("AWS::CloudWatch::Alarm", SLUG)}
    assert not [name for name in names if "drift" in name]
    runs = {str(rule.props["Targets"]) for rule in queue.all("AWS::Events::Rule", "release")}
    assert runs, "the release tick is there"
    assert not [run for run in runs if "sample_scorer" in run]


def test_a_batch_endpoint_stands_beside_the_real_time_one_with_a_role_of_its_own(batch: Any) -> None:
    names = {one.props["EndpointName"] for one in batch.all("AWS::SageMaker::Endpoint", SLUG)}
    assert names == {NAME, f"{NAME}-batch"}
    assert len(batch.all("AWS::IAM::Role", SLUG)) == 2
    (config,) = (
        one.props for one in batch.all("AWS::SageMaker::EndpointConfig", SLUG) if "AsyncInferenceConfig" in one.props
    )
    assert config["ProductionVariants"][0]["InstanceType"] == "ml.g4dn.2xlarge", "the real-time endpoint's"
    (tracking,) = policies(batch, "TargetTrackingScaling", f"{NAME}-batch")
    assert tracking["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 7


def test_without_the_stages_line_there_is_no_batch_endpoint(host: Any) -> None:
    alone = host(REALTIME_WITH_BATCH)
    assert len(alone.all("AWS::SageMaker::Endpoint", SLUG)) == 1


def test_a_batch_endpoint_leaves_the_real_time_resources_as_they_are(host: Any, batch: Any) -> None:
    without = host(REALTIME_WITH_BATCH).templates[SLUG]["Resources"]
    assert without == {key: value for key, value in batch.templates[SLUG]["Resources"].items() if key in without}


@pytest.mark.parametrize(("line", "version"), [("", "1.0.0"), ('slot = "b"', "2.0.0")])
def test_a_batch_endpoint_holds_the_version_of_the_slot_that_the_stage_names(
    host: Any, line: str, version: str
) -> None:
    made = host(REALTIME_WITH_BATCH, entry=f"[models.sample_scorer.batch]\n{line}", b="2.0.0")
    (config,) = (one for one in made.all("AWS::SageMaker::EndpointConfig", SLUG) if "AsyncInferenceConfig" in one.props)
    model = config.props["ProductionVariants"][0]["ModelName"]["Fn::GetAtt"][0]
    container = made.templates[SLUG]["Resources"][model]["Properties"]["PrimaryContainer"]
    assert made.project.locks["sample_scorer"][version].sha256 in str(container["ModelDataUrl"])
