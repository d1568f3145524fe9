"""A release, played: the product's controller, weights and drift over drawn traffic, on a clock that is moved by hand.

Real are the controller with its record, gates and commands' rules, the adapter of SageMaker's weights, the control
plane's state machine, the assignment of units, drift and the alarms' rules. Drawn are requests, clicks, latencies and
inputs. Nothing waits: a week is two thousand ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import orjson

from cli.rehearsal.deployment import CANARY, rings
from cli.rehearsal.drift import DriftPlay
from cli.rehearsal.records import EvidenceCounters, Records
from cli.rehearsal.scenario import CONTROL, SCENARIOS
from cli.rehearsal.score import Checkpoint, Hour, Settings, hour_of
from cli.rehearsal.traffic import Audience, Requests
from lambdas.release.controller import Controller
from lambdas.release.outcome import Step
from local.manual_endpoint import ManualEndpoint, Surroundings
from serving.aws.endpoints import SageMakerEndpointControl
from serving.aws.traffic import traffic_of
from serving.errors import ReleaseError
from serving.release.policy import policy_for
from serving.release.state import ReleaseRecord
from serving.release.transitions import desired_weights
from serving.spec import SLOTS, ModelSpec, Slot, StageSpec, endpoint_name
from serving.spec.stage import SlotVersions, StageModel
from serving.telemetry.baseline import Baseline

BEGINS: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""A Monday; the day itself means nothing."""

CHALLENGER: Final[Slot] = "b"
TICK_S: Final = 300.0
"""How often the stage's schedule ticks a release."""

ACTOR: Final = "rehearsal"
_HOUR_S: Final = 3_600.0
_DAY_S: Final = 86_400.0


def stage_with(stage: StageSpec, model: str, version: str) -> StageSpec:
    """Give the stage as if its slot b held that version."""
    held = stage.models[model]
    return replace(
        stage, models={**stage.models, model: replace(held, versions=SlotVersions(a=held.versions.a, b=version))}
    )


