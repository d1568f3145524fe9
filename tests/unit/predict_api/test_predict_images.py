"""`/v1/moderate` and `/v1/thumbnail-score`: image bytes to scores and actions, and what stands in for them."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import orjson
import pytest
from PIL import Image

from lambdas.predict.problems import Reply
from lambdas.predict.routes import Ask
from serving.errors import DeadlineExceededError, EndpointError, ModelFailedError, OverloadedError
from serving.protocol.codec import decode_request
from tests.fakes.prediction import Api


def picture(color: tuple[int, int, int] = (0, 0, 0), size: tuple[int, int] = (128, 96)) -> str:
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def post(api: Api, path: str, body: object) -> Reply:
    return api.routes.handle(Ask(method="POST", path=path, body=orjson.dumps(body), arrived_s=api.time.monotonic()))


def moderate(api: Api, **changes: object) -> dict[str, Any]:
    body = {"content_id": "c1", "title": "a cat", "image_base64": picture(), **changes}
    reply = post(api, "/v1/moderate", body)
    assert reply.status == 200, reply.body
    document: dict[str, Any] = orjson.loads(reply.body)
    return document


@pytest.mark.parametrize(
    ("title", "color", "action"),
    [("a cat", (10, 0, 0), "allow"), ("a cat", (160, 0, 0), "review"), ("bad", (0, 0, 0), "block")],
)
def test_scores_lead_to_the_action_of_the_specs_thresholds(
    title: str, color: tuple[int, int, int], action: str
) -> None:
    document = moderate(Api(), title=title, image_base64=picture(color))
    assert document["action"] == action
    assert list(document["scores"]) == ["safe", "nsfw", "violence"]
    assert document["scores"]["violence"] == pytest.approx(color[0] / 255)


def test_image_and_title_reach_the_model_as_declared() -> None:
    api = Api()
    moderate(api, title="é", image_base64=picture((1, 2, 3)))
    call = api.invoker.calls[0]
    tensors = {t.name: t.array for t in decode_request(call.body, content_type=call.content_type).inputs}
    assert (tensors["image"].shape, tensors["image"].dtype) == ((1, 64, 64, 3), np.uint8)
    assert tensors["image"][0, 0, 0].tolist() == [1, 2, 3]
    assert tensors["title"].tolist() == [["é".encode()]]


@pytest.mark.parametrize("error", [DeadlineExceededError("late"), OverloadedError("full", retry_after_s=1)])
def test_what_cannot_be_scored_in_time_is_for_review(error: Exception) -> None:
    api = Api()
    api.invoker.error = error  # type: ignore[assignment]
    document = moderate(api)
    assert (document["action"], document["scores"], document["degraded"]) == ("review", None, ["fallback_model"])


def test_a_thumbnails_score_comes_back() -> None:
    reply = post(Api(), "/v1/thumbnail-score", {"content_id": "c1", "image_base64": picture((255, 255, 255))})
    document = orjson.loads(reply.body)
    assert (reply.status, document["score"]) == (200, 1.0)


@pytest.mark.parametrize(
    ("error", "status", "name", "after"),
    [
        (OverloadedError("full", retry_after_s=3), 503, "overloaded", "3"),
        (DeadlineExceededError("late"), 503, "deadline-exceeded", "1"),
        (EndpointError("gone"), 503, "endpoint-unavailable", "1"),
        (ModelFailedError("broken"), 502, "model-failed", None),
    ],
)
def test_without_a_fallback_a_failure_is_a_problem_and_an_exposure(
    error: Exception, status: int, name: str, after: str | None
) -> None:
    api = Api()
    api.invoker.error = error  # type: ignore[assignment]
    reply = post(api, "/v1/thumbnail-score", {"content_id": "c1", "image_base64": picture()})
    document = orjson.loads(reply.body)
    assert (reply.status, document["status"]) == (status, status)
    assert document["type"] == f"urn:streamhub:problem:{name}"
    assert reply.headers.get("Retry-After") == after
    api.recorder.flush()
    assert [exposure.failed for exposure in api.sink.seen] == [True]


@pytest.mark.parametrize("text", ["", "no base 64!", base64.b64encode(b"text").decode()])
def test_a_wrong_image_is_the_clients_fault_and_no_exposure(text: str) -> None:
    api = Api()
    reply = post(api, "/v1/thumbnail-score", {"content_id": "c1", "image_base64": text})
    assert reply.status == 422
    api.recorder.flush()
    assert (api.sink.seen, api.invoker.calls) == ([], [])


def test_a_thumbnail_url_is_refused_as_not_available_here() -> None:
    reply = post(Api(), "/v1/thumbnail-score", {"content_id": "c1", "thumbnail_url": "https://cdn.example/a.jpg"})
    assert (reply.status, orjson.loads(reply.body)["type"]) == (501, "urn:streamhub:problem:not-available")
