"""What the runtime API says on the wire, read by botocore: streams, headers, errors, containers that misbehave."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError
from botocore.httpsession import URLLib3Session

from local.faults import make

JSON = "application/json"
STREAM = "text/event-stream"


@pytest.fixture(scope="module", name="endpoint")
def endpoint_fixture(shared: Any) -> str:
    """Give an endpoint of one variant."""
    name: str = shared.endpoint(shared.config({"a": shared.model(shared.archive("v2"))}, {"a": 1}))
    return name


@pytest.fixture(name="ask")
def ask_fixture(shared: Any, endpoint: str) -> Callable[..., Any]:
    """Give a function that invokes the endpoint with a wish."""

    def ask(**wish: Any) -> Any:
        return shared.runtime.invoke_endpoint(EndpointName=endpoint, Body=json.dumps(wish), ContentType=JSON)

    return ask


@pytest.fixture(name="stream")
def stream_fixture(shared: Any, endpoint: str) -> Iterator[Callable[..., Any]]:
    """Give a function that asks the endpoint for a stream with a wish."""
    with contextlib.ExitStack() as bodies:

        def stream(wish: dict[str, Any], **more: Any) -> Any:
            answer = shared.runtime.invoke_endpoint_with_response_stream(
                EndpointName=endpoint, Body=json.dumps(wish), ContentType=JSON, **more
            )
            bodies.callback(answer["Body"].close)
            return answer

        yield stream


@pytest.fixture(name="fault")
def fault_fixture(shared: Any) -> Iterator[Callable[[str], None]]:
    """Give a function that adds a fault of that kind; all are gone after the test."""
    yield lambda kind: shared.faults.add(make(kind))
    for fault in shared.faults.all():
        shared.faults.remove(fault.name)


def failed(call: Callable[..., Any], *given: Any, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(*given, **arguments)
    return caught.value.response  # type: ignore[return-value]


def raw(aws: Any, endpoint: str, wish: dict[str, Any], *, path: str = "invocations") -> AWSResponse:
    """Ask without botocore's parsers: the answer as it is on the wire."""
    url = f"{aws.runtime.meta.endpoint_url}/endpoints/{endpoint}/{path}"
    session = URLLib3Session()
    answer = session.send(AWSRequest("POST", url, {"Content-Type": JSON}, data=json.dumps(wish).encode()).prepare())
    session.close()
    return answer


def parts(answer: Any) -> list[str]:
    return [event["PayloadPart"]["Bytes"].decode() for event in answer["Body"]]


def test_a_stream_is_the_containers_parts_in_order(stream: Callable[..., Any]) -> None:
    answer = stream({"parts": ["one ", "two ", "three"], "give": {"x-amzn-sagemaker-custom-attributes": "c000-1"}})
    assert answer["ContentType"] == JSON
    assert answer["InvokedProductionVariant"] == "a"
    assert answer["CustomAttributes"] == "c000-1"
    assert "".join(parts(answer)) == "one two three"


def test_a_part_arrives_before_the_container_makes_the_next(stream: Callable[..., Any]) -> None:
    events = iter(stream({"parts": ["soon", "late"], "pause_s": 0.3})["Body"])
    began = time.monotonic()
    assert next(events)["PayloadPart"]["Bytes"] == b"soon"
    first = time.monotonic() - began
    assert next(events)["PayloadPart"]["Bytes"] == b"late"
    assert time.monotonic() - began - first > 0.15


