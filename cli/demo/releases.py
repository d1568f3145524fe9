"""A release in the demo: visits, a look, and again, until the statistics have decided."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from cli.demo.audience import true_click_rate
from cli.demo.clock import DemoClock
from cli.demo.findings import Look, Released
from cli.demo.operator import Operator
from cli.demo.pace import Looks
from cli.demo.visitors import Stage, Visitors
from models.recommendation_ranker.world import World
from serving.aws.traffic import traffic_of
from serving.release.decide import Decision, DecisionKind
from serving.release.policy import DEMO_POLICY, policy_for
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec import ModelSpec

_UNDECIDED = Decision(kind=DecisionKind.INCONCLUSIVE, rule="the demo's traffic ended without a verdict")
_GOES_ON = frozenset({DecisionKind.HOLD, DecisionKind.ADVANCE})


class Releases:
    """Releases versions of one model by evidence, on a clock that skips the days between looks."""

    def __init__(
        self,
        model: ModelSpec,
        *,
        operator: Operator,
        visitors: Visitors,
        clock: DemoClock,
        truths: dict[str, float],
        say: Callable[[str], None],
    ) -> None:
        self._model = model
        self._operator = operator
        self._visitors = visitors
        self._clock = clock
        self._truths = truths
        self._say = say

    def release(self, version: str, *, looks: Looks, after: int) -> Released:
        """Release a version, follow the record to its end, and send `after` visits then."""
        self._operator.start_release(self._model.name, version)
        started = self._operator.record(self._model.name)
        seen, decision = self._until_decided(looks)
        if decision is not _UNDECIDED:
            self._visitors.wait_for(_stage(self._operator.settled(self._model.name)))
        return Released(
            challenger=started.challenger_version,
            production=started.production_version,
            ramp=policy_for(self._model.release, name=DEMO_POLICY).ramp,
            truth=self._truths[started.challenger_version] / self._truths[started.production_version] - 1,
            looks=tuple(seen),
            decision=decision.kind.value,
            reasons=(decision.rule, *(f"{gate.gate}: {gate.text}" for gate in decision.reasons)),
            after=self._visitors.visit(after),
            weights=self._operator.weights(self._model.name),
            alias=self._operator.production(self._model.name),
        )

    def _until_decided(self, looks: Looks) -> tuple[list[Look], Decision]:
        seen: list[Look] = []
        for number in range(1, looks.at_most + 1):
            record = self._operator.record(self._model.name)
            stage = _stage(record)
            self._visitors.wait_for(stage)
            first = not seen or seen[-1].stage != record.stage_index
            visits = self._visitors.visit(_before(record, looks, first=first), clicks=True)
            self._clock.move_on(timedelta(days=1))
            look, decision = self._operator.look(
                self._model.name, impressions=self._visitors.counted[stage], visits=visits
            )
            seen.append(look)
            self._say(_told(number, look))
            if decision.kind not in _GOES_ON:
                return seen, decision
        return seen, _UNDECIDED


def truths(model: ModelSpec, world: World, *, models: Path) -> dict[str, float]:
    """Give each version's true click rate in the simulated world: what the releases have to find out."""
    return {
        version: true_click_rate(world, models / model.name / entry.weights)
        for version, entry in model.versions.items()
    }


def _before(record: ReleaseRecord, looks: Looks, *, first: bool) -> int:
    if not first:
        return looks.further
    return looks.canary if record.state is ReleaseState.CANARY else looks.decision


def _stage(record: ReleaseRecord) -> Stage:
    traffic = traffic_of(record)
    return traffic.release_id, traffic.stage_index


def _told(number: int, look: Look) -> str:
    if look.estimate is None or look.lower is None or look.upper is None:
        return f"look {number}: {look.decision}, {look.rule}"
    bounds = f"uplift {look.estimate:+.1%} ({look.lower:+.1%} to {look.upper:+.1%})"
    return f"look {number}: {look.share:.0%} of traffic, {bounds}: {look.decision}, {look.rule}"
