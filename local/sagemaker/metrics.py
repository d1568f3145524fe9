"""AWS/SageMaker metrics of each variant, as SageMaker publishes them: latencies in microseconds, errors as 1 or 0."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.clock import Clock
from local.sagemaker.options import Options
from local.sagemaker.routes import Target

NAMESPACE = "AWS/SageMaker"
# PutMetricData: up to 150 distinct values a datum, up to 1,000 data a call
_VALUES_PER_DATUM = 150
_DATA_PER_CALL = 1000
_MOST_KEPT_DATA = 20_000
_SUCCESS, _CLIENT_ERROR = 2, 4
_NO_SERVER_ERROR = (_SUCCESS, 3, _CLIENT_ERROR)
_log = logging.getLogger(__name__)


UNITS: Mapping[str, str] = {
    "Invocations": "None",
    "InvocationsPerInstance": "None",
    "InvocationsPerCopy": "None",
    "Invocation4XXErrors": "None",
    "Invocation5XXErrors": "None",
    "InvocationModelErrors": "None",
    "ConcurrentRequestsPerModel": "None",
    "ConcurrentRequestsPerCopy": "None",
    "MidStreamErrors": "None",
    "ModelLatency": "Microseconds",
    "OverheadLatency": "Microseconds",
    "FirstChunkLatency": "Microseconds",
    "FirstChunkModelLatency": "Microseconds",
    "FirstChunkOverheadLatency": "Microseconds",
}
"""Names and units of a variant's metrics (SageMaker guide, monitoring-cloudwatch); latencies are in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What a stream adds: when its first part was sent, from the request's arrival and from the container's turn."""

    first_s: float
    first_model_s: float
    broke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One request to a container: its status, 0 where it gave none; seconds there, and from arrival to answer."""

    status: int
    model_s: float
    total_s: float
    concurrent: int
    streamed: Streamed | None = None


Tally = dict[str, Counter[float]]
"""What one variant did under one config: by name of the metric, how often each value came."""

Tallies = dict[tuple[str, str, str, str], Tally]
"""By endpoint, variant, config and inference component, "" for none."""
Source = Callable[[datetime], Iterable[Json]]
"""Gives further data of PutMetricData."""


def coarse(value: float) -> float:
    """Give three significant digits: within 0.5 % and few distinct values to send."""
    return float(f"{value:.3g}")


class Meter:
    """Counts what the data plane did and publishes it every few seconds."""

    def __init__(self, cloudwatch: Any, *, options: Options, clock: Clock) -> None:  # noqa: ANN401 - a boto3 client
        self._sources: list[Source] = []
        self._clock = clock
        self._cloudwatch = cloudwatch
        self._options = options
        self.tallies: Tallies = {}
        self._kept: list[Json] = []
        self._flushing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Publish from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Publish what is counted and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.flush()

    def publish_of(self, source: Source) -> None:
        """Publish what a source gives too, each time."""
        self._sources.append(source)

    def count(self, target: Target, invocation: Invocation) -> None:
        """Count one request that was sent to a container."""
        key = (target.endpoint, target.variant, target.config, target.component)
        tally = self.tallies.get(key)
        if tally is None:
            tally = self.tallies[key] = defaultdict(Counter)
        for name, value in _values(target, invocation):
            tally[name][value] += 1

    def take(self) -> Tallies:
        """Give what was counted since the last time, and begin anew."""
        tallies, self.tallies = self.tallies, {}
        return tallies

    async def flush(self) -> None:
        """Publish what was counted since the last time."""
        async with self._flushing:
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            further = chain.from_iterable(source(now) for source in self._sources)
            data = [*self._kept, *metric_data(self.take(), now), *further]
            self._kept = []
            for start in range(0, len(data), _DATA_PER_CALL):
                batch = data[start : start + _DATA_PER_CALL]
                try:
                    await asyncio.to_thread(self._cloudwatch.put_metric_data, Namespace=NAMESPACE, MetricData=batch)
                except (BotoCoreError, ClientError) as error:
                    _log.warning("%d metric data kept for later: %s", len(batch), error)
                    self._kept = (self._kept + batch)[-_MOST_KEPT_DATA:]

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._options.metrics_interval_s)
            await asyncio.shield(self.flush())


def metric_data(tallies: Tallies, now: datetime) -> Iterator[Json]:
    """Give what PutMetricData takes: each series by variant, and by variant and config; a component's by component."""
    for (endpoint, variant, config, component), tally in tallies.items():
        of_variant = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": variant}]
        of_fleet = [*of_variant, {"Name": "EndpointConfigName", "Value": config}]
        of_component = [{"Name": "InferenceComponentName", "Value": component}]
        for dimensions in (of_component,) if component else (of_variant, of_fleet):
            for name, values in tally.items():
                for part in _parts(values):
                    yield {
                        "MetricName": name,
                        "Dimensions": dimensions,
                        "Timestamp": now,
                        "Values": list(part),
                        "Counts": [float(count) for count in part.values()],
                        "Unit": UNITS[name],
                    }


def _values(target: Target, invocation: Invocation) -> Iterator[tuple[str, float]]:
    family = invocation.status // 100
    yield "Invocation4XXErrors", float(family == _CLIENT_ERROR)
    yield "Invocation5XXErrors", float(family not in _NO_SERVER_ERROR)
    yield "InvocationModelErrors", float(family != _SUCCESS)
    yield "ModelLatency", coarse(invocation.model_s * 1e6)
    if target.asynchronous:
        return
    per = "Copy" if target.component else "Instance"
    yield "Invocations", 1.0
    yield f"InvocationsPer{per}", 1.0 / max(1, target.instances)
    yield f"ConcurrentRequestsPer{'Copy' if target.component else 'Model'}", float(invocation.concurrent)
    yield "OverheadLatency", coarse((invocation.total_s - invocation.model_s) * 1e6)
    if invocation.streamed is not None:
        streamed = invocation.streamed
        yield "MidStreamErrors", float(streamed.broke)
        yield "FirstChunkLatency", coarse(streamed.first_s * 1e6)
        yield "FirstChunkModelLatency", coarse(streamed.first_model_s * 1e6)
        yield "FirstChunkOverheadLatency", coarse((streamed.first_s - streamed.first_model_s) * 1e6)


def _parts(values: Counter[float]) -> Iterator[dict[float, int]]:
    items = iter(values.items())
    while part := dict(islice(items, _VALUES_PER_DATUM)):
        yield part
