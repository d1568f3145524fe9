"""Stand-ins for the ports of the prediction API, in memory, and the API built over them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import numpy as np
import orjson

from lambdas.predict.recorder import Recorder
from lambdas.predict.routes import Routes
from lambdas.predict.service import Predictions, Target
from serving.errors import DeadlineExceededError, FeatureStoreError, StreamHubError, TelemetryError
from serving.features.assembly import Layout
from serving.features.rows import Row, encode
from serving.features.views import View
from serving.ports import Invocation, InvocationResult
from serving.prediction import ids
from serving.prediction.budget import budget_of
from serving.prediction.types import Exposure, Outcome, Traffic
from serving.protocol.codec import decode_request, encode_response
from serving.protocol.tensors import Array, InferResponse, Tensor
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec import ModelSpec, Slot, StageSpec
from serving.spec.load import parse
from serving.telemetry.evidence import Evidence
from serving.telemetry.histogram import Histogram, bucket_of

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)  # a Wednesday
RELEASE = "rel-1"


def spec_of(name: str) -> ModelSpec:
    file = f"models/{name}/model.toml"
    return parse((ROOT / file).read_text(), ModelSpec, file=file)


def stage_of(name: str) -> StageSpec:
    file = f"stages/{name}.toml"
    return parse((ROOT / file).read_text(), StageSpec, file=file)


def release_record(
    *, release_id: str = RELEASE, state: ReleaseState = ReleaseState.CANARY, share: float = 0.1, stage_index: int = 1
) -> ReleaseRecord:
    """Give a release of the ranker's slot b against a, as far as `state` says."""
    return ReleaseRecord(
        release_id=release_id,
        model="recommendation_ranker",
        policy="default",
        state=state,
        production="a",
        challenger="b",
        production_version="2.0.0",
        challenger_version="3.0.0",
        stage_index=stage_index,
        share=share,
        salt=release_id,
        saved_weights={"a": 1.0, "b": 0.0},
        version=2,
        started_at=NOW,
        stage_started_at=NOW,
        updated_at=NOW,
        actor="tester",
        reason="started",
    )


def rank_model(inputs: dict[str, Array]) -> Array:
    """Score a row by its video's quality plus the user's activity: easy to redo by hand."""
    rows = inputs["features"]
    return (rows[:, 31:32] + rows[:, 8:9]).astype(np.float32)


def moderate_model(inputs: dict[str, Array]) -> Array:
    """Score red images as violence and the word bad as nsfw."""
    red = float(inputs["image"][0, :, :, 0].mean()) / 255
    bad = 0.9 if b"bad" in inputs["title"][0, 0] else 0.05
    return np.array([[1 - max(red, bad), bad, red]], dtype=np.float32)


def score_model(inputs: dict[str, Array]) -> Array:
    return np.array([[float(inputs["image"].mean()) / 255]], dtype=np.float32)


MODELS: dict[str, tuple[str, Callable[[dict[str, Array]], Array]]] = {
    "streamhub-dev-recommendation-ranker": ("score", rank_model),
    "streamhub-dev-content-moderator": ("scores", moderate_model),
    "streamhub-dev-thumbnail-scorer": ("score", score_model),
}


@dataclass
class FakeInvoker:
    """Answers in the binary protocol; `error` is raised instead; `chosen` is what the weights choose."""

    error: StreamHubError | None = None
    chosen: Slot = "b"
    answer: Array | None = None
    calls: list[Invocation] = field(default_factory=list)

    def invoke(self, call: Invocation) -> InvocationResult:
        if call.timeout_ms < 1:
            raise DeadlineExceededError("too late to call")
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        name, model = MODELS[call.endpoint]
        request = decode_request(call.body, content_type=call.content_type)
        output = self.answer if self.answer is not None else model({t.name: t.array for t in request.inputs})
        response = InferResponse(model_name=call.endpoint, model_version="1", outputs=(Tensor(name, output),))
        body, content_type = encode_response(response, binary=request.binary_output)
        slot = call.target_slot if call.target_slot is not None else self.chosen
        return InvocationResult(body=body, content_type=content_type, slot=slot)


@dataclass
class FakeFeatures:
    """Rows in a dict; `error` is raised instead."""

    rows: dict[str, bytes] = field(default_factory=dict)
    error: FeatureStoreError | None = None
    reads: int = 0

    def read(self, keys: Sequence[str], *, timeout_ms: float) -> Sequence[bytes | None]:
        self.reads += 1
        if timeout_ms <= 0:
            raise FeatureStoreError("too late to read")
        if self.error is not None:
            raise self.error
        return [self.rows.get(key) for key in keys]

    def write(self, rows: Iterable[tuple[str, bytes]], *, ttl_s: float) -> int:
        assert ttl_s > 0
        newer = 0
        for key, row in rows:
            if key not in self.rows or self.rows[key][12:20] < row[12:20]:
                self.rows[key] = row
                newer += 1
        return newer


@dataclass
class FakeTraffic:
    """One traffic for every model; `error` is raised instead."""

    now: Traffic = field(
        default_factory=lambda: Traffic(
            production="a", challenger_share=0.5, release_id=RELEASE, stage_index=1, salt="salt"
        )
    )
    error: StreamHubError | None = None

    def traffic(self, model: str) -> Traffic:
        assert model
        if self.error is not None:
            raise self.error
        return self.now


