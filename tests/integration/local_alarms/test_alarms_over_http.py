"""Alarms, metric math and scaling by plain boto3, on a gateway of its own whose minutes are seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local.clock import FILE, begin
from serving.aws.clock import read

PACE = 60.0
HOUR_S = 3600
NAMESPACE = "Shop"
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/ranker/variant/a",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


class Aws:
    """One gateway, plain clients of it, and its time."""

    def __init__(self, port: int, state: Path) -> None:
        self.url, self._state = f"http://127.0.0.1:{port}", state
        session = boto3.Session("test", "test", region_name="us-east-1")

        def client(service: str) -> Any:
            return session.client(service, endpoint_url=self.url, config=Config(retries={"total_max_attempts": 1}))  # type: ignore[call-overload]

        self.cloudwatch, self.scaling = client("cloudwatch"), client("application-autoscaling")
        self.sns, self.sqs, self.s3, self.sagemaker = (client(name) for name in ("sns", "sqs", "s3", "sagemaker"))

    def now(self) -> datetime:
        """Give the stack's time."""
        stack = read(self._state / FILE).smooth(time.time())
        return datetime.fromtimestamp(stack).astimezone()

    def publish(self, name: str, *values: float, **dimensions: str) -> None:
        wanted = [{"Name": key, "Value": value} for key, value in dimensions.items()]
        data = [{"MetricName": name, "Value": value, "Dimensions": wanted} for value in values]
        self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)

    def alarm(self, name: str, kind: str = "MetricAlarm") -> dict[str, Any]:
        [found] = self.cloudwatch.describe_alarms(AlarmNames=[name], AlarmTypes=[kind])[f"{kind}s"]
        return dict(found)

    def becomes(self, name: str, state: str, kind: str = "MetricAlarm") -> dict[str, Any]:
        return dict(until(lambda: (now := self.alarm(name, kind))["StateValue"] == state and now))

    def query(self, action: str, **params: str) -> tuple[int, ET.Element]:
        """Ask by the query protocol, which older clients speak."""
        body = urllib.parse.urlencode({"Action": action, "Version": "2010-08-01", **params}).encode()
        scope = "Credential=test/20261203/us-east-1/monitoring/aws4_request, SignedHeaders=host, Signature=0"
        headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}", "Content-Type": "application/x-www-form-urlencoded"}
        request = urllib.request.Request(self.url, data=body, headers=headers)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
                return answer.status, ET.fromstring(answer.read())  # noqa: S314 - our own answer
        except urllib.error.HTTPError as error:
            return error.code, ET.fromstring(error.read())  # noqa: S314 - our own answer


