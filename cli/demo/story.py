"""The demo, scene by scene; each is what a team would do by hand, through the same code."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
from botocore.exceptions import BotoCoreError, ClientError

from cli.demo import promises
from cli.demo.audience import Audience
from cli.demo.clock import DemoClock
from cli.demo.display import Display
from cli.demo.findings import Deployed, Drifted, DriftWindow, Served
from cli.demo.operator import Operator
from cli.demo.outages import Outages
from cli.demo.pace import Pace
from cli.demo.promises import Promise
from cli.demo.releases import Releases, truths
from cli.demo.result import DemoResult, Scene
from cli.demo.visitors import Visitors
from cli.demo.watch import Watch
from local.environment import clean_environment
from local.stack import LocalStack
from models.recommendation_ranker.world import WORLD_SEED, World
from serving.aws.http_api import SignedApi
from serving.aws.session import client
from serving.errors import LocalStackError
from serving.spec import ModelSpec, endpoint_name
from serving.spec.load import Project

RANKER = "recommendation_ranker"
STAGE = "dev"
BETTER = "3.0.0"
WORSE = "2.0.0"
"""What production served before: against the better version it is truly the worse one."""

DEPLOY = "the dev stage"
SERVE = "traffic through the prediction API"
RELEASE_BETTER = f"release of {BETTER}, which is better"
RELEASE_WORSE = f"release of {WORSE}, which is worse"
FAULTS = "faults"
DRIFT = "drift"
TAKE_DOWN = "take everything down"

_DEPLOY_LOG = "cdk-stage.log"
_VISITS_SEED = 11
_LAMBDA_TIMEOUT_S = 60.0


def planned(*, keep: bool) -> tuple[str, ...]:
    """Give the titles of the scenes in order."""
    scenes = (DEPLOY, SERVE, RELEASE_BETTER, RELEASE_WORSE, FAULTS, DRIFT)
    return scenes if keep else (*scenes, TAKE_DOWN)


class Story:
    """Plays scenes; the first that does not keep its promises is the last, as the next ones build on it."""

    def __init__(
        self,
        project: Project,
        stack: LocalStack,
        result: DemoResult,
        *,
        state_dir: Path,
        pace: Pace,
        display: Display,
    ) -> None:
        self._state_dir = state_dir
        self._project = project
        self._stack = stack
        self._result = result
        self._pace = pace
        self._display = display
        self._model: ModelSpec = project.model(RANKER)
        self._world = World(WORLD_SEED)
        self._clock = DemoClock()

    def tell(self) -> None:
        """Play all scenes up to the drift; what they saw is in the result."""
        if not self._play(DEPLOY, self._deploy):
            return
        audience = Audience(world=self._world, rng=np.random.default_rng(_VISITS_SEED))
        self._visitors = Visitors(self._stack.api_url, audience, advance=self._display.advance)
        self._releases = Releases(
            self._model,
            operator=self._operator,
            visitors=self._visitors,
            clock=self._clock,
            truths=self._truths.result(),
            say=self._display.say,
        )
        scenes = (
            (SERVE, self._serve),
            (RELEASE_BETTER, self._release_better),
            (RELEASE_WORSE, self._release_worse),
            (FAULTS, self._faults),
            (DRIFT, self._drift),
        )
        all(self._play(title, scene) for title, scene in scenes)
        self._result.total, self._result.outcomes = self._visitors.total, self._visitors.outcomes
        self._result.routes = self._visitors.routes

    def take_down(self) -> None:
        """Play the last scene: end every process of the stack."""
        self._play(TAKE_DOWN, self._end)

    def _play(self, title: str, scene: Callable[[], Sequence[Promise]]) -> bool:
        self._display.begin(title)
        started = time.perf_counter()
        try:
            kept = scene()
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(
                f"{title}: got {error}; allowed an answer of the local AWS; see {self._state_dir / 'logs'}"
            ) from error
        played = Scene(title=title, seconds=time.perf_counter() - started, promises=tuple(kept))
        self._result.scenes.append(played)
        self._display.end(title, kept=played.kept, seconds=played.seconds, seen=played.seen)
        return played.kept

    def _deploy(self) -> Sequence[Promise]:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="beside") as beside:
            # a deploy is mostly waiting
            models = self._project.root / "models"
            self._truths = beside.submit(truths, self._model, self._world, models=models)
            self._stack.bring_up()
        # nothing of this process may reach another AWS from here on
        environment = clean_environment(self._stack.env)
        os.environ.clear()
        os.environ.update(environment)
        self._operator = Operator.from_environment(clock=self._clock)
        self._display.say(f"the stack's page: {self._stack.page_url}")
        stacks = client("cloudformation").get_paginator("describe_stacks").paginate()
        endpoints = client("sagemaker").get_paginator("list_endpoints").paginate()
        found = Deployed(
            by_cdk=(self._state_dir / "logs" / _DEPLOY_LOG).exists(),
            stacks={stack["StackName"]: stack["StackStatus"] for page in stacks for stack in page["Stacks"]},
            endpoints={
                endpoint["EndpointName"]: endpoint["EndpointStatus"]
                for page in endpoints
                for endpoint in page["Endpoints"]
            },
            models=self._operator.registered(),
        )
        self._result.deployed = found
        return promises.deployed(found)

    def _serve(self) -> Sequence[Promise]:
        samples = self._stack.samples
        others = {name: sample for name, sample in samples.items() if name != RANKER}
        routes = self._visitors.sample(others, rounds=self._pace.others) + self._visitors.visit(self._pace.after)
        found = Served(routes=routes)
        if self._pace.lambda_routes:
            held = self._project.stage(self._result.stage).models
            found = _with_function(found, self._stack.http_api_url, samples, held=held)
        self._result.served = found
        return promises.served(found)

    def _release_better(self) -> Sequence[Promise]:
        found = self._releases.release(BETTER, looks=self._pace.better, after=self._pace.after)
        self._result.better = found
        return promises.promoted(found)

    def _release_worse(self) -> Sequence[Promise]:
        found = self._releases.release(WORSE, looks=self._pace.worse, after=self._pace.after)
        self._result.worse = found
        return promises.rolled_back(found)

    def _faults(self) -> Sequence[Promise]:
        outages = Outages(
            endpoint_name(self._result.stage, self._model.slug),
            services=self._state_dir / "services",
            sagemaker=client("sagemaker"),
            visitors=self._visitors,
            pace=self._pace,
            say=self._display.say,
        )
        for kind in self._pace.outages:
            self._result.outages += (outages.meet(kind),)
        return promises.survived(self._result.outages)

    def _drift(self) -> Sequence[Promise]:
        watch = Watch.from_environment(self._model)
        slot = self._operator.record(RANKER).production
        windows: list[DriftWindow] = []
        for label, at in watch.windows():
            if len(windows) == 1:
                watch.change(self._world)
            since = watch.opened()
            self._visitors.visit(self._pace.visits_a_window)
            window = watch.close(since, slot=slot, label=label, at=at, requests=self._pace.visits_a_window)
            last = label == watch.LABELS[-1]
            state = self._operator.drift_alarm(RANKER, wanted="ALARM" if last else None)
            windows.append(replace(window, alarm_state=state))
            self._display.say(f"{label}: {window.worst_feature} PSI {window.score:.2f}, alarm {state}")
        found = Drifted(alarm_size=self._model.drift.alarm_size, windows=tuple(windows))
        self._result.drift = found
        return promises.drifted(found)

    def _end(self) -> Sequence[Promise]:
        group = self._stack.pid
        self._stack.stop()
        return promises.taken_down(left=_runs(group))


def _with_function(
    found: Served, http_api_url: str, samples: dict[str, dict[str, Any]], *, held: Container[str]
) -> Served:
    """Call the deployed HTTP API once a route: the same core in its other shell.

    A model that the stage does not hold is answered 501, as on AWS; the generator's stand-in serves the ASGI shell
    alone.
    """
    api = SignedApi(http_api_url, timeout_s=_LAMBDA_TIMEOUT_S)
    statuses = {sample["route"]: api.post(sample["route"], sample["body"])[0] for sample in samples.values()}
    wanted = {
        sample["route"]: int(HTTPStatus.OK if name in held else HTTPStatus.NOT_IMPLEMENTED)
        for name, sample in samples.items()
    }
    return replace(found, function=statuses, function_wanted=wanted)


def _runs(group: int) -> bool:
    """Say whether a process of that group runs: the supervisor leads one, and its services are in it."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