class Play:
    """One rehearsal under way; `settings`, specs and baseline fix all that happens."""

    def __init__(
        self,
        settings: Settings,
        *,
        model: ModelSpec,
        stage: StageSpec,
        baseline: Baseline,
        start: Checkpoint | None = None,
    ) -> None:
        """Begin, or go on from a checkpoint.

        Raises:
            ReleaseError: the stage's slot a holds that version already.

        """
        self._settings = settings
        self._model = model
        self._scenario = SCENARIOS[settings.scenario]
        self._policy = policy_for(model.release)
        self._interval = start.interval if start is not None else 0
        self._audience = Audience(settings.seed)
        self._requests = Requests(settings.seed, peak_qps=settings.peak_qps, p99_budget_ms=model.slo.p99_ms)
        self._records = Records.of(start.entries if start is not None else ())
        self._evidence = EvidenceCounters(readable=lambda: not self._suffers("evidence"))
        self._endpoint = self._endpoint_of(stage, start)
        self._drift = DriftPlay(
            seed=settings.seed,
            model=model,
            baseline=baseline,
            slot=CHALLENGER,
            version=settings.version,
            reports=list(start.reports) if start is not None else [],
            alarm=start.drift_alarm if start is not None else "INSUFFICIENT_DATA",
        )
        self._hours = list(start.hours) if start is not None else []
        self._notes = list(start.notes) if start is not None else []
        control = cast("Any", self._endpoint)  # it answers as boto3's clients do
        self._controller = Controller(
            stage=stage_with(stage, model.name, settings.version),
            models={model.name: model},
            store=self._records,
            evidence=self._evidence,
            endpoints=SageMakerEndpointControl(control, control),
            audit=self._records,
            clock=lambda: self._now - (timedelta(days=1) if self._suffers("clock") else timedelta()),
        )
        if start is not None:
            self._evidence.restore(start.evidence)
        else:
            self._controller.start(model.name, version=settings.version, actor=ACTOR)

    def run(self, days: float, *, on_hour: Callable[[Hour], None] = lambda _hour: None) -> Checkpoint:
        """Play until that many days have passed since the start, and give where it stands then."""
        while self._interval * TICK_S < days * _DAY_S:
            before = len(self._hours)
            self._pass_interval()
            for hour in self._hours[before:]:
                on_hour(hour)
        return self._checkpoint()

    @property
    def _now(self) -> datetime:
        return BEGINS + timedelta(seconds=self._interval * TICK_S)

    @property
    def _day(self) -> float:
        return self._interval * TICK_S / _DAY_S

    @property
    def _record(self) -> ReleaseRecord:
        record = self._records.get(self._model.name)
        if record is None:
            raise ReleaseError(f"rehearsal of {self._model.name}: got no record; allowed one that was started")
        return record

    def _suffers(self, kind: str) -> bool:
        return any(fault.kind == kind and fault.active(self._day) for fault in self._settings.faults)

    def _pass_interval(self) -> None:
        """Let requests come, then let all that is due happen in the order in which AWS's own clocks would."""
        traffic = traffic_of(self._record)
        self._interval += 1
        self._requests.count(
            self._audience,
            traffic,
            {one: self._scenario if one == CHALLENGER else CONTROL for one in SLOTS},
            self._evidence.of(traffic),
            at=self._now,
            number=self._interval,
            seconds=TICK_S,
        )
        self._deploy_if_asked()
        self._tick_endpoint()
        if not self._suffers("silence"):
            self._note(self._controller.tick(self._model.name))
        if self._begins_anew(self._model.drift.window_s) and self._weight() > 0:
            begins = self._scenario.drifts_on_day
            self._drift.run(self._now, number=self._interval, drifted=begins is not None and self._day > begins)
        if self._begins_anew(_HOUR_S):
            self._hours.append(self._look())

    def _begins_anew(self, every_s: float) -> bool:
        """Say whether an hour or a window ended within the last interval."""
        seconds = self._interval * TICK_S
        return seconds // every_s > (seconds - TICK_S) // every_s

    def _tick_endpoint(self) -> None:
        before = self._endpoint.endpoint
        self._endpoint.tick()
        after = self._endpoint.endpoint
        if before.rollout is not None and after.rollout is None:
            config = before.rollout.fleet.config
            self._write_down(f"{config}: {'deployed' if after.config == config else 'taken back by its alarm'}")

    def _deploy_if_asked(self) -> None:
        asked = sum(fault.kind == "deployment" and fault.day <= self._day for fault in self._settings.faults)
        made = self._endpoint.endpoint.fleets_made - 1
        if made < asked and self._endpoint.endpoint.status == "InService":
            self._endpoint.deploy(f"{self._endpoint.endpoint.name}-{made + 2}", CANARY)

    def _endpoint_of(self, stage: StageSpec, start: Checkpoint | None) -> ManualEndpoint:
        def clock() -> float:
            return self._now.timestamp()

        if start is not None:
            found = ManualEndpoint.of_document(orjson.loads(start.endpoint), clock=clock)
        else:
            most, least = counts_of(stage.models[self._model.name], self._model)
            name = endpoint_name(stage.name, self._model.slug)
            found = ManualEndpoint.serving(name, {"a": (1.0, most), CHALLENGER: (0.0, least)}, clock=clock)
        found.meets = Surroundings(
            capacity=lambda: not self._suffers("capacity"),
            alarmed=lambda names: any(rings(name, self._now) for name in names),
        )
        return found

    def _weight(self) -> float:
        fleet = self._endpoint.endpoint.fleet
        return _part({variant.name: variant.weight for variant in fleet.variants} if fleet is not None else {})

    def _note(self, step: Step | None) -> None:
        """Write down what a tick says beside its move; what it says again and again is one note."""
        said = [*step.notes] if step is not None else []
        if step is not None and step.decision is not None and step.decision.rule.startswith("would "):
            said.append(step.decision.rule)
        for text in said:
            self._write_down(text)

    def _write_down(self, text: str) -> None:
        if not any(note.endswith(text) for note in self._notes[-2:]):
            self._notes.append(f"{self._now:%Y-%m-%d %H:%M} {text}")

    def _look(self) -> Hour:
        record = self._record
        return hour_of(
            record,
            self._evidence.seen(record) if record.live else None,
            self._policy,
            at=self._now,
            day=self._day,
            share=_part(desired_weights(record)),
            weight=self._weight(),
            status=self._endpoint.endpoint.status,
            drift=self._drift.reports[-1] if self._drift.reports else None,
            drift_alarm=self._drift.alarm,
        )

    def _checkpoint(self) -> Checkpoint:
        entries = self._records.history(self._model.name, limit=len(self._records.entries))
        return Checkpoint(
            settings=self._settings,
            interval=self._interval,
            entries=tuple(reversed(entries)),
            evidence=self._evidence.kept(),
            endpoint=orjson.dumps(self._endpoint.document()).decode(),
            reports=tuple(self._drift.reports),
            drift_alarm=self._drift.alarm,
            hours=tuple(self._hours),
            notes=tuple(self._notes),
        )


def _part(weights: Mapping[Any, float]) -> float:
    """Give the rehearsed version's part of relative weights by slot."""
    total = sum(weights.values())
    return weights.get(CHALLENGER, 0.0) / total if total > 0 else 0.0


def counts_of(held: StageModel, model: ModelSpec) -> tuple[int, int]:
    """Give the instances of production at its peak, and those that the other slot waits with."""
    most = held.max_count if held.max_count is not None else model.hosting.max_count
    least = held.min_count if held.min_count is not None else model.hosting.min_count
    return most, least
