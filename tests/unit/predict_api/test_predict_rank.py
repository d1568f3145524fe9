"""`/v1/rank` from body to answer: order, variant, features, fallbacks and the one exposure."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from lambdas.predict.problems import Reply
from lambdas.predict.routes import Ask
from serving.errors import (
    DeadlineExceededError,
    EndpointError,
    FeatureStoreError,
    InvalidRequestError,
    ModelFailedError,
    OverloadedError,
    ReleaseError,
)
from serving.prediction import ids
from serving.prediction.types import Traffic
from serving.protocol.codec import decode_request
from tests.fakes.prediction import NOW, RELEASE, Api

BODY: dict[str, Any] = {
    "user_id": "user_1",
    "candidates": ["v1", "v2", "v3"],
    "context": {"hour": 6, "device": "mobile", "weekend": True},
}


def rank(api: Api, body: object) -> Reply:
    return api.routes.handle(
        Ask(method="POST", path="/v1/rank", body=orjson.dumps(body), arrived_s=api.time.monotonic())
    )


def answer(api: Api, body: object = BODY) -> dict[str, Any]:
    reply = rank(api, body)
    assert reply.status == 200, reply.body
    document: dict[str, Any] = orjson.loads(reply.body)
    return document


@pytest.fixture(name="api")
def api_fixture() -> Api:
    """Give the API with rows for the user and all candidates."""
    api = Api()
    api.load("user_profile", {"user_1": {"activity": 0.5}})
    api.load(
        "video_stats",
        {
            "v1": {"quality": 0.1, "popularity": 3},
            "v2": {"quality": 0.3, "popularity": 1},
            "v3": {"quality": 0.2, "popularity": 2},
        },
    )
    return api


def test_candidates_come_back_best_first_with_the_models_scores(api: Api) -> None:
    document = answer(api)
    assert [item["video_id"] for item in document["items"]] == ["v2", "v3", "v1"]
    assert [item["score"] for item in document["items"]] == pytest.approx([0.8, 0.7, 0.6])
    assert "degraded" not in document


def test_equal_scores_keep_the_order_of_the_request(api: Api) -> None:
    api.invoker.answer = np.full((3, 1), 0.5, dtype=np.float32)
    assert [item["video_id"] for item in answer(api)["items"]] == ["v1", "v2", "v3"]


def test_the_endpoint_gets_user_video_and_context_columns_in_the_declared_order(api: Api) -> None:
    answer(api)
    call = api.invoker.calls[0]
    tensor = decode_request(call.body, content_type=call.content_type).inputs[0]
    assert tensor.name == "features"
    assert tensor.array.shape == (3, 36)
    assert tensor.array[:, 8].tolist() == [0.5, 0.5, 0.5]  # activity, the ninth of the user's
    assert tensor.array[:, 24].tolist() == [3, 1, 2]  # popularity, the ninth of the video's
    # six in the morning: a quarter of the circle
    assert tensor.array[0, 32:].tolist() == pytest.approx([1.0, 0.0, 1.0, 1.0], abs=1e-6)


def test_a_unit_keeps_its_variant_and_both_variants_get_units(api: Api) -> None:
    variants = {
        user: {answer(api, {**BODY, "user_id": user})["variant"] for _ in range(3)} for user in map(str, range(40))
    }
    assert all(len(seen) == 1 for seen in variants.values())
    assert set.union(*variants.values()) == {"a", "b"}


def test_model_version_is_the_one_of_the_variant_in_the_stage_file(api: Api) -> None:
    versions = {
        (d["variant"], d["model_version"]) for d in (answer(api, {**BODY, "user_id": str(n)}) for n in range(40))
    }
    assert versions == {("a", "2.0.0"), ("b", "3.0.0")}


def test_a_keyed_request_names_its_variant_to_the_endpoint_and_an_unkeyed_one_does_not(api: Api) -> None:
    document = answer(api)
    assert api.invoker.calls[-1].target_slot == document["variant"]
    anonymous = answer(api, {**BODY, "user_id": None})
    assert api.invoker.calls[-1].target_slot is None
    assert (anonymous["variant"], anonymous["model_version"]) == ("b", "3.0.0")  # what the weights chose
    assert anonymous["degraded"] == ["features_default"]


def test_the_prediction_id_says_the_assignment_and_its_unique_part_goes_to_the_endpoint(api: Api) -> None:
    document = answer(api)
    ref = ids.parse(document["prediction_id"])
    assert (ref.model, ref.version, ref.assignment.slot) == (
        "recommendation_ranker",
        document["model_version"],
        document["variant"],
    )
    assert (ref.assignment.release_id, ref.assignment.stage_index, ref.weight) == (RELEASE, 1, 0.5)
    assert api.invoker.calls[0].inference_id == ref.unique
    assert len(ref.unique) <= 64  # SageMaker's limit for an InferenceId


def test_every_request_is_one_exposure_with_its_latency(api: Api) -> None:
    document = answer(api)
    api.recorder.flush()
    [exposure] = api.sink.seen
    assert (exposure.prediction_id, exposure.failed, exposure.at) == (document["prediction_id"], False, NOW)


def test_missing_and_stale_rows_become_defaults_and_the_answer_says_so(api: Api) -> None:
    api.load("video_stats", {"v2": {"quality": 0.3}}, age_s=3601)  # one second older than the spec allows
    document = answer(api, {**BODY, "candidates": ["v1", "v2", "unknown"]})
    assert document["degraded"] == ["features_default"]
    assert {item["video_id"]: item["score"] for item in document["items"]} == pytest.approx(
        {"v1": 0.6, "v2": 0.5, "unknown": 0.5}
    )


def test_without_a_feature_cache_the_model_answers_on_defaults(api: Api) -> None:
    api.features.error = FeatureStoreError("down")
    document = answer(api)
    assert document["degraded"] == ["features_default"]
    assert [item["score"] for item in document["items"]] == [0, 0, 0]


def test_a_context_that_is_left_out_is_taken_from_the_clock_and_said(api: Api) -> None:
    document = answer(api, {key: value for key, value in BODY.items() if key != "context"})
    assert document["degraded"] == ["context_default"]
    call = api.invoker.calls[0]
    context = decode_request(call.body, content_type=call.content_type).inputs[0].array[0, 32:]
    # 21:00 on a Wednesday: three quarters of half a turn before midnight
    assert context.tolist() == pytest.approx([-np.sqrt(0.5), np.sqrt(0.5), 0, 0], abs=1e-6)


@pytest.mark.parametrize(
    "error",
    [
        OverloadedError("full", retry_after_s=1),
        DeadlineExceededError("late"),
        ModelFailedError("broken"),
        EndpointError("gone"),
        InvalidRequestError("refused by the container"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_when_the_endpoint_fails_candidates_come_in_order_of_popularity(api: Api, error: Exception) -> None:
    api.invoker.error = error  # type: ignore[assignment]
    document = answer(api)
    assert document["degraded"] == ["fallback_model"]
    assert document["items"] == [{"video_id": video, "score": None} for video in ("v1", "v3", "v2")]
    api.recorder.flush()
    assert [exposure.failed for exposure in api.sink.seen] == [True]


@pytest.mark.parametrize(
    "nonsense",
    [
        np.zeros((2, 1), dtype=np.float32),
        np.full((3, 1), np.nan, dtype=np.float32),
        np.zeros((3, 1), dtype=np.float64),
    ],
    ids=["rows", "nan", "type"],
)
def test_nonsense_of_a_model_is_a_failure_and_never_an_answer(api: Api, nonsense: np.ndarray[Any, Any]) -> None:
    api.invoker.answer = nonsense
    assert answer(api)["degraded"] == ["fallback_model"]
    api.recorder.flush()
    assert [exposure.failed for exposure in api.sink.seen] == [True]


def test_without_a_release_record_the_endpoints_weights_choose_and_nothing_is_evidence(api: Api) -> None:
    api.traffic.error = ReleaseError("unreadable")
    document = answer(api)
    assert api.invoker.calls[0].target_slot is None
    assert document["degraded"] == ["traffic_unknown"]
    assert not ids.parse(document["prediction_id"]).assignment.keyed


def test_a_promoted_challenger_has_all_keyed_traffic(api: Api) -> None:
    api.traffic.now = Traffic(production="b", challenger_share=0.0, release_id="", stage_index=0, salt="s")
    assert {answer(api, {**BODY, "user_id": str(number)})["variant"] for number in range(30)} == {"b"}


def test_the_call_gets_what_is_left_of_the_deadline_and_no_more(api: Api) -> None:
    arrived_s = api.time.monotonic()
    api.time.pass_ms(1500)  # waited in a queue
    api.routes.handle(Ask(method="POST", path="/v1/rank", body=orjson.dumps(BODY), arrived_s=arrived_s))
    # dev's deadline is 2000 ms; 2 of the spec's 2 + 8 + 2 ms are overhead, half of it after the call
    assert api.invoker.calls[0].timeout_ms == pytest.approx(2000 - 2000 / 12 - 1500)


def test_every_fault_of_a_body_is_told_at_once(api: Api) -> None:
    reply = rank(
        api,
        {"user_id": 7, "candidates": ["v1", "", "v1"], "context": {"hour": 24, "device": "fridge"}, "extra": 1},
    )
    document = orjson.loads(reply.body)
    assert (reply.status, reply.content_type) == (422, "application/problem+json")
    assert document["type"] == "urn:streamhub:problem:invalid-request"
    assert {error["field"] for error in document["errors"]} == {
        "user_id",
        "candidates[1]",
        "candidates",
        "context.hour",
        "context.device",
        "extra",
    }


@pytest.mark.parametrize("count", [0, 501])
def test_a_request_has_1_to_500_candidates(api: Api, count: int) -> None:
    reply = rank(api, {**BODY, "candidates": [f"v{index}" for index in range(count)]})
    assert reply.status == 422


def test_500_candidates_are_one_read_and_one_call(api: Api) -> None:
    videos = [f"w{index}" for index in range(500)]
    api.load("video_stats", {video: {"quality": index / 500} for index, video in enumerate(videos)})
    document = answer(api, {**BODY, "candidates": videos})
    assert [item["video_id"] for item in document["items"]] == videos[::-1]
    assert (api.features.reads, len(api.invoker.calls)) == (1, 1)


def test_a_request_that_is_past_its_deadline_is_answered_without_a_read_or_a_call(api: Api) -> None:
    arrived_s = api.time.monotonic()
    api.time.pass_ms(2_100)
    reply = api.routes.handle(Ask(method="POST", path="/v1/rank", body=orjson.dumps(BODY), arrived_s=arrived_s))
    assert api.invoker.calls == []
    assert orjson.loads(reply.body)["degraded"] == ["features_default", "fallback_model"]
