"""InvokeEndpoint by boto3: time-outs from the caller's budget, no second try inside it, errors of our tree."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    ReadTimeoutError,
)

from serving.aws import session
from serving.errors import (
    DeadlineExceededError,
    EndpointError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    OverloadedError,
    StreamHubError,
)
from serving.ports import Invocation, InvocationResult
from serving.spec import Slot

if TYPE_CHECKING:
    from mypy_boto3_sagemaker_runtime import SageMakerRuntimeClient

RETRY_AFTER_S = 1.0
MIN_TIMEOUT_MS = 1.0
_STEP = 0.8
"""Time-outs are rounded down by this: botocore fixes a time-out a client, and each client has its own connections."""

_TOO_MANY_REQUESTS = 429
_SERVICE_UNAVAILABLE = 503
_GATEWAY_TIMEOUT = 504
_CLIENT_ERRORS = range(400, 500)


def _default_client(timeout_s: float) -> SageMakerRuntimeClient:
    made: SageMakerRuntimeClient = session.client(
        "sagemaker-runtime", read_timeout_s=timeout_s, connect_timeout_s=timeout_s, attempts=1
    )
    return made


class SageMakerInvoker:
    """Calls endpoints; safe for many threads.

    `usual_ms` is the time-out of an untroubled request: its client is made at once, those of hurried ones when needed.
    """

    def __init__(
        self, *, usual_ms: tuple[float, ...], make: Callable[[float], SageMakerRuntimeClient] = _default_client
    ) -> None:
        self._make = make
        self._lock = Lock()
        self._usual_ms = tuple(sorted(usual_ms, reverse=True))
        self._clients = {timeout_ms: make(timeout_ms / 1000) for timeout_ms in self._usual_ms}

    def invoke(self, call: Invocation) -> InvocationResult:
        """Call once.

        Raises:
            OverloadedError, DeadlineExceededError, InvalidRequestError, ModelFailedError: as their names say.
            EndpointError: unknown, unreachable or not in service.

        """
        if call.timeout_ms < MIN_TIMEOUT_MS:
            raise DeadlineExceededError(
                f"endpoint {call.endpoint}: got {call.timeout_ms:.1f} ms left; allowed {MIN_TIMEOUT_MS} or more; "
                f"the request waited too long before the call"
            )
        try:
            answer = self._client(call.timeout_ms).invoke_endpoint(**_arguments(call))
            body = answer["Body"].read()
        except (ReadTimeoutError, ConnectTimeoutError) as error:
            raise DeadlineExceededError(
                f"endpoint {call.endpoint}: got no answer in {call.timeout_ms:.0f} ms; allowed the deadline of "
                f"the model's budget; see its ModelLatency"
            ) from error
        except ClientError as error:
            raise _translated(error, call.endpoint) from error
        except BotoCoreError as error:
            raise EndpointError(
                f"endpoint {call.endpoint}: got {error}; allowed an endpoint that can be reached; "
                f"check network, region and credentials"
            ) from error
        return InvocationResult(
            body=body, content_type=answer.get("ContentType", call.accept), slot=_slot(answer, call)
        )

    def _client(self, timeout_ms: float) -> SageMakerRuntimeClient:
        rung_ms = self._rung_ms(timeout_ms)
        known = self._clients.get(rung_ms)
        if known is not None:
            return known  # making one takes longer than many a request has
        with self._lock:
            if rung_ms not in self._clients:
                self._clients[rung_ms] = self._make(rung_ms / 1000)
            return self._clients[rung_ms]

    def _rung_ms(self, timeout_ms: float) -> float:
        return max(_rounded_down(timeout_ms, usual_ms) for usual_ms in self._usual_ms)


def _rounded_down(timeout_ms: float, usual_ms: float) -> float:
    rung_ms = usual_ms
    while rung_ms > timeout_ms:
        rung_ms *= _STEP
    return rung_ms


def _arguments(call: Invocation) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "EndpointName": call.endpoint,
        "Body": call.body,
        "ContentType": call.content_type,
        "Accept": call.accept,
        "InferenceId": call.inference_id,
    }
    if call.target_slot is not None:
        arguments["TargetVariant"] = call.target_slot
    return arguments


def _slot(answer: Any, call: Invocation) -> Slot:  # noqa: ANN401 - boto3's answer
    variant = answer.get("InvokedProductionVariant", call.target_slot)
    if variant not in {"a", "b"}:
        raise EndpointError(
            f"endpoint {call.endpoint}: got variant {variant!r}; allowed a or b; deploy it with streamhub's stacks"
        )
    slot: Slot = variant
    return slot


def _translated(error: ClientError, endpoint: str) -> StreamHubError:
    """Map SageMaker's errors; a model's own status (424 ModelError) is what the container answered."""
    said = error.response.get("Error", {})
    code, message = said.get("Code", ""), said.get("Message", "")
    if code == "ModelError":
        return _model_error(error, endpoint)
    if code in {"ModelNotReadyException", "ThrottlingException", "ServiceUnavailable", "InternalDependencyException"}:
        return OverloadedError(
            f"endpoint {endpoint}: got {code}; allowed a call within its capacity; come back in {RETRY_AFTER_S:.0f} s",
            retry_after_s=RETRY_AFTER_S,
        )
    return EndpointError(
        f"endpoint {endpoint}: got {code or 'an error'} ({message}); allowed a call of an endpoint in service; "
        f"see aws sagemaker describe-endpoint"
    )


def _model_error(error: ClientError, endpoint: str) -> InferenceError:
    status = int(error.response.get("OriginalStatusCode", 500))  # type: ignore[call-overload]
    text = str(error.response.get("OriginalMessage", ""))[:200]
    if status in {_TOO_MANY_REQUESTS, _SERVICE_UNAVAILABLE}:
        return OverloadedError(f"endpoint {endpoint}: the model's queue is full ({text})", retry_after_s=RETRY_AFTER_S)
    if status == _GATEWAY_TIMEOUT:
        return DeadlineExceededError(f"endpoint {endpoint}: the model was too late ({text})")
    if status in _CLIENT_ERRORS:
        return InvalidRequestError(f"endpoint {endpoint}: the model refuses the request ({status}: {text})")
    return ModelFailedError(f"endpoint {endpoint}: the model failed ({status}: {text}); see its log")