@dataclass
class FakeSink:
    """Counts in memory as the port promises: a batch once, an event of a prediction once."""

    error: TelemetryError | None = None
    batches: set[frozenset[str]] = field(default_factory=set)
    events: set[tuple[str, str]] = field(default_factory=set)
    seen: list[Exposure] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    clicks: Counter[tuple[str, str, int, Slot, int]] = field(default_factory=Counter)
    watch_s: dict[tuple[str, str, int, Slot, int], float] = field(default_factory=lambda: defaultdict(float))

    def exposures(self, exposures: Sequence[Exposure]) -> None:
        if self.error is not None:
            raise self.error
        batch = frozenset(exposure.prediction_id for exposure in exposures)
        if batch not in self.batches:
            self.batches.add(batch)
            self.seen += exposures

    def outcome(self, outcome: Outcome) -> bool:
        if self.error is not None:
            raise self.error
        ref = ids.parse(outcome.prediction_id)
        event = (outcome.prediction_id, outcome.event)
        if event in self.events:
            return False
        self.events.add(event)
        self.outcomes.append(outcome)
        put = ref.assignment
        key = (ref.model, put.release_id, put.stage_index, put.slot, put.unit_bucket)
        if put.release_id and put.keyed and outcome.event == "click":
            self.clicks[key] += 1
        if put.release_id and put.keyed and outcome.event == "watch":
            self.watch_s[key] += outcome.value
        return True

    def evidence(self, model: str, release_id: str, stage_index: int, slot: Slot) -> Evidence:
        rows = [
            row
            for row in self.seen
            if (row.model, row.assignment.release_id, row.assignment.stage_index, row.assignment.slot)
            == (model, release_id, stage_index, slot)
            and row.assignment.keyed
        ]
        seen = Counter(row.assignment.unit_bucket for row in rows)
        errors = Counter(row.assignment.unit_bucket for row in rows if row.failed)
        place = (model, release_id, stage_index, slot)
        return Evidence(
            impressions=tuple(seen[bucket] for bucket in range(256)),
            clicks=tuple(self.clicks[*place, bucket] for bucket in range(256)),
            errors=tuple(errors[bucket] for bucket in range(256)),
            watch_s=tuple(self.watch_s.get((*place, bucket), 0.0) for bucket in range(256)),
            latency=Histogram.from_counts(Counter(bucket_of(row.latency_ms) for row in rows)),
        )


@dataclass
class FakeTime:
    """A clock and a monotonic clock that move only when told."""

    at: datetime = NOW
    seconds: float = 1000.0

    def clock(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds

    def pass_ms(self, milliseconds: float) -> None:
        self.seconds += milliseconds / 1000
        self.at += timedelta(milliseconds=milliseconds)


@dataclass
class Api:
    """The API over fakes."""

    invoker: FakeInvoker = field(default_factory=FakeInvoker)
    features: FakeFeatures = field(default_factory=FakeFeatures)
    traffic: FakeTraffic = field(default_factory=FakeTraffic)
    sink: FakeSink = field(default_factory=FakeSink)
    time: FakeTime = field(default_factory=FakeTime)

    def __post_init__(self) -> None:
        numbers = count(1)
        stage = stage_of("dev")
        self.recorder = Recorder(self.sink)
        targets = {}
        for name, entry in stage.models.items():
            spec = spec_of(name)
            targets[spec.api.route] = Target(
                spec=spec,
                endpoint=f"streamhub-dev-{spec.slug}",
                versions={"a": entry.versions.a, "b": entry.versions.b},
                budget=budget_of(spec.budget, deadline_ms=entry.deadline_ms),
                layout=Layout.of(spec),
            )
        self.service = Predictions(
            targets=targets,
            invoker=self.invoker,
            features=self.features,
            traffic=self.traffic,
            recorder=self.recorder,
            clock=self.time.clock,
            monotonic=self.time.monotonic,
            random=lambda size: next(numbers).to_bytes(size, "big"),
        )
        self.routes = Routes(self.service, stage="dev")

    def load(self, view: str, rows: dict[str, dict[str, float]], *, age_s: float = 0.0) -> None:
        """Put rows into the cache; fields that are not given are 0."""
        spec = next(spec for spec in spec_of("recommendation_ranker").features if spec.view == view)
        made = View.of(spec)
        for entity, given in rows.items():
            values = np.array([given.get(name, 0.0) for name in spec.fields], dtype=np.float32)
            row = encode(made, Row(values, self.time.at - timedelta(seconds=age_s)))
            self.features.rows[made.key(entity)] = row


def event_of(method: str, path: str, body: bytes | None) -> dict[str, object]:
    """Give the event an HTTP API makes of a request (payload format 2.0, the fields that the shell reads)."""
    return {
        "version": "2.0",
        "routeKey": f"{method} {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"}},
        "body": body.decode() if body is not None else None,
        "isBase64Encoded": False,
    }


def dumps(value: object) -> bytes:
    return orjson.dumps(value)
