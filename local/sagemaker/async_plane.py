"""InvokeEndpointAsync: accepts a request, says where its answer will lie, and leaves the rest to the queues."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import cast
from urllib.parse import unquote

import orjson
from botocore.model import StructureShape

from local.aws_json import (
    AwsError,
    Headers,
    Json,
    Receive,
    Scope,
    Send,
    ValidationError,
    check,
    read_body,
    send_answer,
    service_model,
)
from local.clock import Clock
from local.sagemaker.backlog import Job
from local.sagemaker.queues import Created, Submit
from local.sagemaker.targets import Targets
from local.sagemaker.wire import DEFAULT_TYPE, PREFIX, header_map, refuse, validation

_PATH = re.compile(r"/endpoints/([^/]+)/async-invocations")
_INLINE_BYTES = 128_000
"""API reference: Body of InvokeEndpointAsync; larger inputs lie in S3."""
_TTL_S = 21_600
_TIMEOUT_S = 900
"""What a request has that names neither (API reference; guide, *async-inference*)."""
_ACCEPTED = 202


def async_endpoint_of(path: str) -> str | None:
    """Give the endpoint that a path invokes asynchronously, or None."""
    match = _PATH.fullmatch(path)
    return unquote(match.group(1)) if match is not None else None


class AsyncPlane:
    """Answers InvokeEndpointAsync over the routes that the fleets keep."""

    def __init__(self, targets: Targets, *, submit: Submit, created: Created, clock: Clock) -> None:
        self._targets = targets
        self._submit = submit
        self._created = created
        self._clock = clock

    async def serve(self, endpoint: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one InvokeEndpointAsync."""
        body = await read_body(receive, limit=_INLINE_BYTES)
        try:
            if body is None:
                raise validation(f"Body: got more than {_INLINE_BYTES} bytes; put it into S3 and give InputLocation")
            job = self._job(endpoint, header_map(scope), body)
            self._submit(job)
        except AwsError as error:
            await refuse(send, error)
            return
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"x-amzn-sagemaker-outputlocation", job.output_uri.encode("latin-1")),
        ]
        if job.failure_uri:
            headers.append((b"x-amzn-sagemaker-failurelocation", job.failure_uri.encode("latin-1")))
        answer = orjson.dumps({"InferenceId": job.inference_id})
        await send_answer(send, status=_ACCEPTED, headers=headers, body=answer)

    def _job(self, endpoint: str, sent: Mapping[str, str], body: bytes) -> Job:
        config = self._targets.asynchronous(endpoint, sent)
        _refuse_unmodelled(sent)
        input_uri = sent.get(f"{PREFIX}inputlocation", "")
        if bool(input_uri) == bool(body):
            raise validation("InputLocation and Body: give exactly one of them")
        if input_uri and not input_uri.startswith("s3://"):
            raise validation(f"InputLocation: got {input_uri}; the local SageMaker reads s3:// alone")
        unique = str(uuid.uuid4())
        output = config["OutputConfig"]
        name = sent.get(f"{PREFIX}filename") or f"{unique}.out"
        extension = sent.get(f"{PREFIX}s3outputpathextension", "").strip("/")
        folder = "/".join(part for part in (output["S3OutputPath"].rstrip("/"), extension) if part)
        failures = output.get("S3FailurePath", "").rstrip("/")
        if not f"{folder}{failures}".isascii():
            raise validation(f"OutputConfig: got {folder} {failures}; headers can tell ASCII locations alone")
        headers = {"content-type": sent.get(f"{PREFIX}content-type", DEFAULT_TYPE)}
        for there, here in (("accept", "accept"), ("custom-attributes", f"{PREFIX}custom-attributes")):
            if f"{PREFIX}{there}" in sent:
                headers[here] = sent[f"{PREFIX}{there}"]
        return Job(
            id=unique,
            endpoint=endpoint,
            endpoint_created=self._created(endpoint) or 0.0,
            inference_id=sent.get(f"{PREFIX}inference-id", unique),
            headers=headers,
            input_uri=input_uri,
            body=None if input_uri else body,
            output_uri=f"{folder}/{name}",
            failure_uri=f"{failures}/{unique}-error.out" if failures else "",
            config=config,
            received_s=self._clock.now(),
            ttl_s=float(sent.get(f"{PREFIX}requestttlseconds", _TTL_S)),
            timeout_s=float(sent.get(f"{PREFIX}invocationtimeoutseconds", _TIMEOUT_S)),
        )


def _refuse_unmodelled(sent: Mapping[str, str]) -> None:
    """Raise ValidationError unless the headers fit botocore's model of the operation: ranges, lengths, patterns."""
    operation = service_model("sagemaker-runtime").operation_model("InvokeEndpointAsync")
    shape = cast("StructureShape", operation.input_shape)
    given: Json = {}
    for name, member in shape.members.items():
        value = sent.get(str(member.serialization.get("name", "")).lower())
        if member.serialization.get("location") == "header" and value is not None:
            number = member.type_name == "integer" and value.isdecimal()
            given[name] = int(value) if number else value
    try:
        check({"EndpointName": "any", **given}, shape)
    except ValidationError as error:
        raise validation(str(error)) from error