def until(done: Callable[[], Any]) -> Any:
    """Give the first true value; what is awaited is the gateway's next look."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := done():
            return found
        time.sleep(0.1)
    raise AssertionError("not within a minute")


@pytest.fixture(name="aws", scope="module")
def aws_fixture(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Aws]:
    state = tmp_path_factory.mktemp("gateway")
    begin(state / FILE, pace=PACE)
    script = "tests.integration.local_alarms.gateway_of_stand_ins"
    command = [sys.executable, "-m", script, "--state", str(state), "--valkey-port", "1", "--scale"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with (
        (state / "log").open("wb") as log,
        subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None else b""
            assert line, (state / "log").read_text()
            yield Aws(json.loads(line)["port"], state)
        finally:
            process.terminate()


def stat(query: str, name: str, **dimensions: str) -> dict[str, Any]:
    wanted = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    metric = {"Namespace": NAMESPACE, "MetricName": name, "Dimensions": wanted}
    return {"Id": query, "MetricStat": {"Metric": metric, "Period": HOUR_S, "Stat": "Sum"}, "ReturnData": False}


def share_alarm(name: str, variant: str, expression: str = "IF(all > 0, bad / all, 0)", **more: Any) -> dict[str, Any]:
    return {
        "AlarmName": name,
        "Metrics": [
            {"Id": "share", "Expression": expression, "Label": "share of errors"},
            stat("bad", "Errors", Variant=variant),
            stat("all", "Requests", Variant=variant),
        ],
        "EvaluationPeriods": 1,
        "Threshold": 0.1,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        **more,
    }


@pytest.fixture(name="told", scope="module")
def told_fixture(aws: Aws) -> tuple[str, Callable[[], list[tuple[str, str]]]]:
    """Give a topic, and what it told a queue so far: alarm and state."""
    topic = aws.sns.create_topic(Name="alerts")["TopicArn"]
    queue = aws.sqs.create_queue(QueueName="alerts")["QueueUrl"]
    arn = aws.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    aws.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    seen: list[tuple[str, str]] = []

    def read_all() -> list[tuple[str, str]]:
        while messages := aws.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                said = json.loads(json.loads(message["Body"])["Message"])
                seen.append((said["AlarmName"], said["NewStateValue"]))
                aws.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return seen

    return topic, read_all


def test_an_alarm_on_an_expression_rings_once_for_its_own_variant(
    aws: Aws, told: tuple[str, Callable[[], list[tuple[str, str]]]]
) -> None:
    topic, read_all = told
    for variant in "ab":
        aws.cloudwatch.put_metric_alarm(**share_alarm(f"share-{variant}", variant, AlarmActions=[topic]))
        aws.becomes(f"share-{variant}", "OK")
    aws.publish("Requests", *[1.0] * 8, Variant="a")
    aws.publish("Errors", 1.0, 1.0, Variant="a")
    aws.publish("Requests", *[1.0] * 50, Variant="b")
    aws.publish("Errors", 1.0, 1.0, Variant="b")
    rung = aws.becomes("share-a", "ALARM")
    assert json.loads(rung["StateReasonData"])["recentDatapoints"] == [0.25]
    assert rung["Metrics"] == share_alarm("share-a", "a")["Metrics"]
    assert "MetricName" not in rung
    aws.publish("Requests", *[1.0] * 100, Variant="a")
    aws.becomes("share-a", "OK")
    history = aws.cloudwatch.describe_alarm_history(AlarmName="share-a", HistoryItemType="StateUpdate")
    changes = [json.loads(item["HistoryData"])["newState"]["stateValue"] for item in history["AlarmHistoryItems"]]
    assert changes[:2] == ["OK", "ALARM"], "the newest first"
    assert changes.count("ALARM") == 1
    assert [entry for entry in read_all() if entry[0].startswith("share-")] == [("share-a", "ALARM")]


def test_a_state_that_is_set_by_hand_acts_once_and_lasts_until_the_next_evaluation(
    aws: Aws, told: tuple[str, Callable[[], list[tuple[str, str]]]]
) -> None:
    topic, read_all = told
    aws.cloudwatch.put_metric_alarm(**share_alarm("by-hand", "c", AlarmActions=[topic], OKActions=[topic]))
    aws.becomes("by-hand", "OK")
    aws.cloudwatch.set_alarm_state(AlarmName="by-hand", StateValue="ALARM", StateReason="a test")
    until(lambda: read_all().count(("by-hand", "OK")) == 2)
    assert [entry[1] for entry in read_all() if entry[0] == "by-hand"] == ["OK", "ALARM", "OK"]


def test_a_composite_alarm_follows_the_states_of_others(aws: Aws) -> None:
    for name, missing in (("calm", "notBreaching"), ("loud", "breaching"), ("silent", "missing")):
        aws.cloudwatch.put_metric_alarm(**share_alarm(name, "nobody", TreatMissingData=missing))
    aws.becomes("loud", "ALARM")
    aws.becomes("calm", "OK")
    rules = {
        "both": ("ALARM(loud) AND ALARM(calm)", "OK"),
        "either": ("ALARM(loud) OR ALARM(calm)", "ALARM"),
        "not": ("NOT ALARM(calm) AND OK(calm)", "ALARM"),
        "grouped": ("NOT (ALARM(loud) OR TRUE)", "OK"),
        "unknown": ('INSUFFICIENT_DATA("silent") AND ALARM(either)', "ALARM"),
    }
    for name, (rule, state) in rules.items():
        aws.cloudwatch.put_composite_alarm(AlarmName=name, AlarmRule=rule)
        assert aws.alarm(name, "CompositeAlarm")["StateValue"] == state, rule
    aws.cloudwatch.put_metric_alarm(**share_alarm("loud", "nobody", TreatMissingData="notBreaching"))
    assert "loud" in aws.becomes("either", "OK", "CompositeAlarm")["StateReason"]
    for request in ({"AlarmRule": "ALARM(loud"}, {"AlarmRule": "TRUE", "ActionsSuppressor": "calm"}):
        with pytest.raises(ClientError) as refused:
            aws.cloudwatch.put_composite_alarm(AlarmName="wrong", **request)
        assert refused.value.response["Error"]["Code"] == "ValidationError"


def test_an_unknown_function_is_a_validation_error_in_every_protocol(aws: Aws) -> None:
    said = "Error in expression 'share': Function 'NOSUCH' not found"
    with pytest.raises(ClientError, match="ValidationError") as refused:
        aws.cloudwatch.put_metric_alarm(**share_alarm("wrong", "a", "NOSUCH(bad)"))
    assert said in refused.value.response["Error"]["Message"]
    status, answer = aws.query(
        "PutMetricAlarm",
        **{
            "AlarmName": "wrong",
            "ComparisonOperator": "GreaterThanThreshold",
            "EvaluationPeriods": "1",
            "Threshold": "1",
            "Metrics.member.1.Id": "share",
            "Metrics.member.1.Expression": "NOSUCH(1)",
        },
    )
    assert status == 400
    assert said in ET.tostring(answer, encoding="unicode")
    assert aws.cloudwatch.describe_alarms(AlarmNames=["wrong"])["MetricAlarms"] == []


def test_metric_data_has_expressions_percentiles_and_exact_dimensions(aws: Aws) -> None:
    aws.publish("Latency", *range(1, 101), Variant="p")
    aws.publish("Latency", 100_000.0, Variant="other")
    p99 = stat("slow", "Latency", Variant="p")
    p99["MetricStat"] |= {"Stat": "p99"}
    queries = [p99, {"Id": "ms", "Expression": "slow * 1000", "Label": "in ms"}]
    span = {"StartTime": aws.now() - timedelta(hours=1), "EndTime": aws.now() + timedelta(hours=1)}
    pages = list(aws.cloudwatch.get_paginator("get_metric_data").paginate(MetricDataQueries=queries, **span))
    [found] = [result for page in pages for result in page["MetricDataResults"]]
    assert (found["Id"], found["Label"], found["StatusCode"]) == ("ms", "in ms", "Complete")
    assert sum(found["Values"]) == 99_000.0
    status, answer = aws.query(
        "GetMetricData",
        **{
            "StartTime": span["StartTime"].isoformat(),
            "EndTime": span["EndTime"].isoformat(),
            "MetricDataQueries.member.1.Id": "m",
            "MetricDataQueries.member.1.ReturnData": "false",
            "MetricDataQueries.member.1.MetricStat.Stat": "Maximum",
            "MetricDataQueries.member.1.MetricStat.Period": "3600",
            "MetricDataQueries.member.1.MetricStat.Metric.Namespace": NAMESPACE,
            "MetricDataQueries.member.1.MetricStat.Metric.MetricName": "Latency",
            "MetricDataQueries.member.1.MetricStat.Metric.Dimensions.member.1.Name": "Variant",
            "MetricDataQueries.member.1.MetricStat.Metric.Dimensions.member.1.Value": "p",
            "MetricDataQueries.member.2.Id": "e",
            "MetricDataQueries.member.2.Expression": "m + 1",
        },
    )
    values = [float(node.text or "nan") for node in answer.iterfind(".//{*}Values/{*}member")]
    assert (status, sum(values)) == (200, 101.0)


def test_metric_statistics_are_those_of_one_metric_alone_with_or_without_dimensions(aws: Aws) -> None:
    aws.publish("Size", *range(1, 101), Variant="s")
    aws.publish("Size", 7.0)
    span = {"StartTime": aws.now() - timedelta(hours=2), "EndTime": aws.now() + timedelta(hours=2)}
    asked = {"Namespace": NAMESPACE, "MetricName": "Size", "Period": 86_400, **span}
    variant = [{"Name": "Variant", "Value": "s"}]
    found = aws.cloudwatch.get_metric_statistics(
        **asked, Dimensions=variant, Statistics=["Sum", "SampleCount"], ExtendedStatistics=["p99"]
    )["Datapoints"]
    # a day may end in between
    assert sum(point["Sum"] for point in found) == 5050.0
    assert max(point["ExtendedStatistics"]["p99"] for point in found) == pytest.approx(99.0, abs=1)
    assert all(point["Timestamp"].hour == 0 for point in found)
    alone = aws.cloudwatch.get_metric_statistics(**asked, Statistics=["Maximum"])["Datapoints"]
    assert [point["Maximum"] for point in alone] == [7.0]
    flat = {
        "Namespace": NAMESPACE,
        "MetricName": "Size",
        "Period": "86400",
        "StartTime": span["StartTime"].isoformat(),
        "EndTime": span["EndTime"].isoformat(),
        "ExtendedStatistics.member.1": "p50",
    }
    status, answer = aws.query("GetMetricStatistics", **flat)
    assert status == 200
    assert [node.text for node in answer.iterfind(".//{*}ExtendedStatistics/{*}entry/{*}value")] == ["7.0"]
    status, answer = aws.query("GetMetricStatistics", **flat | {"Period": "a day"})
    assert status == 400
    assert "Period" in ET.tostring(answer, encoding="unicode")


def test_a_tracking_policy_shows_its_two_alarms_until_it_is_deleted(aws: Aws) -> None:
    aws.scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    answer = aws.scaling.put_scaling_policy(
        **TARGET,
        PolicyName="load",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 70.0,
            "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
        },
    )
    prefix = "TargetTracking-endpoint/ranker/variant/a-Alarm"
    found = aws.cloudwatch.describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
    assert {alarm["AlarmArn"] for alarm in found} == {alarm["AlarmARN"] for alarm in answer["Alarms"]}
    assert sorted(alarm["Threshold"] for alarm in found) == [63.0, 70.0]
    pages = aws.scaling.get_paginator("describe_scaling_policies").paginate(ServiceNamespace="sagemaker")
    [policy] = [policy for page in pages for policy in page["ScalingPolicies"]]
    assert {alarm["AlarmName"] for alarm in policy["Alarms"]} == {alarm["AlarmName"] for alarm in found}
    aws.scaling.delete_scaling_policy(**TARGET, PolicyName="load")
    assert aws.cloudwatch.describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"] == []


@pytest.fixture(name="endpoint")
def endpoint_fixture(aws: Aws) -> str:
    """Give an endpoint in service with one instance."""
    aws.s3.create_bucket(Bucket="models")
    aws.s3.put_object(Bucket="models", Key="m.tar.gz", Body=b'{"name": "m"}')
    role = "arn:aws:iam::123456789012:role/r"
    container = {"Image": "triton:1", "ModelDataUrl": "s3://models/m.tar.gz"}
    aws.sagemaker.create_model(ModelName="m", PrimaryContainer=container, ExecutionRoleArn=role)
    variant = {"VariantName": "a", "ModelName": "m", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    aws.sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    aws.sagemaker.create_endpoint(EndpointName="loaded", EndpointConfigName="c")
    until(lambda: aws.sagemaker.describe_endpoint(EndpointName="loaded")["EndpointStatus"] == "InService")
    return "loaded"


def test_load_above_the_target_rings_the_policys_alarm_which_adds_instances(aws: Aws, endpoint: str) -> None:
    target = TARGET | {"ResourceId": f"endpoint/{endpoint}/variant/a"}
    aws.scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=4)
    load = {"Namespace": NAMESPACE, "MetricName": "Load", "Statistic": "Average"}
    config = {"TargetValue": 10.0, "ScaleOutCooldown": 3600, "CustomizedMetricSpecification": load}
    answer = aws.scaling.put_scaling_policy(
        **target,
        PolicyName="load",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=config,
    )
    # half a minute apart, from ten minutes ago to an hour ahead: whenever the next look is, three periods have data
    moments = [aws.now() + timedelta(seconds=30 * step) for step in range(-20, 120)]
    data = [{"MetricName": "Load", "Value": 25.0, "Timestamp": moment} for moment in moments]
    aws.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)

    def activities() -> Any:
        return aws.scaling.describe_scaling_activities(ServiceNamespace="sagemaker", ResourceId=target["ResourceId"])[
            "ScalingActivities"
        ]

    [activity] = until(activities)
    high = answer["Alarms"][0]["AlarmName"]
    assert activity["Cause"] == f"monitor alarm {high} in state ALARM triggered policy load"
    assert activity["Description"] == "Setting desired instance count to 3."

    def count() -> int:
        [variant] = aws.sagemaker.describe_endpoint(EndpointName=endpoint)["ProductionVariants"]
        return int(variant["CurrentInstanceCount"])

    until(lambda: count() == 3)
    aws.scaling.deregister_scalable_target(**target)
    aws.sagemaker.delete_endpoint(EndpointName=endpoint)


def test_a_scheduled_action_changes_the_range_and_is_told_as_an_activity(aws: Aws) -> None:
    aws.scaling.register_scalable_target(**TARGET, MinCapacity=1, MaxCapacity=4)
    aws.scaling.put_scheduled_action(
        **TARGET,
        ScheduledActionName="peak",
        Schedule="cron(* * * * ? *)",
        Timezone="Europe/Berlin",
        ScalableTargetAction={"MinCapacity": 3, "MaxCapacity": 6},
    )

    def activities() -> list[dict[str, Any]]:
        pages = aws.scaling.get_paginator("describe_scaling_activities").paginate(**TARGET)
        return [activity for page in pages for activity in page["ScalingActivities"]]

    activity = until(activities)[-1]
    assert activity["Cause"] == "scheduled action name peak was triggered"
    assert activity["Description"] == "Setting min capacity to 3 and max capacity to 6"
    [target] = aws.scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (3, 6)
    aws.scaling.deregister_scalable_target(**TARGET)
