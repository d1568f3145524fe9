"""InvokeEndpoint through botocore's own serialiser: arguments, time-outs and every error that SageMaker documents."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from serving.aws.invoker import SageMakerInvoker
from serving.errors import (
    DeadlineExceededError,
    EndpointError,
    InvalidRequestError,
    ModelFailedError,
    OverloadedError,
)
from serving.ports import Invocation
from serving.spec import Slot

URL = "https://runtime.sagemaker.us-east-1.amazonaws.com/"


def call(*, target: Slot | None = "b", timeout_ms: float = 100.0) -> Invocation:
    return Invocation(
        endpoint="streamhub-dev-ranker",
        body=b"in",
        content_type="application/json",
        accept="*/*",
        target_slot=target,
        inference_id="01J",
        timeout_ms=timeout_ms,
    )


class Clients:
    """Stubbed clients, one a time-out, as the invoker asks for them."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []
        self.client = boto3.client(
            "sagemaker-runtime",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - no secret: nothing is called
            config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
        )
        self.stub = Stubber(self.client)
        self.stub.activate()

    def make(self, timeout_s: float) -> Any:
        self.asked_s.append(timeout_s)
        return self.client

    def invoker(self) -> SageMakerInvoker:
        return SageMakerInvoker(usual_ms=(100.0, 40.0), make=self.make)


def answered(variant: str = "b") -> dict[str, Any]:
    return {
        "Body": StreamingBody(io.BytesIO(b"out"), 3),
        "ContentType": "application/json",
        "InvokedProductionVariant": variant,
    }


def expected(**more: str) -> dict[str, Any]:
    return {
        "EndpointName": "streamhub-dev-ranker",
        "Body": b"in",
        "ContentType": "application/json",
        "Accept": "*/*",
        "InferenceId": "01J",
        **more,
    }


def test_a_keyed_call_names_its_variant_and_gives_the_one_that_answered() -> None:
    clients = Clients()
    clients.stub.add_response("invoke_endpoint", answered(), expected(TargetVariant="b"))
    result = clients.invoker().invoke(call())
    assert (result.body, result.content_type, result.slot) == (b"out", "application/json", "b")


def test_a_call_without_a_unit_lets_the_weights_choose() -> None:
    clients = Clients()
    clients.stub.add_response("invoke_endpoint", answered("a"), expected())
    assert clients.invoker().invoke(call(target=None)).slot == "a"


def test_a_variant_that_is_no_slot_is_refused() -> None:
    clients = Clients()
    clients.stub.add_response("invoke_endpoint", answered("AllTraffic"))
    with pytest.raises(EndpointError, match="AllTraffic"):
        clients.invoker().invoke(call(target=None))


@pytest.mark.parametrize(
    ("code", "status", "original", "error"),
    [
        ("ModelError", 424, 500, ModelFailedError),
        ("ModelError", 424, 400, InvalidRequestError),
        ("ModelError", 424, 503, OverloadedError),
        ("ModelError", 424, 504, DeadlineExceededError),
        ("ModelNotReadyException", 429, None, OverloadedError),
        ("ThrottlingException", 429, None, OverloadedError),
        ("ServiceUnavailable", 503, None, OverloadedError),
        ("InternalDependencyException", 530, None, OverloadedError),
        ("ValidationError", 400, None, EndpointError),
        ("InternalFailure", 500, None, EndpointError),
    ],
)
def test_each_error_of_sagemaker_has_its_place_in_the_tree(
    code: str, status: int, original: int | None, error: type[Exception]
) -> None:
    clients = Clients()
    clients.stub.add_client_error(
        "invoke_endpoint",
        service_error_code=code,
        http_status_code=status,
        modeled_fields={"OriginalStatusCode": original, "OriginalMessage": "said"} if original is not None else {},
    )
    with pytest.raises(error) as caught:
        clients.invoker().invoke(call())
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ReadTimeoutError(endpoint_url=URL), DeadlineExceededError),
        (ConnectTimeoutError(endpoint_url=URL), DeadlineExceededError),
        (EndpointConnectionError(endpoint_url=URL), EndpointError),
    ],
    ids=["read", "connect", "refused"],
)
def test_a_connection_that_fails_is_late_or_unreachable(raised: Exception, error: type[Exception]) -> None:
    clients = Clients()

    def fail(**_: object) -> None:
        raise raised

    clients.client.invoke_endpoint = fail
    with pytest.raises(error):
        clients.invoker().invoke(call())


def test_the_usual_time_outs_have_their_clients_before_the_first_call() -> None:
    clients = Clients()
    clients.invoker()
    assert sorted(clients.asked_s) == [0.04, 0.1]


@pytest.mark.parametrize("left_ms", [100.0, 99.0, 40.0, 39.9, 10.0, 1.0])
def test_a_call_never_gets_more_time_than_is_left_and_at_least_four_fifths_of_it(left_ms: float) -> None:
    clients = Clients()
    clients.stub.add_response("invoke_endpoint", answered())
    invoker = clients.invoker()
    used = invoker._rung_ms(left_ms)
    assert 0.8 * left_ms <= used <= left_ms


def test_with_no_time_left_the_endpoint_is_not_called() -> None:
    clients = Clients()  # its stub refuses any call
    with pytest.raises(DeadlineExceededError):
        clients.invoker().invoke(call(timeout_ms=0.5))


def test_an_untroubled_request_does_not_wait_while_a_client_for_a_hurried_one_is_made() -> None:
    clients = Clients()
    begun, go_on = Event(), Event()

    def make(timeout_s: float) -> Any:
        if timeout_s < 0.1:
            begun.set()
            assert go_on.wait(timeout=30)
        return clients.make(timeout_s)

    invoker = SageMakerInvoker(usual_ms=(100.0,), make=make)
    with ThreadPoolExecutor(2) as threads:
        hurried = threads.submit(invoker._client, 50.0)
        assert begun.wait(timeout=30)
        usual = threads.submit(invoker._client, 100.0)
        try:
            assert usual.result(timeout=10) is clients.client
        finally:
            go_on.set()
        assert hurried.result(timeout=30) is clients.client
