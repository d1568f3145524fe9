"""Alarms see the right variant in the right unit, and silence is never taken for health (docs/operations.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest

ALARM = "AWS::CloudWatch::Alarm"


def alarms(stage: Any, part: str | None = None) -> dict[str, Any]:
    return {found.props["AlarmName"]: found.props for found in stage.all(ALARM, part)}


def dimensions(props: Any) -> dict[str, Any]:
    return {item["Name"]: item["Value"] for item in props["Dimensions"]}


def test_each_endpoint_has_its_alarms_under_names_that_a_release_can_ask_for(stage: Any) -> None:
    for model in stage.slotted():
        endpoint = f"streamhub-{stage.stage.name}-{model.slug}"
        own = {f"{endpoint}-{what}-{slot}" for what in ("p99", "errors", "disk") for slot in "ab"}
        guards = {f"{endpoint}-deploy-{what}-{slot}" for what in ("p99", "errors") for slot in "ab"}
        found = {name for name in alarms(stage, model.slug) if f"{endpoint}-batch" not in name}
        assert found == own | guards | {f"{endpoint}-drift", f"{endpoint}-drift-heartbeat"}


@pytest.mark.parametrize("slot", ["a", "b"])
def test_latency_is_compared_in_microseconds_with_a_budget_given_in_milliseconds(stage: Any, slot: str) -> None:
    budgets_us = {"recommendation_ranker": 12_000, "content_moderator": 45_000, "thumbnail_scorer": 80_000}
    for model in stage.slotted():
        props = alarms(stage)[f"streamhub-{stage.stage.name}-{model.slug}-p99-{slot}"]
        assert (props["Namespace"], props["MetricName"]) == ("AWS/SageMaker", "ModelLatency")
        assert props["ExtendedStatistic"] == "p99"
        assert props["Threshold"] == budgets_us[model.name]
        assert props["EvaluateLowSampleCountPercentile"] == "ignore"


def test_an_objective_watches_one_variant_of_its_own_endpoint(stage: Any) -> None:
    for model in stage.slotted():
        endpoint = f"streamhub-{stage.stage.name}-{model.slug}"
        for what in ("p99", "errors"):
            for slot in ("a", "b"):
                props = alarms(stage)[f"{endpoint}-{what}-{slot}"]
                assert dimensions(props) == {"EndpointName": endpoint, "VariantName": slot}


def test_errors_are_a_share_of_requests_not_a_count(stage: Any) -> None:
    for model in stage.slotted():
        props = alarms(stage)[f"streamhub-{stage.stage.name}-{model.slug}-errors-a"]
        assert (props["MetricName"], props["Statistic"]) == ("Invocation5XXErrors", "Average")
        assert props["Threshold"] == model.release.guardrails.max_error_rate


def test_a_disk_is_heard_of_before_capture_stops(stage: Any) -> None:
    # guide, model-monitor-data-capture: below 75 %
    for model in stage.slotted():
        props = alarms(stage)[f"streamhub-{stage.stage.name}-{model.slug}-disk-a"]
        assert (props["Namespace"], props["MetricName"]) == ("/aws/sagemaker/Endpoints", "DiskUtilization")
        assert (props["Threshold"], props["ComparisonOperator"]) == (75, "GreaterThanThreshold")


def test_drift_alarms_when_m_of_n_windows_agree(stage: Any) -> None:
    for model in stage.slotted():
        props = alarms(stage)[f"streamhub-{stage.stage.name}-{model.slug}-drift"]
        assert (props["Namespace"], props["MetricName"]) == ("StreamHub/Inference", "MaxDriftScore")
        assert props["Period"] == model.drift.window_s
        assert (props["DatapointsToAlarm"], props["EvaluationPeriods"]) == (2, 3)
        assert props["Threshold"] == model.drift.alarm_size


def test_a_drift_run_that_never_ends_breaches(stage: Any) -> None:
    for model in stage.slotted():
        props = alarms(stage)[f"streamhub-{stage.stage.name}-{model.slug}-drift-heartbeat"]
        assert (props["MetricName"], props["TreatMissingData"]) == ("DriftRunCompleted", "breaching")
        assert props["ComparisonOperator"] == "LessThanThreshold"


def test_our_metrics_have_no_dimension_but_stage_endpoint_and_variant(stage: Any) -> None:
    ours = [props for props in alarms(stage).values() if props.get("Namespace") == "StreamHub/Inference"]
    assert ours
    for props in ours:
        assert set(dimensions(props)) <= {"Stage", "Endpoint", "Variant"}
        assert dimensions(props)["Stage"] == stage.stage.name


def test_alarm_names_are_unique_in_the_account(stage: Any) -> None:
    names = [found.props["AlarmName"] for found in stage.all(ALARM)]
    assert len(names) == len(set(names))


def test_every_function_has_alarms_on_errors_and_throttles_and_the_api_on_what_clients_see(stage: Any) -> None:
    names = set(alarms(stage, "monitoring"))
    prefix = f"streamhub-{stage.stage.name}"
    functions = ("predict", "release", "drift")
    of_functions = {f"{prefix}-{name}-{what}" for name in functions for what in ("errors", "throttles")}
    assert names == of_functions | {f"{prefix}-api-errors", f"{prefix}-api-p99"}


def test_every_alarm_of_the_stage_reaches_its_topic_when_it_fires_and_when_it_clears(stage: Any) -> None:
    details = []
    for rule in stage.all("AWS::Events::Rule", "monitoring"):
        assert rule.props["EventPattern"]["source"] == ["aws.cloudwatch"]
        details.append(rule.props["EventPattern"]["detail"])
        assert rule.props["Targets"][0]["Arn"]["Ref"] == stage.one("AWS::SNS::Topic", "monitoring").id
    prefix = f"streamhub-{stage.stage.name}-"
    for name, props in alarms(stage).items():
        assert name.startswith(prefix) != ("AlarmActions" in props), "what drives scaling calls nobody"
    ours = {"alarmName": [{"prefix": prefix}]}
    fired, cleared = sorted(details, key=lambda detail: detail["state"]["value"])
    assert fired == ours | {"state": {"value": ["ALARM"]}}, "an alarm that was never OK is heard too"
    assert cleared == ours | {"state": {"value": ["OK"]}, "previousState": {"value": ["ALARM"]}}


def test_the_dashboard_draws_sagemakers_latency_in_milliseconds(stage: Any) -> None:
    body = stage.one("AWS::CloudWatch::Dashboard", "monitoring").props["DashboardBody"]
    text = "".join(part if isinstance(part, str) else "X" for part in body["Fn::Join"][1])
    graphs = [widget["properties"] for widget in json.loads(text)["widgets"]]
    latency = [graph for graph in graphs if graph["title"] == "latency in the container"]
    assert len(latency) == len(stage.all("AWS::SageMaker::Endpoint"))
    for graph in latency:
        expressions = [row[0]["expression"] for row in graph["metrics"] if isinstance(row[0], dict)]
        assert expressions == [f"p99_{number} / 1000" for number in range(len(expressions))]
        assert expressions