def test_an_answer_without_chunks_is_a_stream_too_and_large_ones_keep_every_byte(stream: Callable[..., Any]) -> None:
    assert json.loads("".join(parts(stream({}, Accept=STREAM))))["headers"]["accept"] == STREAM
    text = "0123456789" * 100_000
    assert "".join(parts(stream({"parts": [text, "end"]}))) == f"{text}end"


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"parts": ["half"], "break": True}, "StreamBroken"),
        ({"parts": ["half", "late"], "pause_s": 2}, "ModelInvocationTimeExceeded"),
    ],
    ids=["closed", "late"],
)
def test_what_goes_wrong_in_a_stream_is_its_last_event(
    shared: Any, endpoint: str, stream: Callable[..., Any], wish: dict[str, Any], code: str
) -> None:
    events = iter(stream(wish)["Body"])
    assert next(events)["PayloadPart"]["Bytes"] == b"half"
    with pytest.raises(EventStreamError, match="ModelStreamError"):
        next(events)
    # botocore's exception keeps no ErrorCode, its decoder does
    frames = EventStreamBuffer()
    frames.add_data(raw(shared, endpoint, wish, path="invocations-response-stream").content)
    *_, last = frames
    assert (last.headers[":message-type"], last.headers[":exception-type"]) == ("exception", "ModelStreamError")
    assert json.loads(last.payload)["ErrorCode"] == code


def test_an_internal_failure_in_a_stream_is_its_last_event(
    stream: Callable[..., Any], fault: Callable[[str], None]
) -> None:
    fault("stream")
    events = iter(stream({"parts": ["half", "never"]})["Body"])
    assert next(events)["PayloadPart"]["Bytes"] == b"half"
    with pytest.raises(EventStreamError, match="InternalStreamFailure"):
        next(events)


@pytest.mark.parametrize(
    ("wish", "status"), [({"status": 503, "say": "full"}, 503), ({"raw": "nonsense"}, 0), ({"sleep_s": 2}, 0)],
    ids=["refused", "no HTTP", "late"],
)  # fmt: skip
def test_what_goes_wrong_before_a_stream_is_a_model_error(
    stream: Callable[..., Any], wish: dict[str, Any], status: int
) -> None:
    response = failed(stream, wish)
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == ("ModelError", 424)
    assert response["OriginalStatusCode"] == status


def test_a_container_that_is_asked_to_fail_fails_streams_too(
    stream: Callable[..., Any], fault: Callable[[str], None]
) -> None:
    fault("error")
    response = failed(stream, {"parts": ["never"]})
    assert (response["Error"]["Code"], response["OriginalStatusCode"]) == ("ModelError", 500)


def test_a_caller_that_leaves_a_stream_frees_the_container_at_once(start: Any, tmp_path: Path) -> None:
    with start() as aws:  # it would wait for eight minutes
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
        wish = {"parts": ["first", "never"], "until_each": str(tmp_path / "never")}
        answer = aws.runtime.invoke_endpoint_with_response_stream(
            EndpointName=endpoint, Body=json.dumps(wish), ContentType=JSON
        )
        assert next(iter(answer["Body"]))["PayloadPart"]["Bytes"] == b"first"
        assert aws.in_flight(endpoint) == 1
        answer["Body"].close()
        aws.until(lambda: not aws.in_flight(endpoint))
        (tmp_path / "never").touch()


def test_a_stream_is_measured_to_its_first_part_and_to_its_end(
    shared: Any, stream: Callable[..., Any], endpoint: str
) -> None:
    shared.flush()
    parts(stream({"parts": ["a", "b"], "pause_s": 0.2}))
    with pytest.raises(EventStreamError):
        parts(stream({"parts": ["a"], "break": True}))
    # what went wrong is counted behind the last event
    data = shared.until(lambda: len((found := shared.counted(endpoint))["MidStreamErrors"]) == 2 and found)
    assert sorted(data["MidStreamErrors"]) == [0, 1]
    assert max(data["ModelLatency"]) >= 200_000
    assert max(data["FirstChunkLatency"]) < 200_000
    assert max(data["FirstChunkModelLatency"]) <= max(data["FirstChunkLatency"])


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"raw": "SSH-2.0-OpenSSH\r\n"}, "sent no HTTP"),
        ({"raw": "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\nhalf"}, "closed the connection"),
        ({"raw": ""}, "closed the connection"),
    ],
    ids=["no HTTP", "half an answer", "nothing"],
)
def test_a_container_that_breaks_off_is_a_model_error_of_status_0(
    ask: Callable[..., Any], wish: dict[str, Any], said: str
) -> None:
    response = failed(ask, **wish)
    assert (response["Error"]["Code"], response["OriginalStatusCode"]) == ("ModelError", 0)
    assert said in response["OriginalMessage"]


