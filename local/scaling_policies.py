"""The alarms of scaling policies: target tracking makes its own, step scaling is called by those of others."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from local.aws_json import Json, ValidationError
from local.cloudwatch.alarm_requests import RequestError
from local.scaling_alarms import COMPONENT, HIGH, LOW, calls, predefined, tracking_alarms

_TRACKING = "TargetTrackingScaling"


class AlarmBook(Protocol):
    """CloudWatch's alarms, as a service of AWS changes them."""

    def alarms(self) -> list[dict[str, Any]]:
        """Give the metric alarms as DescribeAlarms does."""

    def put_alarm(self, request: Mapping[str, Any]) -> None:
        """Make or change an alarm as PutMetricAlarm does, or raise RequestError."""

    def delete_alarms(self, names: list[str]) -> None:
        """Delete alarms; what is gone already is no error."""


class PolicyAlarms:
    """Keeps the alarms of policies in step with the policies."""

    def __init__(self, book: AlarmBook, *, region: str, account: str) -> None:
        self._book = book
        self._prefix = f"arn:aws:cloudwatch:{region}:{account}:alarm:"

    def replace(self, policy: Json) -> list[Json]:
        """Make new alarms for a policy in place of those that it has, and give their names and ARNs.

        Raises:
            ValidationError: what it tracks is not to be had here, or CloudWatch would refuse the alarms.

        """
        if not _makes_alarms(policy):
            self.remove(policy)
            return []
        names = {kind: f"TargetTracking-{policy['ResourceId']}-{kind}-{uuid.uuid4()}" for kind in (HIGH, LOW)}
        self._put(policy, names)
        self.remove(policy)
        return [{"AlarmName": name, "AlarmARN": self._prefix + name} for name in names.values()]

    def remove(self, policy: Json) -> None:
        """Delete the alarms that a policy made."""
        self._book.delete_alarms([alarm["AlarmName"] for alarm in policy["Alarms"]])

    def restore(self, policies: Iterable[Json]) -> None:
        """Make again what CloudWatch has forgotten of the policies' own alarms."""
        known = {alarm["AlarmName"] for alarm in self._book.alarms()}
        for policy in policies:
            held = [alarm["AlarmName"] for alarm in policy["Alarms"]]
            if not _makes_alarms(policy) or (held and known >= set(held)):
                continue
            if held:
                self._put(policy, {kind: name for kind in (HIGH, LOW) for name in held if f"-{kind}-" in name})
            else:
                policy["Alarms"] = self.replace(policy)

    def calling(self, policy: Json) -> list[Json]:
        """Give name and ARN of every alarm whose actions name a policy."""
        return [
            {"AlarmName": alarm["AlarmName"], "AlarmARN": alarm["AlarmArn"]}
            for alarm in self._book.alarms()
            if calls(alarm, policy["PolicyARN"])
        ]

    def _put(self, policy: Json, names: Mapping[str, str]) -> None:
        action = f"{policy['PolicyARN']}:createdBy/{uuid.uuid5(uuid.NAMESPACE_URL, policy['PolicyARN'])}"
        try:
            for alarm in tracking_alarms(policy, action=action, names=names):
                self._book.put_alarm(alarm)
        except RequestError as error:
            raise ValidationError(f"the metric of {policy['PolicyName']}: {error}") from error


def _makes_alarms(policy: Json) -> bool:
    if policy["PolicyType"] != _TRACKING or policy["ServiceNamespace"] != "sagemaker":
        return False
    wanted = policy[f"{_TRACKING}PolicyConfiguration"].get("PredefinedMetricSpecification")
    of_component = policy["ResourceId"].startswith(COMPONENT)
    allowed = [name for name in predefined() if ("InferenceComponent" in name) == of_component]
    if wanted is not None and wanted["PredefinedMetricType"] not in allowed:
        raise ValidationError(
            f"PredefinedMetricType: got {wanted['PredefinedMetricType']}; allowed in the local stack for "
            f"{policy['ResourceId']}: {', '.join(allowed)}"
        )
    return True
