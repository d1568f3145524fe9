"""The HTTP API shell, the published description, the settings and the wiring."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from lambdas.predict import handler, wiring
from lambdas.predict.handler import answer
from lambdas.predict.openapi import openapi_document
from lambdas.predict.problems import KINDS, reply_of
from lambdas.predict.routes import Ask
from lambdas.predict.settings import read_settings
from serving.errors import FeatureStoreError, ModelNotFoundError, SpecError, TelemetryError
from serving.spec.bundle import SpecBundle
from tests.fakes.prediction import Api, event_of, spec_of, stage_of

MODELS = ("recommendation_ranker", "content_moderator", "thumbnail_scorer", "support_rag")
RANK = {"user_id": "u", "candidates": ["v1"], "context": {"hour": 6, "device": "tv", "weekend": False}}


def document_of(answered: dict[str, Any]) -> Any:
    return orjson.loads(answered["body"])


def test_an_event_is_answered_and_its_exposure_is_stored_before_the_answer() -> None:
    api = Api()
    answered: dict[str, Any] = answer(api.routes, event_of("POST", "/v1/rank", orjson.dumps(RANK)))
    assert (answered["statusCode"], answered["headers"]["Content-Type"]) == (200, "application/json")
    assert [row.prediction_id for row in api.sink.seen] == [document_of(answered)["prediction_id"]]


def test_an_answer_stands_when_its_exposure_cannot_be_stored_yet() -> None:
    api = Api()
    api.sink.error = TelemetryError("away")
    assert answer(api.routes, event_of("POST", "/v1/rank", orjson.dumps(RANK)))["statusCode"] == 200
    api.sink.error = None
    answer(api.routes, event_of("GET", "/healthz", None))
    assert len(api.sink.seen) == 1


def test_a_base64_body_is_read_and_a_wrong_one_refused() -> None:
    event = event_of("POST", "/v1/rank", b"")
    event["isBase64Encoded"] = True
    event["body"] = base64.b64encode(orjson.dumps(RANK)).decode()
    assert answer(Api().routes, event)["statusCode"] == 200
    for wrong in ("%%%", "é"):
        event["body"] = wrong
        assert answer(Api().routes, event)["statusCode"] == 422


def test_a_text_that_no_bytes_can_carry_is_refused() -> None:
    event = {**event_of("POST", "/v1/rank", b""), "body": "\ud800", "isBase64Encoded": False}
    assert answer(Api().routes, event)["statusCode"] == 422


def test_an_event_without_a_body_is_refused_as_no_json() -> None:
    answered: dict[str, Any] = answer(Api().routes, event_of("POST", "/v1/rank", None))
    assert (answered["statusCode"], document_of(answered)["type"]) == (422, "urn:streamhub:problem:invalid-request")


def test_a_stream_is_refused_by_name_and_a_whole_answer_as_not_available() -> None:
    body = {"session_id": "s", "question": "q"}
    names = [
        document_of(answer(Api().routes, event_of("POST", "/v1/support/answer", orjson.dumps(asked))))["type"]
        for asked in ({**body, "stream": True}, body)
    ]
    assert names == ["urn:streamhub:problem:streaming-unavailable", "urn:streamhub:problem:not-available"]


def test_a_wrong_method_says_the_right_one() -> None:
    answered: dict[str, Any] = answer(Api().routes, event_of("GET", "/v1/rank", None))
    assert (answered["statusCode"], answered["headers"]["Allow"]) == (405, "POST")


def test_what_nobody_foresaw_is_a_problem_without_insides(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    api.invoker.answer = "no array"  # type: ignore[assignment]
    reply = api.routes.handle(Ask(method="POST", path="/v1/rank", body=orjson.dumps(RANK), arrived_s=1000.0))
    assert (reply.status, orjson.loads(reply.body)["type"]) == (500, "urn:streamhub:problem:internal")
    assert b"array" not in reply.body
    assert "Traceback" in caplog.text


def test_an_error_of_the_tree_without_a_row_in_the_table_tells_nothing_inside() -> None:
    reply = reply_of(FeatureStoreError("valkeys://inside"))
    assert reply.status == 500
    assert b"inside" not in reply.body


def test_problem_types_are_unique_and_stable() -> None:
    assert sorted(kind.name for kind in KINDS) == [
        "body-too-large",
        "deadline-exceeded",
        "endpoint-unavailable",
        "internal",
        "invalid-request",
        "method-not-allowed",
        "model-failed",
        "not-available",
        "not-stored",
        "overloaded",
        "streaming-unavailable",
        "unknown-route",
    ]


def test_the_description_is_openapi_3_1_with_every_route() -> None:
    document = openapi_document()
    paths: dict[str, Any] = document["paths"]  # type: ignore[assignment]
    routes = Api().routes._routes
    assert {path: next(iter(item)).upper() for path, item in paths.items()} == {
        path: method for path, (method, _) in routes.items()
    }
    # the fields that OpenAPI 3.1.0 requires of a document, and of each operation and answer (§4.8)
    assert document["openapi"] == "3.1.0"
    assert {"title", "version"} <= set(document["info"])  # type: ignore[call-overload]
    for item in paths.values():
        for operation in item.values():
            assert operation["responses"]
            assert all("description" in response for response in operation["responses"].values())
    for schema in schemas_in(document):
        jsonschema.Draft202012Validator.check_schema(schema)


def schemas_in(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [schema for item in value for schema in schemas_in(item)]
    if not isinstance(value, dict):
        return []
    inner = [schema for item in value.values() for schema in schemas_in(item)]
    return [*inner, value["schema"]] if "schema" in value else inner


def answer_schema(path: str, status: str = "200") -> Any:
    paths: Any = openapi_document()["paths"]
    return paths[path]["post"]["responses"][status]["content"]["application/json"]["schema"]


def test_answers_and_problems_are_as_described() -> None:
    api = Api()
    ranked = document_of(answer(api.routes, event_of("POST", "/v1/rank", orjson.dumps(RANK))))
    jsonschema.validate(ranked, answer_schema("/v1/rank"))
    outcome = {"prediction_id": ranked["prediction_id"], "event": "click", "occurred_at": "2026-03-04T21:00:00Z"}
    accepted = document_of(answer(api.routes, event_of("POST", "/v1/outcomes", orjson.dumps(outcome))))
    jsonschema.validate(accepted, answer_schema("/v1/outcomes", "202"))
    problem = document_of(answer(api.routes, event_of("POST", "/v1/rank", b"{}")))
    jsonschema.validate(problem, openapi_document()["components"]["schemas"]["Problem"])  # type: ignore[index]


@pytest.fixture(name="environ")
def environ_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give the environment of a function, with its specs in a folder."""
    SpecBundle(models={name: spec_of(name) for name in MODELS}, stages={"dev": stage_of("dev")}).write(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return {
        "STREAMHUB_STAGE": "dev",
        "STREAMHUB_STATE_TABLE": "streamhub-dev-state",
        "STREAMHUB_FEATURES_URL": "valkeys://cache.example:6379",
        "STREAMHUB_SPECS_DIR": str(tmp_path),
    }


def test_wiring_calls_nothing_and_knows_the_stages_models(environ: dict[str, str]) -> None:
    routes = wiring.build(read_settings(environ))  # sockets are forbidden here
    targets = routes.service.targets
    assert set(targets) == {"/v1/rank", "/v1/moderate", "/v1/thumbnail-score"}
    assert targets["/v1/rank"].endpoint == "streamhub-dev-recommendation-ranker"
    assert targets["/v1/rank"].versions == {"a": "2.0.0", "b": "3.0.0"}
    assert targets["/v1/rank"].budget.deadline_ms == 2000
    reply = routes.handle(Ask(method="GET", path="/healthz", body=b"", arrived_s=0.0))
    assert orjson.loads(reply.body)["models"] == ["content_moderator", "recommendation_ranker", "thumbnail_scorer"]


def test_a_table_that_does_not_answer_costs_no_answer_of_the_function(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def noted(
        service: str, *, read_timeout_s: float = 20.0, connect_timeout_s: float = 3.0, attempts: int = 4
    ) -> object:
        if service == "dynamodb":
            waits.append(max(read_timeout_s, connect_timeout_s) * attempts)
        return object()

    monkeypatch.setattr("serving.aws.session.client", noted)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    handler._routes.__wrapped__()
    assert len(waits) == 2
    assert sum(waits) < 10 / 2  # of the function's time-out in stacks/api.py; the answer needs the rest


def test_a_generator_outside_the_stage_has_the_newest_version_of_its_spec(environ: dict[str, str]) -> None:
    assert wiring.generator_target(read_settings(environ)).versions == {"a": "1.0.0", "b": "1.0.0"}


def test_every_missing_name_is_told_at_once(environ: dict[str, str]) -> None:
    del environ["STREAMHUB_STAGE"], environ["STREAMHUB_STATE_TABLE"]
    with pytest.raises(SpecError) as caught:
        read_settings(environ)
    assert [problem.key for problem in caught.value.problems] == ["STREAMHUB_STAGE", "STREAMHUB_STATE_TABLE"]


def test_an_unknown_stage_and_a_forbidden_cache_are_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ModelNotFoundError, match="allowed dev"):
        read_settings({**environ, "STREAMHUB_STAGE": "mars"})
    with pytest.raises(FeatureStoreError, match="valkeys://"):
        read_settings({**environ, "STREAMHUB_FEATURES_URL": "valkey://10.0.0.1:6379"})


def test_the_function_needs_no_web_server_and_no_http_client(root: Path) -> None:
    program = (
        "import sys; import lambdas.predict.handler; "
        "print(sorted({'httpx', 'starlette', 'uvicorn', 'onnxruntime', 'aws_cdk', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
