"""A deployment that fails, as the fault `deployment` makes it: a canary whose errors its alarm sees."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from local.alarms import evaluate
from local.cloudwatch.samples import Sample
from local.sagemaker.plan import plan_of

CANARY: Final = plan_of(
    {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": "CANARY",
                "WaitIntervalInSeconds": 900,
                "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
            },
        },
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "deploy-errors"}]},
    },
    instances=10,
    variants=2,
)
"""How it deploys."""

_FAILS: Final = 0.2
_PERIOD_S: Final = 60


def rings(name: str, now: datetime) -> bool:
    """Say by CloudWatch's rule whether the deployment's errors, one request in five, are too many for its alarm."""
    alarm = {
        "AlarmName": name,
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocation5XXErrors",
        "Dimensions": [],
        "Statistic": "Average",
        "Period": _PERIOD_S,
        "EvaluationPeriods": 1,
        "Threshold": 0.05,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
    }
    seen = [Sample.of_value(now.timestamp() - _PERIOD_S / 2, _FAILS)]
    return evaluate(alarm, lambda _metric, _since_s: seen, now).state == "ALARM"
