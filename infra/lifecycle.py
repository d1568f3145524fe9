"""What a stage says about keeping things, in CDK's words."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs

from serving.errors import Problem, SpecError
from serving.spec import StageSpec


def removal_policy(stage: StageSpec) -> RemovalPolicy:
    """Give what happens to data when its resource leaves the template.

    What a failed first deploy made is empty, and goes with it: kept, its name would refuse the next try
    (CloudFormation reference, *DeletionPolicy*, RetainExceptOnCreate).
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if stage.removal == "retain" else RemovalPolicy.DESTROY


# PutRetentionPolicy takes these numbers of days only (CloudWatch Logs API reference).
_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1096: logs.RetentionDays.THREE_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    2192: logs.RetentionDays.SIX_YEARS,
    2557: logs.RetentionDays.SEVEN_YEARS,
    2922: logs.RetentionDays.EIGHT_YEARS,
    3288: logs.RetentionDays.NINE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


def log_retention(stage: StageSpec) -> logs.RetentionDays:
    """Give the stage's retention, or raise SpecError naming the days CloudWatch Logs knows."""
    days = stage.log_retention_days
    if days not in _RETENTION:
        allowed = f"one of {', '.join(map(str, _RETENTION))}"
        file = f"stages/{stage.name}.toml"
        raise SpecError((Problem(file, "log_retention_days", str(days), allowed, "choose one of them"),))
    return _RETENTION[days]
