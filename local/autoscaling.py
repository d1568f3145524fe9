"""Application Auto Scaling's API: targets, policies and scheduled actions; `scaling_watch` acts by them.

An ASGI application without background work; when it starts it makes again the alarms that CloudWatch has forgotten.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping

from local.aws_json import AwsError, Handler, Json, JsonService, Receive, Scope, Send, ValidationError
from local.clock import Clock
from local.scaling_policies import AlarmBook, PolicyAlarms
from local.scaling_schedule import parse_schedule
from local.settings import LocalSettings
from local.state_file import StateFile
from serving.errors import LocalStackError

_FILE = "autoscaling.json"
_PARTS = ("targets", "policies", "actions", "tags", "activities")
_MOST_ACTIVITIES = 500
_KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_POLICY_CONFIGS = {
    "StepScaling": "StepScalingPolicyConfiguration",
    "TargetTrackingScaling": "TargetTrackingScalingPolicyConfiguration",
}
_SAGEMAKER_RESOURCES = {
    "sagemaker:variant:DesiredInstanceCount": re.compile(r"endpoint/[^/]+/variant/[^/]+"),
    "sagemaker:inference-component:DesiredCopyCount": re.compile(r"inference-component/[^/]+"),
}
_SUSPENDED = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")
_DEFAULT_RESULTS = 50


class AutoScalingApp:
    """The ASGI application."""

    def __init__(self, settings: LocalSettings, *, clock: Clock, book: AlarmBook) -> None:
        self._settings = settings
        self._alarms = PolicyAlarms(book, region=settings.region, account=settings.account)
        self._clock = clock
        self._file = StateFile(settings.state_dir / _FILE, _PARTS)
        self._state = self._file.read()
        self._service = JsonService("application-autoscaling", self._operations())

    def holds(self, resource: str) -> bool:
        """Say whether a resource is a scalable target."""
        return any(target["ResourceId"] == resource for target in self._state["targets"].values())

    def registered(self) -> list[tuple[Json, list[Json]]]:
        """Give each scalable target of SageMaker with its policies."""
        return [(target, self._of("policies", target)) for target in self._targets()]

    def scheduled(self) -> list[tuple[Json, list[Json]]]:
        """Give each scalable target of SageMaker with its scheduled actions."""
        return [(target, self._of("actions", target)) for target in self._targets()]

    def bound(self, target: Json, *, least: int, most: int) -> None:
        """Change the range of a target."""
        target |= {"MinCapacity": least, "MaxCapacity": most}
        self._save()

    def _targets(self) -> list[Json]:
        return [held for held in self._state["targets"].values() if held["ServiceNamespace"] == "sagemaker"]

    def _of(self, part: str, target: Json) -> list[Json]:
        return [held for held in self._state[part].values() if _key(held) == _key(target)]

    def note(self, activity: Json) -> None:
        """Keep an activity for DescribeScalingActivities, the last few hundred of them."""
        kept = [*self._state["activities"].values(), activity][-_MOST_ACTIVITIES:]
        self._state["activities"] = {held["ActivityId"]: held for held in kept}
        self._save()

    def start(self) -> None:
        """Make again the alarms that CloudWatch has forgotten."""
        self._alarms.restore(self._state["policies"].values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            await self._service.serve(scope, receive, send)
            return
        while scope["type"] == "lifespan":
            event = (await receive())["type"]
            if event == "lifespan.startup":
                self.start()
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return

    def _operations(self) -> Mapping[str, Handler]:
        return {
            "RegisterScalableTarget": self._register,
            "DescribeScalableTargets": lambda call: self._describe("ScalableTargets", "targets", call),
            "DeregisterScalableTarget": self._deregister,
            "PutScalingPolicy": self._put_policy,
            "DescribeScalingPolicies": self._describe_policies,
            "DeleteScalingPolicy": self._delete_policy,
            "PutScheduledAction": self._put_action,
            "DescribeScheduledActions": lambda call: self._describe("ScheduledActions", "actions", call),
            "DeleteScheduledAction": lambda call: self._delete(
                "actions", "ScheduledActionName", "scheduled action", call
            ),
            "DescribeScalingActivities": self._activities,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsForResource": lambda call: {"Tags": self._tags(call["ResourceARN"])},
        }

    def _register(self, call: Json) -> Json:
        key = _key(call)
        _refuse_strange_resource(call)
        known = self._state["targets"].get(key)
        missing = [name for name in ("MinCapacity", "MaxCapacity") if name not in call]
        if known is None and missing:
            raise ValidationError(f"{' and '.join(missing)} must be given when a scalable target is new")
        target = known or self._new_target(call)
        changed = target | {name: call[name] for name in ("MinCapacity", "MaxCapacity", "RoleARN") if name in call}
        changed["SuspendedState"] = target["SuspendedState"] | call.get("SuspendedState", {})
        if changed["MaxCapacity"] < changed["MinCapacity"]:
            raise ValidationError(
                f"Maximum capacity cannot be less than minimum capacity: got {changed['MinCapacity']} to "
                f"{changed['MaxCapacity']}"
            )
        self._state["targets"][key] = changed
        arn = changed["ScalableTargetARN"]
        self._state["tags"][arn] = self._state["tags"].get(arn, {}) | call.get("Tags", {})
        self._save()
        return {"ScalableTargetARN": arn}

    def _new_target(self, call: Json) -> Json:
        region, account = self._settings.region, self._settings.account
        namespace = call["ServiceNamespace"]
        return {
            **{name: call[name] for name in _KEY},
            "RoleARN": f"arn:aws:iam::{account}:role/aws-service-role/{namespace}.application-autoscaling."
            "amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint",
            "CreationTime": self._clock.now(),
            "SuspendedState": dict.fromkeys(_SUSPENDED, False),
            "ScalableTargetARN": f"arn:aws:application-autoscaling:{region}:{account}:scalable-target/"
            f"0ec5{uuid.uuid4().hex}",
        }

    def _deregister(self, call: Json) -> Json:
        target = self._target(call)
        key = _key(call)
        del self._state["targets"][key]
        for policy in self._of("policies", target):
            self._alarms.remove(policy)
        # the policies and scheduled actions of a target go with it (API reference, DeregisterScalableTarget)
        for part in ("policies", "actions"):
            self._state[part] = {name: held for name, held in self._state[part].items() if _key(held) != key}
        self._state["tags"].pop(target["ScalableTargetARN"], None)
        self._save()
        return {}

    def _put_policy(self, call: Json) -> Json:
        self._target(call)
        name = f"{_key(call)}|{call['PolicyName']}"
        known = self._state["policies"].get(name)
        kind = call.get("PolicyType", known["PolicyType"] if known is not None else "StepScaling")
        if kind not in _POLICY_CONFIGS:
            raise ValidationError(f"PolicyType: got {kind}; allowed in the local stack: {', '.join(_POLICY_CONFIGS)}")
        wanted = _POLICY_CONFIGS[kind]
        foreign = [config for config in _POLICY_CONFIGS.values() if config in call and config != wanted]
        if foreign or (known is None and wanted not in call):
            raise ValidationError(f"a policy of type {kind} takes {wanted}; got {', '.join(foreign) or 'none'}")
        policy = {**(known or self._new_policy(call)), "PolicyType": kind}
        policy |= {wanted: call[wanted]} if wanted in call else {}
        policy["Alarms"] = self._alarms.replace(policy)
        self._state["policies"][name] = policy
        self._save()
        return {"PolicyARN": policy["PolicyARN"], "Alarms": policy["Alarms"]}

    def _new_policy(self, call: Json) -> Json:
        prefix = f"arn:aws:autoscaling:{self._settings.region}:{self._settings.account}:scalingPolicy:{uuid.uuid4()}"
        return {
            **{name: call[name] for name in _KEY},
            "PolicyName": call["PolicyName"],
            "PolicyARN": f"{prefix}:{_resource(call)}:policyName/{call['PolicyName']}",
            "CreationTime": self._clock.now(),
            "Alarms": [],
        }

    def _describe_policies(self, call: Json) -> Json:
        answer = self._describe("ScalingPolicies", "policies", call)
        policies = [policy | {"Alarms": self._alarms.calling(policy)} for policy in answer["ScalingPolicies"]]
        return answer | {"ScalingPolicies": policies}

    def _delete_policy(self, call: Json) -> Json:
        policy = self._state["policies"].get(f"{_key(call)}|{call['PolicyName']}")
        answer = self._delete("policies", "PolicyName", "scaling policy", call)
        self._alarms.remove(policy)
        return answer

    def _put_action(self, call: Json) -> Json:
        self._target(call)
        name = f"{_key(call)}|{call['ScheduledActionName']}"
        known = self._state["actions"].get(name)
        if known is None and "Schedule" not in call:
            raise ValidationError("Schedule must be given when a scheduled action is new")
        prefix = f"arn:aws:autoscaling:{self._settings.region}:{self._settings.account}:scheduledAction:{uuid.uuid4()}"
        new = {
            "ScheduledActionARN": f"{prefix}:{_resource(call)}:scheduledActionName/{call['ScheduledActionName']}",
            "CreationTime": self._clock.now(),
        }
        # of a change, what is not given stays, but for start and end (API reference, PutScheduledAction)
        kept = {name: value for name, value in (known or new).items() if name not in {"StartTime", "EndTime"}}
        action = kept | call
        _refuse_strange_action(action)
        self._state["actions"][name] = action
        self._save()
        return {}

    def _delete(self, part: str, field: str, called: str, call: Json) -> Json:
        if self._state[part].pop(f"{_key(call)}|{call[field]}", None) is None:
            raise _not_found(called, call)
        self._save()
        return {}

    def _describe(self, answer_key: str, part: str, call: Json) -> Json:
        return _page(answer_key, [held for held in self._state[part].values() if _matches(held, call)], call)

    def _activities(self, call: Json) -> Json:
        """Give the newest first; of one target if it is named. None is kept of what did not scale."""
        keys = [name for name in _KEY if name in call]
        kept = self._state["activities"].values()
        found = [held for held in kept if all(held[name] == call[name] for name in keys)]
        return _page("ScalingActivities", found[::-1], call)

    def _target(self, call: Json) -> Json:
        target: Json | None = self._state["targets"].get(_key(call))
        if target is None:
            raise _not_found("scalable target", call)
        return target

    def _tags(self, arn: str) -> dict[str, str]:
        if all(target["ScalableTargetARN"] != arn for target in self._state["targets"].values()):
            raise AwsError("ResourceNotFoundException", f"The specified resource doesn't exist: {arn}")
        tags: dict[str, str] = self._state["tags"].setdefault(arn, {})
        return tags

    def _tag(self, call: Json) -> Json:
        self._tags(call["ResourceARN"]).update(call["Tags"])
        self._save()
        return {}

    def _untag(self, call: Json) -> Json:
        tags = self._tags(call["ResourceARN"])
        for key in call["TagKeys"]:
            tags.pop(key, None)
        self._save()
        return {}

    def _save(self) -> None:
        self._file.write(self._state)


def _page(answer_key: str, found: list[Json], call: Json) -> Json:
    start = _start(call.get("NextToken"))
    end = start + call.get("MaxResults", _DEFAULT_RESULTS)
    rest = {"NextToken": str(end)} if end < len(found) else {}
    return {answer_key: found[start:end], **rest}


def _refuse_strange_resource(call: Json) -> None:
    form = _SAGEMAKER_RESOURCES.get(call["ScalableDimension"])
    if call["ServiceNamespace"] == "sagemaker" and (form is None or not form.fullmatch(call["ResourceId"])):
        raise ValidationError(
            f"Unsupported resource or dimension: got {call['ResourceId']} and {call['ScalableDimension']}; allowed in "
            "the local stack: endpoint/NAME/variant/NAME and inference-component/NAME with theirs"
        )


def _refuse_strange_action(action: Json) -> None:
    try:
        parse_schedule(action["Schedule"], action.get("Timezone", "UTC"))
    except LocalStackError as error:
        raise ValidationError(str(error)) from error
    bounds = action.get("ScalableTargetAction", {})
    least, most = bounds.get("MinCapacity"), bounds.get("MaxCapacity")
    if least is None and most is None:
        raise ValidationError("ScalableTargetAction must give MinCapacity, MaxCapacity or both")
    if least is not None and most is not None and most < least:
        raise ValidationError(f"Maximum capacity cannot be less than minimum capacity: got {least} to {most}")
    start, end = action.get("StartTime"), action.get("EndTime")
    if start is not None and end is not None and end <= start:
        raise ValidationError(f"EndTime must be after StartTime: got {start} and {end}")


def _key(call: Json) -> str:
    return "|".join(call[name] for name in _KEY)


def _resource(call: Json) -> str:
    return f"resource/{call['ServiceNamespace']}/{call['ResourceId']}"


def _not_found(called: str, call: Json) -> AwsError:
    return AwsError(
        "ObjectNotFoundException",
        f"No {called} found for service namespace: {call['ServiceNamespace']}, resource ID: {call['ResourceId']}, "
        f"scalable dimension: {call['ScalableDimension']}",
    )


def _matches(held: Json, call: Json) -> bool:
    lists: Iterable[tuple[str, str]] = (
        ("ResourceIds", "ResourceId"),
        ("PolicyNames", "PolicyName"),
        ("ScheduledActionNames", "ScheduledActionName"),
    )
    return all(held[name] == call[name] for name in _KEY if name in call) and all(
        held[field] in call[wanted] for wanted, field in lists if call.get(wanted)
    )


def _start(token: str | None) -> int:
    if token is None:
        return 0
    if not token.isdecimal():
        raise AwsError("InvalidNextTokenException", f"The next token is invalid: {token}")
    return int(token)
