"""Random calls, faults, restarts and time: the endpoints are what AWS's documented rules say, all the way."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from local.aws_json import Json, JsonService
from local.clock import ManualClock
from local.sagemaker.control import ControlPlane
from local.sagemaker.endpoint import Endpoint
from local.sagemaker.fleet import Fleets
from local.sagemaker.options import Options
from local.sagemaker.provisioning import Provisioner
from local.sagemaker.store import Store
from local.sagemaker.workers import Workers
from local.settings import LocalSettings
from serving.errors import EndpointError
from tests.integration.local_sagemaker.endpoint_model import DELETING_S, SCALING_S, Documented, Policy

OPTIONS = Options(
    weights_update_s=SCALING_S, deletion_s=DELETING_S, alarm_poll_s=0.5, termination_wait_s=0, bake_pace=1
)
NAMES = st.sampled_from(["e1", "e2"])
HEALTHY = st.sampled_from([True, True, True, True, False, None])
"""Whether the containers of a new fleet are healthy at once, unhealthy at once, or neither yet."""
NUMBERS = st.dictionaries(
    st.sampled_from("abc"), st.tuples(st.sampled_from([0.5, 1.0, 3.0]), st.integers(1, 4)), min_size=1
)
CHANGES = st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.integers(0, 4))
POLICIES = st.sampled_from(
    [
        Policy(),
        Policy(steps=[(0.1, 5), (1.0, 0)], termination_s=3, watched=True),
        Policy(steps=[(0.5, 4), (1.0, 0)]),
        Policy(steps=[(0.25, 2), (0.5, 2), (0.75, 2), (1.0, 0)], termination_s=1, watched=True),
        Policy(termination_s=6, watched=True),
    ]
)


def deployment_config(policy: Policy) -> Json:
    routing: Json = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": policy.steps[0][1]}
    size = {"Type": "CAPACITY_PERCENT", "Value": round(100 * policy.steps[0][0])}
    if len(policy.steps) == 2:
        routing |= {"Type": "CANARY", "CanarySize": size}
    elif len(policy.steps) > 2:
        routing |= {"Type": "LINEAR", "LinearStepSize": size}
    made: Json = {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": routing,
            "TerminationWaitInSeconds": policy.termination_s,
        }
    }
    return made | ({"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "p99"}]}} if policy.watched else {})


class Containers:
    """Provisions what the test says is healthy, when it says so."""

    def __init__(self) -> None:
        self.awaited: dict[str, asyncio.Future[bool]] = {}
        self.instances = True

    async def bring_up(self, deployment: Json, *, wait: bool, endpoint: str = "") -> dict[str, Workers]:
        config = deployment["config"]
        if wait and endpoint:
            healthy = self.awaited[config["EndpointConfigName"]] = asyncio.get_running_loop().create_future()
            if not await healthy:
                raise EndpointError("did not pass the ping health check")
        return {variant["VariantName"]: cast("Workers", object()) for variant in config["ProductionVariants"]}

    async def release(self, _servers: Any) -> None:
        pass

    async def stop(self) -> None:
        self.awaited.clear()

    def lacks_instances(self, _endpoint: Endpoint) -> bool:
        return not self.instances


class Story(RuleBasedStateMachine):
    """The control plane under a clock that this test moves, beside the calendar of what is documented."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(1_000_000.0)
        self.containers = Containers()
        self.documented = Documented()
        self.configs = 0
        self._open()
        self.call("CreateModel", ModelName="m", PrimaryContainer={"Image": "i"})

    def _open(self) -> None:
        self.store = Store(LocalSettings(state_dir=self.folder, s3_endpoint_url="http://127.0.0.1:1"))
        self.fleets = Fleets(
            self.store,
            provisioner=cast("Provisioner", self.containers),
            options=OPTIONS,
            clock=self.clock,
            alarmed=self._alarmed,
        )
        plane = ControlPlane(self.store, self.fleets, scaled=lambda _resource: False, clock=self.clock)
        self.service = JsonService("sagemaker", plane.operations())

    async def _alarmed(self, _names: Any) -> bool:
        return self.documented.ringing

    def call(self, operation: str, **parameters: Any) -> tuple[int, Json]:
        async def run() -> tuple[int, bytes]:
            answered = self.service.answer(f"SageMaker.{operation}", json.dumps(parameters).encode())
            await self.clock.advance(0)
            return answered

        status, body = self.loop.run_until_complete(run())
        assert status in {200, 400}, body
        return status, json.loads(body)

    def ask(self, *, allowed: bool, operation: str, **parameters: Any) -> bool:
        status, answer = self.call(operation, **parameters)
        assert (status == 200) == allowed, answer
        return allowed

    def config(self, numbers: dict[str, tuple[float, int]]) -> str:
        self.configs += 1
        name = f"c{self.configs}"
        variants = [
            {
                "VariantName": variant,
                "ModelName": "m",
                "InstanceType": "ml.c6i.large",
                "InitialInstanceCount": count,
                "InitialVariantWeight": weight,
            }
            for variant, (weight, count) in sorted(numbers.items())
        ]
        self.call("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=variants)
        return name

    @rule(name=NAMES, numbers=NUMBERS, healthy=HEALTHY)
    def create(self, name: str, numbers: Any, healthy: Any) -> None:
        config, allowed = self.config(numbers), self.documented.may_create(name)
        if self.ask(allowed=allowed, operation="CreateEndpoint", EndpointName=name, EndpointConfigName=config):
            self.documented.create(name, config, numbers)
            self._settle(name, healthy)

    @rule(
        name=NAMES,
        numbers=NUMBERS,
        policy=POLICIES,
        kept=st.sets(st.sampled_from(["weight", "count"])),
        healthy=HEALTHY,
        rings=st.booleans(),
        renames=st.integers(0, 3),
    )
    def update(
        self, *, name: str, numbers: Any, policy: Policy, kept: set[str], healthy: Any, rings: Any, renames: int
    ) -> None:
        known = self.documented.endpoints.get(name)
        if renames and known is not None and known.current:
            numbers = dict(zip(sorted(known.current), cycle(numbers.values()), strict=False))
        config = self.config(numbers)
        properties = {"weight": "DesiredWeight", "count": "DesiredInstanceCount"}
        excluded = [{"VariantPropertyType": kind} for key, kind in properties.items() if key not in kept]
        retain = {"RetainAllVariantProperties": True, "ExcludeRetainedVariantProperties": excluded} if kept else {}
        allowed = self.documented.may_deploy(name, numbers, policy)
        call = {"EndpointName": name, "EndpointConfigName": config}
        call |= {} if policy == Policy() else {"DeploymentConfig": deployment_config(policy)}
        if self.ask(allowed=allowed, operation="UpdateEndpoint", **call, **retain):
            self.documented.update(name, config, numbers, policy, kept)
            self._settle(name, healthy)
            if healthy and policy.watched and rings:
                self.ring(lasts=False)

    @rule(name=NAMES, data=st.data())
    def rescale(self, name: str, data: st.DataObject) -> None:
        known = self.documented.endpoints.get(name)
        variants = sorted(known.current) if known is not None and known.current else ["a"]
        changed = data.draw(st.dictionaries(st.sampled_from(variants), CHANGES, min_size=1))
        wanted = [
            {"VariantName": variant, "DesiredWeight": weight, "DesiredInstanceCount": count}
            for variant, (weight, count) in changed.items()
        ]
        call = {"EndpointName": name, "DesiredWeightsAndCapacities": wanted}
        allowed = self.documented.may_change(name)
        if self.ask(allowed=allowed, operation="UpdateEndpointWeightsAndCapacities", **call):
            self.documented.rescale(name, changed, instances=self.containers.instances)

    @rule(name=NAMES, sure=st.integers(0, 3))
    def delete(self, name: str, sure: int) -> None:
        if sure:
            return
        allowed = name in self.documented.endpoints
        if self.ask(allowed=allowed, operation="DeleteEndpoint", EndpointName=name):
            self.documented.delete(name)

    @precondition(lambda self: self._awaited())
    @rule(data=st.data(), healthy=st.sampled_from([True, True, True, False]))
    def containers_answer(self, data: st.DataObject, healthy: bool) -> None:  # noqa: FBT001 - hypothesis names it
        self._settle(data.draw(st.sampled_from(self._awaited())), healthy)

    def _settle(self, name: str, healthy: bool | None) -> None:  # noqa: FBT001 - three values
        if healthy is None:
            return
        coming = self.documented.endpoints[name].coming
        assert coming is not None
        self.containers.awaited.pop(coming.config).set_result(healthy)
        self.loop.run_until_complete(self.clock.advance(0))
        self.documented.containers(name, healthy=healthy)

    def _awaited(self) -> list[str]:
        return sorted(
            name
            for name, known in self.documented.endpoints.items()
            if known.coming is not None and known.coming.healthy_at is None
        )

    @rule(seconds=st.integers(1, 8))
    def wait(self, seconds: int) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))
        self.documented.wait(seconds)

    @rule(lasts=st.booleans())
    def ring(self, lasts: bool) -> None:  # noqa: FBT001 - hypothesis names it
        self.documented.ring()
        # half a second later at most it is seen, before anything that is due at a whole one
        self.documented.wait(0)
        self.wait(1)
        self.documented.ringing = lasts

    @rule()
    def quiet(self) -> None:
        self.documented.ringing = False

    @rule()
    def instances_run_out_or_return(self) -> None:
        self.containers.instances = not self.containers.instances

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.fleets.stop())
        self._open()

        async def resume() -> None:
            self.fleets.resume()
            await self.clock.advance(0)

        self.loop.run_until_complete(resume())

    @invariant()
    def every_endpoint_is_what_is_documented(self) -> None:
        _, listed = self.call("ListEndpoints", MaxResults=100)
        statuses = {found["EndpointName"]: found["EndpointStatus"] for found in listed["Endpoints"]}
        assert statuses == {name: known.status for name, known in self.documented.endpoints.items()}
        for name, known in self.documented.endpoints.items():
            _, shown = self.call("DescribeEndpoint", EndpointName=name)
            assert shown["EndpointConfigName"] == known.config
            if known.status == "Deleting":
                continue
            assert ("FailureReason" in shown) == known.failed_before, name
            current, desired = (
                {
                    variant["VariantName"]: (variant[f"{which}Weight"], variant[f"{which}InstanceCount"])
                    for variant in shown.get("ProductionVariants", ())
                }
                for which in ("Current", "Desired")
            )
            assert (current, desired) == (known.current, known.desired)
            pending = shown.get("PendingDeploymentSummary", {}).get("EndpointConfigName")
            coming = known.coming.config if known.coming is not None else None
            assert pending == coming

    @invariant()
    def requests_go_where_is_documented(self) -> None:
        for name in self.documented.endpoints:
            expected = self.documented.shares(name)
            route = self.fleets.routes.get(name)
            if not expected:
                if route is not None:
                    with pytest.raises(EndpointError):
                        route.choose(0.5)
                continue
            assert route is not None
            seen = Counter(
                (target.config, target.variant) for target in (route.choose((step + 0.5) / 100) for step in range(100))
            )
            assert set(seen) <= set(expected)
            assert all(abs(seen[key] - 100 * share) <= 2 for key, share in expected.items())

    def teardown(self) -> None:
        self.loop.run_until_complete(self.fleets.stop())
        self.loop.close()
        shutil.rmtree(self.folder)


def run(operations: int, *, each: int = 50) -> None:
    chosen = settings(
        max_examples=operations // each,
        stateful_step_count=each,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(Story, settings=chosen)


def test_two_hundred_random_operations_leave_what_the_documented_rules_predict() -> None:
    run(200)


@pytest.mark.soak
def test_a_thousand_random_operations_do_so_too() -> None:
    run(1000)
