"""The demo, step by step; each step is what a team would do by hand, through the same code."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from cli.demo.audience import Audience, true_click_rate
from cli.demo.clock import DemoClock
from cli.demo.operator import Operator
from cli.demo.result import DemoResult
from cli.demo.traffic import Answer, Ask, send
from cli.demo.watch import Watch
from local.stack import LocalStack
from models.recommendation_ranker.world import WORLD_SEED, World
from serving.aws.http_api import SignedApi
from serving.aws.traffic import traffic_of
from serving.errors import LocalStackError
from serving.prediction import ids
from serving.prediction.types import Assignment, Traffic
from serving.release.decide import Decision, DecisionKind
from serving.release.policy import DEMO_POLICY, policy_for
from serving.release.state import ReleaseRecord
from serving.release.statistics import sample_size
from serving.spec.load import Project

RANKER = "recommendation_ranker"
CHALLENGER = "3.0.0"
CLIENTS = 12
_VISITS_SEED = 11
_POWER = 0.8
_LAMBDA_TIMEOUT_S = 60.0
_PATIENCE_S = 30.0
_PROBE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much traffic: visits a look, looks at most, requests of each other route, visits a drift window."""

    visits_a_look: int
    looks: int
    others: int
    visits_a_window: int


FULL = Pace(visits_a_look=2_000, looks=14, others=150, visits_a_window=600)
FAST = Pace(visits_a_look=1_300, looks=10, others=30, visits_a_window=300)


def tell(project: Project, result: DemoResult, *, pace: Pace, state_dir: Path, say: Callable[[str], None]) -> None:
    """Run the whole story and write what it sees into `result`; the stack is stopped however it ends."""
    world, clock = World(WORLD_SEED), DemoClock()
    audience = Audience(world=world, rng=np.random.default_rng(_VISITS_SEED))
    with LocalStack(state_dir, project.root, on_progress=say) as stack:
        steps = Steps(result, say)
        with steps("start the local AWS"):
            stack.start_services()
        with steps("package, register, deploy"):
            stack.deploy()
        with steps("load features"):
            stack.load_features()
            stack.start_api()
        os.environ.update(stack.env)
        operator = Operator.from_environment(clock=clock)
        result.models = operator.registered()
        result.truth = truth(project, world)
        story = Story(stack, pace=pace, result=result, audience=audience, operator=operator, clock=clock, say=say)
        with steps("images, titles, questions"):
            story.other_routes()
        with steps("HTTP API and Lambda, once a route"):
            story.lambda_routes(held=project.stage(result.stage).models)
        with steps("release of the ranker"):
            story.release()
        with steps("weights follow the record"):
            story.settle()
        with steps("drift"):
            story.drift(Watch.from_environment(project.model(RANKER)))
        with steps("stop"):
            stack.stop()


class Steps:
    """Shows a step and notes how long it took."""

    def __init__(self, result: DemoResult, say: Callable[[str], None]) -> None:
        self._result = result
        self._say = say

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        self._say(name)
        started = time.perf_counter()
        yield
        self._result.steps.append((name, time.perf_counter() - started))


