"""What runs behind inference components: the copies that serve, those that are to follow, and the way between them.

Source: SageMaker API reference, InferenceComponentDeploymentConfig: an update moves traffic batch by batch of copies,
bakes after each, and goes back when an alarm says so or the new copies are not healthy; until then the old ones answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from local.aws_json import Json
from local.clock import Clock
from local.sagemaker.alarm_states import AlarmStates
from local.sagemaker.options import Options
from local.sagemaker.plan import Plan
from local.sagemaker.provisioning import Provisioner
from local.sagemaker.workers import Workers
from serving.errors import EndpointError

_ALARMED = "An alarm of AutoRollbackConfiguration is in ALARM."
_TIMED_OUT = "The update did not end within MaximumExecutionTimeoutInSeconds."


@dataclass(slots=True)
class _Coming:
    workers: Workers
    share: float = 0.0


class Copies:
    """The processes by component, on one event loop."""

    def __init__(self, provisioner: Provisioner, *, clock: Clock, options: Options, alarmed: AlarmStates) -> None:
        self._provisioner = provisioner
        self._clock = clock
        self._options = options
        self._alarmed = alarmed
        self._serving: dict[str, Workers] = {}
        self._coming: dict[str, _Coming] = {}

    def serves(self, name: str) -> bool:
        """Say whether the component has copies that answer."""
        return name in self._serving

    def pick(self, name: str, chance: float) -> Workers | None:
        """Give the copies that take a request: the new ones for their share of the chances in [0, 1)."""
        coming = self._coming.get(name)
        if coming is not None and chance < coming.share:
            return coming.workers
        return self._serving.get(name)

    async def revive(self, name: str, deployment: Json) -> None:
        """Bring back what served before a restart; requests wait until it is ready.

        Raises:
            EndpointError: it is not to be had.

        """
        held = await self._provisioner.bring_up(deployment, wait=False)
        self._serving[name] = held[name]

    async def move(self, name: str, deployment: Json, plan: Plan, *, endpoint: str) -> None:
        """Bring up new copies and move all traffic to them in the plan's steps; the old ones end then.

        Raises:
            EndpointError: the new copies are not healthy, an alarm took them back or time ran out; the old ones serve.

        """
        began = self._clock.now()
        held = await self._provisioner.bring_up(deployment, wait=True, endpoint=endpoint)
        coming = self._coming[name] = _Coming(held[name])
        try:
            for taken in plan.steps if name in self._serving else ():
                coming.share = taken.share
                await self._bake(plan, taken.wait_s, began=began)
        except BaseException:
            await self._end(name, [coming.workers])
            raise
        before = self._serving.get(name)
        self._serving[name] = coming.workers
        await self._end(name, [before] if before is not None else [])

    async def remove(self, name: str) -> None:
        """End all copies of a component."""
        held = self._serving.pop(name, None)
        if held is not None:
            await self._provisioner.release([held])

    async def _bake(self, plan: Plan, wait_s: float, *, began: float) -> None:
        due = self._clock.now() + wait_s
        while True:
            if plan.alarms and await self._alarmed(plan.alarms):
                raise EndpointError(_ALARMED)
            now = self._clock.now()
            if now - began > plan.timeout_s:
                raise EndpointError(_TIMED_OUT)
            if now >= due:
                return
            await self._clock.sleep(min(due - now, self._options.alarm_poll_s if plan.alarms else wait_s))

    async def _end(self, name: str, workers: Iterable[Workers]) -> None:
        del self._coming[name]
        await self._provisioner.release(workers)
