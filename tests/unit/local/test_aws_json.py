from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local.aws_json import AwsError, Json, JsonService
from local.state_file import StateFile
from serving.errors import LocalStackError


def call(handler: Any, name: str, body: bytes) -> tuple[int, Json]:
    status, answer = JsonService("sagemaker", {name: handler}).answer(f"SageMaker.{name}", body)
    return status, json.loads(answer)


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("DescribeModel", {}, "ModelName"),
        ("DescribeModel", {"ModelName": 7}, "ModelName"),
        ("DescribeModel", {"ModelName": "m", "Colour": "red"}, "Colour"),
        ("DescribeModel", {"ModelName": "no spaces"}, "'ModelName' failed to satisfy constraint: Member must"),
        ("DescribeModel", {"ModelName": "m" * 64}, "length less than or equal to 63"),
        ("ListEndpoints", {"SortBy": "Size"}, "enum value set: [Name, CreationTime, Status]"),
        ("ListEndpoints", {"MaxResults": 101}, "less than or equal to 100"),
        ("ListEndpoints", {"MaxResults": 0}, "MaxResults"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_a_validation_exception_that_names_them(name: str, params: Json, said: str) -> None:
    status, answer = call(lambda _: pytest.fail("it was called"), name, json.dumps(params).encode())
    assert (status, answer["__type"]) == (400, "ValidationException")
    assert said in answer["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"'])
def test_a_body_that_is_no_object_is_a_serialization_exception(body: bytes) -> None:
    status, answer = call(lambda _: {}, "ListModels", body)
    assert (status, answer["__type"]) == (400, "SerializationException")


def test_an_answer_that_does_not_fit_the_model_is_refused_before_a_client_sees_it() -> None:
    status, answer = call(lambda _: {"Models": "none"}, "ListModels", b"{}")
    assert (status, answer["__type"]) == (500, "InternalFailure")
    assert "Models" in answer["message"]


def test_a_handlers_own_error_reaches_the_client_with_its_code_and_status() -> None:
    def handler(_: Json) -> Json:
        raise AwsError("ResourceLimitExceeded", "too many", status=429)

    assert call(handler, "ListModels", b"") == (429, {"__type": "ResourceLimitExceeded", "message": "too many"})


def test_a_fault_is_an_internal_failure_not_a_broken_connection() -> None:
    def handler(_: Json) -> Json:
        raise KeyError("x")

    status, answer = call(handler, "ListModels", b"{}")
    assert (status, answer["__type"]) == (500, "InternalFailure")


def test_a_state_is_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.json"
    file = StateFile(path, ["a", "b"])
    assert file.read() == {"a": {}, "b": {}}
    file.write({"a": {"x": 1}, "b": {}})
    assert StateFile(path, ["a", "b"]).read() == {"a": {"x": 1}, "b": {}}
    assert [entry.name for entry in path.parent.iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2, "a": {}}', '{"format": 1}'])
def test_a_foreign_state_file_is_refused_with_its_path_and_the_fix(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    with pytest.raises(LocalStackError, match=r"state\.json: .*delete the file to start anew"):
        StateFile(path, ["a"]).read()
