"""Alarms in templates: CloudFormation takes what CloudWatch takes, and says by name what it does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

ALARM = {
    "Namespace": "Shop",
    "MetricName": "Errors",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 2,
    "Threshold": 1,
    "ComparisonOperator": "GreaterThanThreshold",
}


def template(kind: str, properties: dict[str, Any]) -> str:
    return json.dumps({"Resources": {"Rule": {"Type": f"AWS::CloudWatch::{kind}", "Properties": properties}}})


def stack_of(aws: Any, name: str, properties: dict[str, Any], until: Callable[..., Any]) -> tuple[str, str]:
    """Make a stack of one alarm and give its status and what was said of the alarm."""
    formation = aws.client("cloudformation")
    formation.create_stack(StackName=name, TemplateBody=template("Alarm", properties))

    def ended() -> str | None:
        status = str(formation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
        return None if status.endswith("_IN_PROGRESS") else status

    events = formation.describe_stack_events
    status = until(ended)
    said = [event.get("ResourceStatusReason", "") for event in events(StackName=name)["StackEvents"]]
    return status, " ".join(said)


@pytest.mark.parametrize("how", ["create_stack", "create_change_set", "validate_template"])
def test_a_composite_alarm_in_a_template_is_refused_by_the_name_of_its_type(aws: Any, how: str) -> None:
    formation = aws.client("cloudformation")
    body = template("CompositeAlarm", {"AlarmRule": 'ALARM("loud")'})
    named: dict[str, dict[str, Any]] = {
        "create_stack": {"StackName": "composite"},
        "create_change_set": {"StackName": "composite", "ChangeSetName": "c", "ChangeSetType": "CREATE"},
        "validate_template": {},
    }
    with pytest.raises(
        ClientError, match=r"Unrecognized resource types: \[AWS::CloudWatch::CompositeAlarm\]"
    ) as refused:
        getattr(formation, how)(**named[how], TemplateBody=body)
    assert refused.value.response["Error"]["Code"] == "ValidationError"
    assert not any(stack["StackName"] == "composite" for stack in formation.describe_stacks()["Stacks"])


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("period", {"Period": 45}, "Period: got 45"),
        ("needed", {"DatapointsToAlarm": 3}, "DatapointsToAlarm must be less than or equal to EvaluationPeriods"),
        ("both", {"ExtendedStatistic": "p99"}, "Exactly one of Statistic and ExtendedStatistic"),
        ("band", {"ComparisonOperator": "GreaterThanUpperThreshold"}, "Anomaly detection"),
        ("span", {"Period": 3600, "EvaluationPeriods": 200}, "EvaluationPeriods"),
    ],
)
def test_an_alarm_that_put_metric_alarm_refuses_fails_its_stack(
    aws: Any, until: Callable[..., Any], name: str, change: dict[str, Any], said: str
) -> None:
    status, reasons = stack_of(aws, f"refused-{name}", ALARM | change, until)
    assert status == "ROLLBACK_COMPLETE"
    assert said in reasons


def test_numbers_of_a_template_may_be_text_and_every_action_is_kept(aws: Any, until: Callable[..., Any]) -> None:
    topic = "arn:aws:sns:us-east-1:123456789012:told"
    text = {"AlarmName": "texts", "Period": "60", "Threshold": "1.5", "InsufficientDataActions": [topic]}
    assert stack_of(aws, "texts", ALARM | text, until)[0] == "CREATE_COMPLETE"
    [alarm] = aws.client("cloudwatch").describe_alarms(AlarmNames=["texts"])["MetricAlarms"]
    assert (alarm["Period"], alarm["Threshold"]) == (60, 1.5)
    assert alarm["InsufficientDataActions"] == [topic]