class Story:
    """The steps that need a running stack."""

    def __init__(
        self,
        stack: LocalStack,
        *,
        pace: Pace,
        result: DemoResult,
        audience: Audience,
        operator: Operator,
        clock: DemoClock,
        say: Callable[[str], None],
    ) -> None:
        self._stack = stack
        self._pace = pace
        self._result = result
        self._audience = audience
        self._operator = operator
        self._clock = clock
        self._say = say
        self._counted: Counter[tuple[str, int]] = Counter()

    def other_routes(self) -> None:
        """Send the samples of the models that are not released here: images, titles, a question."""
        asks = [_ask(sample) for name, sample in self._stack.samples.items() if name != RANKER]
        self._send(islice(cycle(asks), self._pace.others * len(asks)))

    def lambda_routes(self, held: Container[str]) -> None:
        """Call the deployed HTTP API once a route: the same core in its other shell.

        A model that the stage does not hold is answered 501, as on AWS; the generator's stand-in serves the ASGI
        shell alone.
        """
        api = SignedApi(self._stack.http_api_url, timeout_s=_LAMBDA_TIMEOUT_S)
        for name, sample in self._stack.samples.items():
            ask = _ask(sample)
            status, _ = api.post(ask.route, ask.body)
            self._result.lambda_routes[ask.route] = status
            self._result.errors += status != (HTTPStatus.OK if name in held else HTTPStatus.NOT_IMPLEMENTED)

    def release(self) -> None:
        """Start the release of the challenger and look until it ends, or the demo's traffic does."""
        self._operator.start_release(RANKER, CHALLENGER)
        decision = Decision(kind=DecisionKind.INCONCLUSIVE, rule="the demo's traffic ended without a verdict")
        for number in range(1, self._pace.looks + 1):
            record = self._operator.record(RANKER)
            self._wait_for(record)
            self._visit(record.state.value, self._pace.visits_a_look)
            self._clock.move_on(timedelta(days=1))
            look, seen = self._operator.look(RANKER, impressions=self._counted[_stage(traffic_of(record))])
            self._result.looks.append(look)
            self._say(f"look {number}: {seen.kind.value}, {seen.rule}")
            if seen.kind not in {DecisionKind.HOLD, DecisionKind.ADVANCE}:
                decision = seen
                break
        self._result.decision = decision.kind.value
        self._result.reasons = (decision.rule, *(f"{gate.gate}: {gate.text}" for gate in decision.reasons))

    def settle(self) -> None:
        """Let the endpoint's weights follow the record, and send visits that all meet the winner."""
        if self._result.decision == DecisionKind.PROMOTE:
            record = self._operator.settled(RANKER)
            self._wait_for(record)
            self._visit(record.state.value, self._pace.visits_a_look // 4)
        self._result.weights = self._operator.weights(RANKER)
        self._result.alias = self._operator.production(RANKER)

    def drift(self, watch: Watch) -> None:
        """Compare one window of the same people, then windows of changed ones, with the version's own baseline."""
        slot = self._operator.record(RANKER).production
        for label, at in watch.windows():
            changed = label != watch.LABELS[0]
            if changed and len(self._result.windows) == 1:
                watch.change(self._audience.world)
            since = watch.opened()
            self._visit("drift", self._pace.visits_a_window)
            window = watch.close(since, slot=slot, label=label, at=at, requests=self._pace.visits_a_window)
            last = label == watch.LABELS[-1]
            state = self._operator.drift_alarm(RANKER, wanted="ALARM" if last else None)
            self._result.windows.append(replace(window, alarm_state=state))
            self._say(f"drift, {label}: {window.worst_feature} {window.score:.2f}, alarm {state}")

    def _wait_for(self, record: ReleaseRecord) -> None:
        """Send single visits until the API answers by this record: it reads the table every few seconds."""
        wanted, end = _stage(traffic_of(record)), time.monotonic() + _PATIENCE_S
        probes: list[Answer] = []
        while not probes or _stage_of(probes[-1]) != wanted:
            if time.monotonic() > end:
                raise LocalStackError(f"waited {_PATIENCE_S:g} s until the API follows the release record")
            time.sleep(_PROBE_S)
            answers = send(self._stack.api_url, self._audience.asks(1), clients=1)
            probes += [answer for answer in answers if answer.status == HTTPStatus.OK]
        self._counted[wanted] += 1

    def _visit(self, phase: str, count: int) -> None:
        """Send visits, and the clicks that they lead to."""
        clicks: list[Ask] = []
        seen: Counter[str] = Counter(self._result.by_phase.get(phase, {}))

        def note(answer: Answer) -> None:
            if answer.status == HTTPStatus.OK:
                seen[str(answer.document["variant"])] += 1
                self._counted[_stage_of(answer)] += 1
                clicks.extend(self._audience.outcomes(answer))

        self._send(self._audience.asks(count), note)
        self._result.by_phase[phase] = dict(sorted(seen.items()))
        answers = send(self._stack.api_url, clicks, clients=CLIENTS)
        self._result.outcomes += sum(answer.status == HTTPStatus.ACCEPTED for answer in answers)
        self._result.errors += sum(answer.status != HTTPStatus.ACCEPTED for answer in answers)

    def _send(self, asks: Iterable[Ask], on_answer: Callable[[Answer], None] | None = None) -> None:
        for answer in send(self._stack.api_url, asks, clients=CLIENTS, on_answer=on_answer):
            self._result.count(answer)


def truth(project: Project, world: World) -> dict[str, float]:
    """Give what the world knows and the release has to find out, and the impressions that finding out takes."""
    model = project.model(RANKER)
    base, better = (
        true_click_rate(world, project.root / "models" / RANKER / model.versions[version].weights)
        for version in ("2.0.0", CHALLENGER)
    )
    uplift = better / base - 1
    policy = policy_for(model.release, name=DEMO_POLICY)
    needed = sample_size(base, uplift, share=policy.ramp[-1], alpha=policy.alpha, power=_POWER)
    return {"base_rate": base, "uplift": uplift, "impressions_needed": needed}


def _stage(traffic: Traffic | Assignment) -> tuple[str, int]:
    return traffic.release_id, traffic.stage_index


def _stage_of(answer: Answer) -> tuple[str, int]:
    return _stage(ids.parse(str(answer.document["prediction_id"])).assignment)


def _ask(sample: dict[str, Any]) -> Ask:
    return Ask(route=sample["route"], body=sample["body"])
