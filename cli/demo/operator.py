"""What the team does during the demo: release, look, settle; through the functions' own controller."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from cli.demo.findings import Look
from cli.demo.tally import Tally
from lambdas.release.controller import PRODUCTION_ALIAS, Controller
from lambdas.release.settings import Settings, read_settings
from lambdas.release.wiring import controller
from serving.aws.alarms import CloudWatchAlarms
from serving.aws.evidence import EvidenceStore
from serving.aws.registry import S3ModelRegistry
from serving.aws.releases import DynamoReleaseStore
from serving.aws.session import client
from serving.errors import LocalStackError, ReleaseError
from serving.release.decide import Decision, DecisionKind
from serving.release.gates import uplift_gate
from serving.release.policy import DEMO_POLICY, policy_for
from serving.release.state import ReleaseRecord
from serving.spec.stage import endpoint_name
from serving.telemetry.evidence import StageEvidence

ACTOR = "demo"
PATIENCE_S = 30.0
"""How long to wait for what the local AWS does in the background: evidence, weights, alarms."""

_POLL_S = 0.2

T = TypeVar("T")


class Operator:
    """Runs releases of the deployed stage on a given clock."""

    def __init__(self, settings: Settings, *, clock: Callable[[], datetime]) -> None:
        table = client("dynamodb")
        self._settings = settings
        self._controller: Controller = controller(settings, clock=clock)
        self._store = DynamoReleaseStore(table, table=settings.state_table)
        self._evidence = EvidenceStore(table, table=settings.state_table)
        self._registry = S3ModelRegistry(settings.registry_bucket, client("s3"), clock=clock)
        self._alarms = CloudWatchAlarms(client("cloudwatch"))

    @classmethod
    def from_environment(cls, *, clock: Callable[[], datetime]) -> Operator:
        """Take tables and buckets from the environment that the local stack gives."""
        return cls(read_settings(os.environ), clock=clock)

    def start_release(self, model: str, version: str) -> None:
        """Start the release under the policy `demo` and give it its first traffic."""
        self._controller.start(model, version=version, actor=ACTOR, policy=DEMO_POLICY)
        self._until(lambda: self._tick(model), lambda record: record.live, what="the release has traffic")

    def record(self, model: str) -> ReleaseRecord:
        """Give the release record.

        Raises:
            ReleaseError: there is none.

        """
        record = self._store.get(model)
        if record is None:
            raise ReleaseError(f"model {model}: got no release; allowed one that was started; start it first")
        return record

    def look(self, model: str, *, impressions: int, visits: Tally) -> tuple[Look, Decision]:
        """Wait until that many impressions of the stage are counted, then tick once; the look notes the `visits`."""
        before, weights = self.record(model), self.weights(model)
        evidence = self._until(
            lambda: self._evidence.read(before),
            lambda seen: _impressions(seen) >= impressions,
            what=f"{impressions} impressions are counted",
        )
        step = self._controller.tick(model)
        decision = step.decision if step is not None and step.decision is not None else None
        if decision is None:
            decision = Decision(kind=DecisionKind.HOLD, rule="another controller was first")
        spec = self._settings.specs.models[model]
        uplift = uplift_gate(evidence, policy_for(spec.release, name=before.policy))
        look = Look(
            stage=before.stage_index,
            state=before.state.value,
            share=before.share,
            impressions=_impressions(evidence),
            estimate=uplift.numbers.get("uplift"),
            lower=uplift.numbers.get("lower"),
            upper=uplift.numbers.get("upper"),
            decision=decision.kind.value,
            rule=decision.rule,
            reason=decision.text,
            weights=weights,
            visits=visits,
        )
        return look, decision

    def settled(self, model: str) -> ReleaseRecord:
        """Tick until the endpoint follows the record and the release has ended."""
        return self._until(lambda: self._tick(model), lambda record: record.terminal, what="the release has ended")

    def weights(self, model: str) -> dict[str, float]:
        """Give the endpoint's weights as parts of 1, by version."""
        status = self._controller.status(model)
        if status is None:
            return {}
        weights, versions = status.endpoint.weights, self._settings.stage.models[model].versions
        total = sum(weights.values()) or 1.0
        return {versions.a: weights["a"] / total, versions.b: weights["b"] / total}

    def production(self, model: str) -> str:
        """Give the version that the alias `production` points at, "" if it points nowhere."""
        found = self._registry.alias(model, PRODUCTION_ALIAS)
        return found.version if found is not None else ""

    def registered(self) -> list[dict[str, str]]:
        """Give every version of the registry, with its archive's digest."""
        return [
            {"name": found.name, "version": found.version, "digest": found.sha256}
            for found in self._registry.versions()
        ]

    def drift_alarm(self, model: str, *, wanted: str | None) -> str:
        """Give the state of the model's drift alarm: now, or once it is the wanted one or patience ends."""
        stage, slug = self._settings.stage.name, self._settings.specs.models[model].slug
        name = f"{endpoint_name(stage, slug)}-drift"
        end = time.monotonic() + PATIENCE_S
        while (state := self._alarms.state(name)) != wanted and wanted is not None and time.monotonic() < end:
            time.sleep(_POLL_S)
        return state

    def _tick(self, model: str) -> ReleaseRecord:
        self._controller.tick(model)
        return self.record(model)

    def _until(self, read: Callable[[], T], enough: Callable[[T], bool], *, what: str) -> T:
        end = time.monotonic() + PATIENCE_S
        while not enough(found := read()):
            if time.monotonic() > end:
                raise LocalStackError(f"waited {PATIENCE_S:g} s until {what}; see the logs in the stack's folder")
            time.sleep(_POLL_S)
        return found


def _impressions(seen: StageEvidence) -> int:
    return seen.control.total_impressions + seen.challenger.total_impressions
