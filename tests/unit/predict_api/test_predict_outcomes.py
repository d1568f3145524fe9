"""Outcomes and exposures: each counts once, an exposure before its outcome, nothing is lost while the sink is away."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import orjson
import pytest

from lambdas.predict import recorder as recording
from lambdas.predict.recorder import Recorder
from lambdas.predict.routes import Ask
from serving.errors import TelemetryError
from serving.prediction import ids
from serving.prediction.types import Exposure
from tests.fakes.prediction import Api, FakeSink

RANK = {"user_id": "u", "candidates": ["v1"], "context": {"hour": 6, "device": "tv", "weekend": False}}


def post(api: Api, path: str, body: object) -> tuple[int, Any]:
    reply = api.routes.handle(Ask(method="POST", path=path, body=orjson.dumps(body), arrived_s=api.time.monotonic()))
    return reply.status, orjson.loads(reply.body)


def click(api: Api, prediction_id: str, **changes: object) -> tuple[int, Any]:
    body = {"prediction_id": prediction_id, "event": "click", "occurred_at": "2026-03-04T21:00:01Z", **changes}
    return post(api, "/v1/outcomes", body)


def test_an_outcome_is_accepted_twice_and_counted_once() -> None:
    api = Api()
    _, document = post(api, "/v1/rank", RANK)
    first, second = (click(api, document["prediction_id"]) for _ in range(2))
    assert (first[0], first[1]["counted"]) == (202, True)
    assert (second[0], second[1]["counted"]) == (202, False)
    assert len(api.sink.outcomes) == 1


def test_an_exposure_is_stored_before_its_outcome() -> None:
    api = Api()
    _, document = post(api, "/v1/rank", RANK)
    assert api.sink.seen == []
    click(api, document["prediction_id"])
    assert [exposure.prediction_id for exposure in api.sink.seen] == [document["prediction_id"]]


def test_an_outcome_without_a_waiting_exposure_flushes_nothing() -> None:
    api = Api()
    _, first = post(api, "/v1/rank", RANK)
    api.recorder.flush()
    _, second = post(api, "/v1/rank", RANK)
    click(api, first["prediction_id"])
    assert second["prediction_id"] not in {exposure.prediction_id for exposure in api.sink.seen}


def test_an_id_of_a_model_that_is_not_here_is_refused() -> None:
    api = Api()
    _, document = post(api, "/v1/rank", RANK)
    ref = ids.parse(document["prediction_id"])
    status, problem = click(api, ids.make(replace(ref, model="other")))
    assert (status, problem["type"]) == (422, "urn:streamhub:problem:invalid-request")
    assert "allowed those of content_moderator, recommendation_ranker" in problem["detail"]
    assert api.sink.outcomes == []


def test_while_the_sink_is_away_outcomes_are_to_be_sent_again_and_exposures_wait() -> None:
    api = Api()
    api.sink.error = TelemetryError("away")
    _, document = post(api, "/v1/rank", RANK)
    status, problem = click(api, document["prediction_id"])
    assert (status, problem["type"]) == (503, "urn:streamhub:problem:not-stored")
    api.sink.error = None
    assert click(api, document["prediction_id"])[0] == 202
    assert len(api.sink.seen) == 1


class NotedSink(FakeSink):
    """Refuses the first batch after taking note of it."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[list[str]] = []

    def exposures(self, exposures: Any) -> None:
        self.offered.append([exposure.prediction_id for exposure in exposures])
        if len(self.offered) == 1:
            raise TelemetryError("away")
        super().exposures(exposures)


def exposures(count: int) -> list[Exposure]:
    api = Api()
    for _ in range(count):
        post(api, "/v1/rank", RANK)
    api.recorder.flush()
    return api.sink.seen


def test_a_refused_batch_is_sent_again_unchanged() -> None:
    sink = NotedSink()
    recorder = Recorder(sink)
    first, second = exposures(2)
    recorder.add(first)
    with pytest.raises(TelemetryError):
        recorder.flush()
    recorder.add(second)
    recorder.flush()
    assert sink.offered == [[first.prediction_id], [first.prediction_id], [second.prediction_id]]


def test_batches_are_bounded_and_what_is_too_much_is_dropped_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "MAX_BATCH", 2)
    monkeypatch.setattr(recording, "MAX_WAITING", 5)
    sink = FakeSink()
    recorder = Recorder(sink)
    for exposure in exposures(6):
        recorder.add(exposure)
    recorder.close()
    assert sorted(map(len, sink.batches)) == [1, 2, 2]
    assert "dropped" in caplog.text


def test_the_thread_flushes_by_itself_and_close_sends_the_rest() -> None:
    stored = threading.Event()

    class SignallingSink(FakeSink):
        def exposures(self, exposures: Any) -> None:
            super().exposures(exposures)
            stored.set()

    sink = SignallingSink()
    recorder = Recorder(sink)
    recorder.start(interval_s=0.01)
    first, second = exposures(2)
    recorder.add(first)
    assert stored.wait(timeout=30)
    recorder.add(second)
    recorder.close()
    assert len(sink.seen) == 2


def test_a_sink_that_is_away_at_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(FakeSink(error=TelemetryError("away")))
    recorder.add(exposures(1)[0])
    recorder.close()
    assert "1 exposures lost" in caplog.text
