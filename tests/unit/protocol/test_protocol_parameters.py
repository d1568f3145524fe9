"""What `parameters` may ask for: NVIDIA's client writes the requests, its protocol extensions say what they mean."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

from serving.errors import InvalidRequestError
from serving.protocol import codec
from serving.protocol.tensors import InferRequest, InferResponse, Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # gevent warns on import about what it patches
    import tritonclient.http as triton


def body(outputs: list[Any] | None = None, **options: Any) -> tuple[bytes, int | None]:
    tensor = triton.InferInput("x", [1], "FP32")
    tensor.set_data_from_numpy(np.ones(1, dtype=np.float32), binary_data=False)
    return triton.InferenceServerClient.generate_request_body([tensor], outputs=outputs, **options)


def decoded(outputs: list[Any] | None = None, **options: Any) -> InferRequest:
    data, size = body(outputs, **options)
    return codec.decode_request_parts(data, header_bytes=size)


def test_each_output_is_binary_or_not_as_it_was_asked_for() -> None:
    asked = [triton.InferRequestedOutput(name, binary_data=raw) for name, raw in (("a", True), ("b", False))]
    request = decoded(asked)
    assert (request.outputs, request.binary_output, request.binary_names) == (("a", "b"), False, frozenset({"a"}))
    assert decoded(asked[:1]).binary_output
    assert not decoded(asked[1:]).binary_output
    assert decoded().binary_output, "its client asks for all in binary where it names none"


def test_an_answer_may_be_half_json_half_raw() -> None:
    outputs = (Tensor("a", np.arange(3, dtype="<i4")), Tensor("b", np.array([0.5], dtype="<f4")))
    response = InferResponse(model_name="m", model_version="1", outputs=outputs)
    data, size = codec.encode_response_parts(response, binary=False, names=frozenset({"a"}))
    result = triton.InferenceServerClient.parse_response_body(data, header_length=size)
    np.testing.assert_array_equal(result.as_numpy("a"), [0, 1, 2])
    np.testing.assert_array_equal(result.as_numpy("b"), [0.5])
    assert "data" in result.get_output("b")
    assert "data" not in result.get_output("a")


def test_a_timeout_is_microseconds_and_a_priority_changes_nothing() -> None:
    assert decoded(timeout=1500, priority=2).timeout_us == 1500
    assert decoded().timeout_us == 0
    assert decoded(parameters={"my_own": "x"}).timeout_us == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sequence_id": 5}, "sequence_id"),
        ({"sequence_id": "user-1", "sequence_start": True}, "keep no state"),
        ({"outputs": [triton.InferRequestedOutput("a", class_count=3)]}, "classification"),
    ],
    ids=["sequence", "named sequence", "classification"],
)
def test_an_extension_that_is_not_here_is_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        decoded(**options)


def test_shared_memory_is_refused_by_name() -> None:
    tensor = triton.InferInput("x", [1], "FP32")
    tensor.set_shared_memory("region", 4)
    data, size = triton.InferenceServerClient.generate_request_body([tensor])
    with pytest.raises(InvalidRequestError, match=r"'x'.*shared"):
        codec.decode_request_parts(data, header_bytes=size)
    output = triton.InferRequestedOutput("y")
    output.set_shared_memory("region", 4)
    with pytest.raises(InvalidRequestError, match=r"'y'.*shared"):
        decoded([output])


WRONG = [
    ({"timeout": -1}, "timeout"),
    ({"timeout": 1.5}, "timeout"),
    ({"timeout": True}, "timeout"),
    ({"timeout": "1"}, "timeout"),
    ({"binary_data_output": 1}, "binary_data_output"),
    ({"stream": "yes"}, "stream"),
    ([], "parameters"),
]


@pytest.mark.parametrize(("parameters", "text"), WRONG, ids=str)
def test_a_parameter_of_the_wrong_type_is_named(parameters: object, text: str) -> None:
    document = json.loads(body()[0]) | {"parameters": parameters}
    with pytest.raises(InvalidRequestError, match=text):
        codec.decode_request_parts(json.dumps(document).encode(), header_bytes=None)


def test_what_is_encoded_is_decoded() -> None:
    sent = InferRequest(
        id="r",
        inputs=(Tensor("x", np.zeros(1, dtype="<f4")),),
        outputs=("a", "b"),
        binary_names=frozenset({"b"}),
        timeout_us=7,
        stream=True,
    )
    data, kind = codec.encode_request(sent, binary=True)
    got = codec.decode_request(data, content_type=kind)
    fields = ("id", "outputs", "binary_output", "binary_names", "timeout_us", "stream")
    assert [getattr(got, name) for name in fields] == [getattr(sent, name) for name in fields]