def test_an_answer_that_ends_with_its_connection_is_whole(ask: Callable[..., Any]) -> None:
    answer = ask(raw="HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\n\r\n1,2\n")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"1,2\n", "text/csv")


@pytest.mark.parametrize("status", [301, 404, 429, 507])
def test_every_answer_that_is_no_2xx_is_a_model_error(ask: Callable[..., Any], status: int) -> None:
    response = failed(ask, status=status, say="no")
    assert (response["Error"]["Code"], response["OriginalStatusCode"], response["OriginalMessage"]) == (
        "ModelError", status, "no",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("throttle", ("ThrottlingException", 400)),
        ("unavailable", ("ServiceUnavailable", 503)),
        ("internal", ("InternalFailure", 500)),
        ("dependency", ("InternalDependencyException", 530)),
        ("not-ready", ("ModelNotReadyException", 429)),
    ],
    ids=["throttle", "unavailable", "internal", "dependency", "not-ready"],
)
def test_the_services_own_errors_have_the_models_codes_and_statuses(
    shared: Any, ask: Callable[..., Any], fault: Callable[[str], None], kind: str, expected: tuple[str, int]
) -> None:
    fault(kind)
    response = failed(ask)
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == expected
    operation = shared.runtime.meta.service_model.operation_model("InvokeEndpoint")
    modelled = {(shape.name, shape.metadata["error"]["httpStatusCode"]) for shape in operation.error_shapes}
    assert expected in modelled or kind == "throttle"


def test_a_throttled_call_has_a_null_message(shared: Any, endpoint: str, fault: Callable[[str], None]) -> None:
    fault("throttle")
    answer = raw(shared, endpoint, {})
    assert (answer.status_code, json.loads(answer.content)) == (400, {"message": None})
    assert answer.headers["x-amzn-errortype"] == "ThrottlingException"


def test_the_container_sees_what_is_documented_and_no_other_header(shared: Any, endpoint: str) -> None:
    given = {
        "Accept": "text/csv",
        "CustomAttributes": "deadline-ms=9",
        "InferenceId": "i-1",
        "SessionId": "NEW_SESSION",
    }
    _, answer = shared.invoke(endpoint, **given)
    seen = answer["headers"]
    named = {"custom-attributes": "deadline-ms=9", "inference-id": "i-1", "session-id": "NEW_SESSION"}
    assert {name: seen[f"x-amzn-sagemaker-{name}"] for name in named} == named
    assert seen["accept"] == "text/csv"
    assert set(seen) == {
        "host", "content-length", "content-type", "accept", *(f"x-amzn-sagemaker-{name}" for name in named),
    }  # fmt: skip


def test_the_caller_sees_the_containers_attributes_and_sessions(ask: Callable[..., Any]) -> None:
    session = "s-1; Expires=2030-01-01T00:00:00Z"
    answer = ask(
        give={
            "X-Amzn-SageMaker-Custom-Attributes": "trace=7",
            "X-Amzn-SageMaker-New-Session-Id": session,
            "X-Amzn-SageMaker-Closed-Session-Id": "s-0",
            "x-private": "not for callers",
        }
    )
    found = (answer["CustomAttributes"], answer["NewSessionId"], answer["ClosedSessionId"])
    assert found == ("trace=7", session, "s-0")
    assert "x-private" not in answer["ResponseMetadata"]["HTTPHeaders"]


@pytest.mark.parametrize(
    "given", [{"CustomAttributes": "x" * 1025}, {"InferenceId": "i" * 65}, {"SessionId": "s" * 257}],
    ids=["CustomAttributes", "InferenceId", "SessionId"],
)  # fmt: skip
def test_headers_longer_than_the_api_takes_are_refused(shared: Any, endpoint: str, given: dict[str, str]) -> None:
    response = failed(shared.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"{}", **given)
    assert response["Error"]["Code"] == "ValidationError"
    assert "length less than or equal to" in response["Error"]["Message"]
