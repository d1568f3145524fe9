"""Application Auto Scaling that acts: reads metrics and alarms every ten seconds, changes counts by plain boto3."""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.clock import Clock
from local.scaling_rules import Bounds, Wish, decide, stepped, tracked

INTERVAL_S = 10.0
_PERIODS = 15
_COMPONENT = "inference-component/"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A metric of AWS/SageMaker behind a predefined one; `shared` is divided by the capacity."""

    name: str
    statistic: str
    period_s: int
    shared: bool = False


_CONCURRENCY = Measure(name="ConcurrentRequestsPerModel", statistic="Average", period_s=10)
_INVOCATIONS = Measure(name="Invocations", statistic="Sum", period_s=60, shared=True)
_PREDEFINED = {
    "SageMakerVariantInvocationsPerInstance": _INVOCATIONS,
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": _CONCURRENCY,
    "SageMakerInferenceComponentInvocationsPerCopy": _INVOCATIONS,
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": _CONCURRENCY,
}


class Scaled(Protocol):
    """What is registered, and where an activity is written down."""

    def registered(self) -> list[tuple[Json, list[Json]]]:
        """Give each scalable target with its policies."""

    def note(self, activity: Json) -> None:
        """Keep an activity for DescribeScalingActivities."""


class ScalingWatch:
    """Looks at every scalable target and moves its capacity as `scaling_rules` decides."""

    def __init__(
        self,
        scaled: Scaled,
        *,
        sagemaker: Any,  # noqa: ANN401 - a boto3 client
        cloudwatch: Any,  # noqa: ANN401 - a boto3 client
        clock: Clock,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._scaled = scaled
        self._sagemaker = sagemaker
        self._cloudwatch = cloudwatch
        self._clock = clock
        self._interval_s = interval_s
        self._out_s: dict[str, float] = {}
        self._in_s: dict[str, float] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            for target, policies in self._scaled.registered():
                activity = await asyncio.to_thread(self.look, target, policies)
                if activity is not None:
                    self._scaled.note(activity)

    def look(self, target: Json, policies: list[Json]) -> Json | None:
        """Look at one target and give the activity if it was moved; what AWS refuses is tried again next time."""
        try:
            return self._look(target, policies)
        except (BotoCoreError, ClientError, KeyError) as error:
            _log.info("%s is not scaled now: %s", target["ResourceId"], error)
            return None

    def _look(self, target: Json, policies: list[Json]) -> Json | None:
        resource, now = target["ResourceId"], self._clock.now()
        capacity = self._capacity(resource)
        if capacity is None:
            return None  # it is being changed: scaling waits (guide, *endpoint-scaling-update*)
        suspended = target["SuspendedState"]
        bounds = Bounds(
            least=target["MinCapacity"],
            most=target["MaxCapacity"],
            out_suspended=suspended.get("DynamicScalingOutSuspended", False),
            in_suspended=suspended.get("DynamicScalingInSuspended", False),
        )
        change = decide(
            bounds,
            self._wishes(resource, policies, capacity, now),
            capacity=capacity,
            since_out_s=now - self._out_s.get(resource, -math.inf),
            since_in_s=now - self._in_s.get(resource, -math.inf),
        )
        if change is None:
            return None
        self._move(resource, change.capacity)
        (self._out_s if change.capacity > capacity else self._in_s)[resource] = now
        _log.info("%s: %d to %d, %s", resource, capacity, change.capacity, change.cause)
        return {
            "ActivityId": str(uuid.uuid4()),
            **{key: target[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")},
            "Description": f"Setting desired capacity to {change.capacity}.",
            "Cause": change.cause,
            "StartTime": now,
            "EndTime": now,
            "StatusCode": "Successful",
        }

    def _capacity(self, resource: str) -> int | None:
        if resource.startswith(_COMPONENT):
            found = self._sagemaker.describe_inference_component(
                InferenceComponentName=resource.removeprefix(_COMPONENT)
            )
            serving = found["InferenceComponentStatus"] == "InService"
            return int(found["RuntimeConfig"]["CurrentCopyCount"]) if serving else None
        _, endpoint, _, variant = resource.split("/")
        found = self._sagemaker.describe_endpoint(EndpointName=endpoint)
        if found["EndpointStatus"] != "InService":
            return None
        counts = {held["VariantName"]: held["CurrentInstanceCount"] for held in found["ProductionVariants"]}
        return int(counts[variant])

    def _move(self, resource: str, capacity: int) -> None:
        if resource.startswith(_COMPONENT):
            self._sagemaker.update_inference_component_runtime_config(
                InferenceComponentName=resource.removeprefix(_COMPONENT), DesiredRuntimeConfig={"CopyCount": capacity}
            )
            return
        _, endpoint, _, variant = resource.split("/")
        self._sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=endpoint,
            DesiredWeightsAndCapacities=[{"VariantName": variant, "DesiredInstanceCount": capacity}],
        )

    def _wishes(self, resource: str, policies: list[Json], capacity: int, now: float) -> Iterator[Wish]:
        for policy in policies:
            name = policy["PolicyName"]
            if policy["PolicyType"] == "TargetTrackingScaling":
                config = policy["TargetTrackingScalingPolicyConfiguration"]
                wish = tracked(name, config, self._values(resource, config, capacity, now), capacity=capacity)
            elif policy["PolicyType"] == "StepScaling":
                breach = self._breach(policy["PolicyARN"])
                config = policy["StepScalingPolicyConfiguration"]
                wish = stepped(name, config, breach, capacity=capacity) if breach is not None else None
            else:
                continue
            if wish is not None:
                yield wish

    def _values(self, resource: str, config: Json, capacity: int, now: float) -> list[float]:
        custom = config.get("CustomizedMetricSpecification")
        if custom is not None:
            return self._statistics(
                custom["Namespace"], custom["MetricName"], custom.get("Dimensions", []), custom["Statistic"], 60, now
            )
        measure = _PREDEFINED[config["PredefinedMetricSpecification"]["PredefinedMetricType"]]
        values = self._statistics(
            "AWS/SageMaker", measure.name, _dimensions(resource), measure.statistic, measure.period_s, now
        )
        return [value / max(1, capacity) for value in values] if measure.shared else values

    def _statistics(  # noqa: PLR0917 - what CloudWatch asks for
        self, namespace: str, name: str, dimensions: list[Any], statistic: str, period_s: int, now: float
    ) -> list[float]:
        end = now - now % period_s  # the period that is still filling says nothing yet
        found = self._cloudwatch.get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=dimensions,
            Statistics=[statistic],
            Period=period_s,
            StartTime=datetime.fromtimestamp(end - _PERIODS * period_s, UTC),
            EndTime=datetime.fromtimestamp(end, UTC),
        )["Datapoints"]
        return [float(point[statistic]) for point in sorted(found, key=lambda point: point["Timestamp"])]

    def _breach(self, policy_arn: str) -> float | None:
        """Give how far the alarm that calls a policy stands from its threshold, None while it is quiet."""
        for alarm in self._cloudwatch.describe_alarms(StateValue="ALARM")["MetricAlarms"]:
            if policy_arn in alarm.get("AlarmActions", ()):
                points = orjson.loads(alarm.get("StateReasonData") or "{}").get("recentDatapoints") or [
                    alarm["Threshold"]
                ]
                return float(points[-1]) - float(alarm["Threshold"])
        return None


def _dimensions(resource: str) -> list[Json]:
    if resource.startswith(_COMPONENT):
        return [{"Name": "InferenceComponentName", "Value": resource.removeprefix(_COMPONENT)}]
    _, endpoint, _, variant = resource.split("/")
    return [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": variant}]
