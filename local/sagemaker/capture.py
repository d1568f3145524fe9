"""Data capture: sampled requests and answers as JSON lines in S3, in SageMaker's record format."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.sagemaker.options import Options
from local.sagemaker.places import place_of
from local.sagemaker.routes import CaptureRule, Target

EVENT_VERSION = "0"
_MOST_BUFFERED_BYTES = 64 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answered request."""

    content_type: str
    body: bytes
    answer_type: str
    answer: bytes
    inference_id: str | None
    at: datetime


def record(rule: CaptureRule, exchange: Exchange, *, event_id: str) -> bytes:
    """Give the line that SageMaker writes for an exchange, without its end."""
    captured: Json = {}
    if rule.input:
        captured["endpointInput"] = _side(rule, "INPUT", exchange.content_type, exchange.body)
    if rule.output:
        captured["endpointOutput"] = _side(rule, "OUTPUT", exchange.answer_type, exchange.answer)
    metadata = {"eventId": event_id, "inferenceTime": exchange.at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    if exchange.inference_id is not None:
        metadata["inferenceId"] = exchange.inference_id
    return orjson.dumps({"captureData": captured, "eventMetadata": metadata, "eventVersion": EVENT_VERSION})


def object_key(prefix: str, *, endpoint: str, variant: str, at: datetime, unique: str) -> str:
    """Give where a file of captured lines goes below the destination."""
    folder = f"{endpoint}/{variant}/{at:%Y/%m/%d/%H}/{at:%M-%S}-{at.microsecond // 1000:03d}-{unique}.jsonl"
    return f"{prefix}/{folder}" if prefix else folder


def _side(rule: CaptureRule, mode: str, content_type: str, data: bytes) -> Json:
    encoding, text = _encoded(rule, content_type, data)
    return {"observedContentType": content_type, "mode": mode, "data": text, "encoding": encoding}


def _encoded(rule: CaptureRule, content_type: str, data: bytes) -> tuple[str, str]:
    kind = content_type.partition(";")[0].strip().lower()
    encoding = "JSON" if kind in rule.json_types else "CSV" if kind in rule.csv_types else "BASE64"
    if encoding != "BASE64":
        with contextlib.suppress(UnicodeDecodeError):
            return encoding, data.decode()
    return "BASE64", base64.b64encode(data).decode()


@dataclass(slots=True)
class _File:
    bucket: str
    prefix: str
    endpoint: str
    variant: str
    lines: list[bytes]
    size: int
    since: datetime


class Capture:
    """Buffers lines by variant and writes them every second, at a megabyte, and when it stops."""

    def __init__(self, s3: Any, *, options: Options) -> None:  # noqa: ANN401 - a boto3 client
        self._s3 = s3
        self._options = options
        self._files: dict[tuple[str, str, str], _File] = {}
        self._full = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Write from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what is buffered and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.flush()

    def add(self, target: Target, rule: CaptureRule, exchange: Exchange) -> None:
        """Buffer one exchange."""
        line = record(rule, exchange, event_id=str(uuid.uuid4()))
        key = (rule.destination, target.endpoint, target.variant)
        file = self._files.get(key)
        if file is None:
            place = place_of(rule.destination)
            file = _File(
                bucket=place.bucket,
                prefix=place.key.strip("/"),
                endpoint=target.endpoint,
                variant=target.variant,
                lines=[],
                size=0,
                since=exchange.at,
            )
            self._files[key] = file
        file.lines.append(line)
        file.size += len(line) + 1
        if file.size >= self._options.capture_flush_bytes:
            self._full.set()

    async def flush(self) -> None:
        """Write all buffers now."""
        async with self._flushing:
            files, self._files = self._files, {}
            await asyncio.gather(*(self._write(key, file) for key, file in files.items()))

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._options.capture_flush_s)
            self._full.clear()
            await asyncio.shield(self.flush())

    async def _write(self, key: tuple[str, str, str], file: _File) -> None:
        name = object_key(
            file.prefix, endpoint=file.endpoint, variant=file.variant, at=file.since, unique=str(uuid.uuid4())
        )
        body = b"\n".join((*file.lines, b""))
        try:
            await asyncio.to_thread(self._s3.put_object, Bucket=file.bucket, Key=name, Body=body)
        except (BotoCoreError, ClientError) as error:
            self._keep(key, file, error)

    def _keep(self, key: tuple[str, str, str], file: _File, error: Exception) -> None:
        newer = self._files.get(key)
        if newer is not None:
            file.lines += newer.lines
            file.size += newer.size
        if file.size > _MOST_BUFFERED_BYTES:
            _log.error("capture of %s/%s: %d lines lost: %s", file.endpoint, file.variant, len(file.lines), error)
            self._files.pop(key, None)
            return
        _log.warning("capture of %s/%s: kept for later: %s", file.endpoint, file.variant, error)
        self._files[key] = file
