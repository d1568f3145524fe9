"""Application Auto Scaling that acts: looks at alarms and schedules, changes counts by plain boto3."""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.clock import Clock
from local.scaling_alarms import COMPONENT, IN_PERIODS, LOW, alarm_queries, calls, tracked_queries
from local.scaling_rules import Bounds, Growth, Side, Wish, decide, grown, stepped, tracked, wished
from local.scaling_schedule import due

INTERVAL_S = 10.0
_log = logging.getLogger(__name__)


class Scaled(Protocol):
    """What is registered and scheduled, and where an activity is written down."""

    def registered(self) -> list[tuple[Json, list[Json]]]:
        """Give each scalable target with its policies."""

    def scheduled(self) -> list[tuple[Json, list[Json]]]:
        """Give each scalable target with its scheduled actions."""

    def bound(self, target: Json, *, least: int, most: int) -> None:
        """Change the range of a target."""

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
        self._scheduled_s = clock.now()
        self._grown: dict[str, Growth] = {}
        self._in_s: dict[str, float] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            self.run_schedules()
            for target, policies in self._scaled.registered():
                activity = await asyncio.to_thread(self.look, target, policies)
                if activity is not None:
                    self._scaled.note(activity)

    def run_schedules(self) -> None:
        """Change the range of targets by the scheduled actions that were due since the last time, in their order.

        What was due several times in between counts once, at its last moment. A clock that is set back runs none again.
        """
        after_s, self._scheduled_s = self._scheduled_s, max(self._scheduled_s, self._clock.now())
        runs = [
            (moments[-1], target, action)
            for target, actions in self._scaled.scheduled()
            for action in actions
            if (moments := due(action, after_s=after_s, until_s=self._scheduled_s))
        ]
        for moment, target, action in sorted(runs, key=lambda run: run[0]):
            if not target["SuspendedState"].get("ScheduledScalingSuspended", False):
                self._run(target, action, moment)

    def _run(self, target: Json, action: Json, moment: float) -> None:
        wanted = action["ScalableTargetAction"]
        least = wanted.get("MinCapacity", target["MinCapacity"])
        most = wanted.get("MaxCapacity", target["MaxCapacity"])
        sides = {"min": wanted.get("MinCapacity"), "max": wanted.get("MaxCapacity")}
        done = " and ".join(f"{side} capacity to {count}" for side, count in sides.items() if count is not None)
        failed = f"Failed to set {done}: the minimum {least} is above the maximum {most}" if most < least else ""
        if not failed:
            self._scaled.bound(target, least=least, most=most)
        self._scaled.note(
            _activity(
                target,
                description=f"Setting {done}",
                cause=f"scheduled action name {action['ScheduledActionName']} was triggered",
                at_s=moment,
                failed=failed,
                done=f"Successfully set {done}",
            )
        )

    def look(self, target: Json, policies: list[Json]) -> Json | None:
        """Look at one target and give the activity if it was moved; what AWS refuses is tried again next time."""
        try:
            return self._look(target, policies)
        except (BotoCoreError, ClientError) as error:
            _log.info("%s is not scaled now: %s", target["ResourceId"], error)
        except Exception:  # noqa: BLE001 - one bad target must not end the watch
            _log.exception("%s cannot be scaled", target["ResourceId"])
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
        growth = self._grown.get(resource)
        change = decide(
            bounds,
            self._wishes(resource, policies, capacity, now),
            capacity=capacity,
            since_out_s=now - growth.at_s if growth is not None else math.inf,
            since_in_s=now - self._in_s.get(resource, -math.inf),
            trackers={policy["PolicyName"] for policy in policies if _may_track_in(policy)},
        )
        if change is None:
            return None
        self._move(resource, change.capacity)
        if change.capacity > capacity:
            self._grown[resource] = grown(change, growth, capacity=capacity, now_s=now)
        else:
            self._in_s[resource] = now
        _log.info("%s: %d to %d, %s", resource, capacity, change.capacity, change.cause)
        counted = "copy count" if resource.startswith(COMPONENT) else "instance count"
        done = f"set desired {counted} to {change.capacity}. Change successfully fulfilled by sagemaker."
        return _activity(
            target,
            description=f"Setting desired {counted} to {change.capacity}.",
            cause=change.cause,
            at_s=now,
            done=f"Successfully {done}",
        )

    def _capacity(self, resource: str) -> int | None:
        if resource.startswith(COMPONENT):
            found = self._sagemaker.describe_inference_component(
                InferenceComponentName=resource.removeprefix(COMPONENT)
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
        if resource.startswith(COMPONENT):
            self._sagemaker.update_inference_component_runtime_config(
                InferenceComponentName=resource.removeprefix(COMPONENT), DesiredRuntimeConfig={"CopyCount": capacity}
            )
            return
        _, endpoint, _, variant = resource.split("/")
        self._sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=endpoint,
            DesiredWeightsAndCapacities=[{"VariantName": variant, "DesiredInstanceCount": capacity}],
        )

    def _wishes(self, resource: str, policies: list[Json], capacity: int, now: float) -> Iterator[Wish]:
        if not policies:
            return
        ringing = self._ringing()
        for policy in policies:
            for alarm in ringing:
                if calls(alarm, policy["PolicyARN"]) and alarm.get("ActionsEnabled", True):
                    wish = self._wish(resource, policy, alarm, capacity, now)
                    if wish is not None:
                        yield wish

    def _wish(self, resource: str, policy: Json, alarm: Json, capacity: int, now: float) -> Wish | None:
        name, called = policy["PolicyName"], alarm["AlarmName"]
        if policy["PolicyType"] == "StepScaling":
            steps, breach = policy["StepScalingPolicyConfiguration"], self._breach(alarm, now)

            def rule(count: int) -> Wish | None:
                return stepped(name, steps, breach, capacity=count, alarm=called)
        else:
            config = policy["TargetTrackingScalingPolicyConfiguration"]
            side: Side = "low" if f"-{LOW}-" in called else "high"
            values = self._values(tracked_queries(resource, config), now, periods=IN_PERIODS)

            def rule(count: int) -> Wish | None:
                return tracked(name, config, values, capacity=count, alarm=called, side=side)

        return wished(rule, capacity=capacity, growth=self._grown.get(resource), now_s=now)

    def _breach(self, alarm: Json, now: float) -> float:
        """Give how far an alarm stands from its threshold now, or did when it rang; not at all if set by hand."""
        points = self._values(alarm_queries(alarm), now, periods=alarm["EvaluationPeriods"])
        points = points or orjson.loads(alarm.get("StateReasonData") or "{}").get("recentDatapoints", [])
        return float(points[-1]) - float(alarm["Threshold"]) if points else 0.0

    def _values(self, queries: list[Json], now: float, *, periods: int) -> list[float]:
        """Give what the one query that returns data was in the last whole periods, oldest first."""
        period_s = max(query["MetricStat"]["Period"] for query in queries if "MetricStat" in query)  # one has a metric
        end = now - now % period_s  # the period that is still filling says nothing yet
        found = self._cloudwatch.get_metric_data(
            MetricDataQueries=queries,
            StartTime=datetime.fromtimestamp(end - periods * period_s, UTC),
            EndTime=datetime.fromtimestamp(end, UTC),
            ScanBy="TimestampAscending",
        )["MetricDataResults"]
        return [float(value) for value in found[0]["Values"]]

    def _ringing(self) -> list[Json]:
        """Give every alarm that is in ALARM."""
        found: list[Json] = []
        token: Json = {}
        while True:
            answer = self._cloudwatch.describe_alarms(StateValue="ALARM", **token)
            found += answer["MetricAlarms"]
            if not answer.get("NextToken"):
                return found
            token = {"NextToken": answer["NextToken"]}


def _may_track_in(policy: Json) -> bool:
    config = policy.get("TargetTrackingScalingPolicyConfiguration")
    return config is not None and not config.get("DisableScaleIn", False)


def _activity(target: Json, *, description: str, cause: str, at_s: float, done: str, failed: str = "") -> Json:
    return {
        "ActivityId": str(uuid.uuid4()),
        **{key: target[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")},
        "Description": description,
        "Cause": cause,
        "StartTime": at_s,
        "EndTime": at_s,
        "StatusCode": "Failed" if failed else "Successful",
        "StatusMessage": failed or done,
    }
