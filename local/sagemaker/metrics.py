"""AWS/SageMaker metrics of each variant, as SageMaker publishes them: latencies in microseconds, errors as 1 or 0."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.sagemaker.options import Options
from local.sagemaker.routes import Target

NAMESPACE = "AWS/SageMaker"
# PutMetricData: up to 150 distinct values a datum, up to 1,000 data a call
_VALUES_PER_DATUM = 150
_DATA_PER_CALL = 1000
_MOST_KEPT_DATA = 20_000
_CLIENT_ERROR = 4
_NO_SERVER_ERROR = (2, 3, _CLIENT_ERROR)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Tally:
    """What one variant did under one config."""

    model_us: Counter[float] = field(default_factory=Counter)
    overhead_us: Counter[float] = field(default_factory=Counter)
    concurrent: Counter[float] = field(default_factory=Counter)
    client_errors: Counter[float] = field(default_factory=Counter)
    server_errors: Counter[float] = field(default_factory=Counter)
    invocations: int = 0


Tallies = dict[tuple[str, str, str, str], Tally]
"""By endpoint, variant, config and inference component, "" for none."""
Source = Callable[[datetime], Iterable[Json]]
"""Gives further data of PutMetricData."""


def coarse(value: float) -> float:
    """Give three significant digits: within 0.5 % and few distinct values to send."""
    return float(f"{value:.3g}")


class Meter:
    """Counts what the data plane did and publishes it every few seconds."""

    def __init__(self, cloudwatch: Any, *, options: Options, sources: Sequence[Source] = ()) -> None:  # noqa: ANN401
        self._sources = sources
        self._cloudwatch = cloudwatch
        self._options = options
        self._tallies: Tallies = {}
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

    def count(self, target: Target, *, status: int, model_s: float, total_s: float, concurrent: int) -> None:
        """Count one invocation; `status` is the container's, 0 if it gave none."""
        key = (target.endpoint, target.variant, target.config, target.component)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        tally.invocations += 1
        tally.model_us[coarse(model_s * 1e6)] += 1
        tally.overhead_us[coarse((total_s - model_s) * 1e6)] += 1
        tally.concurrent[concurrent] += 1
        family = status // 100
        tally.client_errors[int(family == _CLIENT_ERROR)] += 1
        tally.server_errors[int(family not in _NO_SERVER_ERROR)] += 1

    def take(self) -> Tallies:
        """Give what was counted since the last time, and begin anew."""
        tallies, self._tallies = self._tallies, {}
        return tallies

    async def flush(self) -> None:
        """Publish what was counted since the last time."""
        async with self._flushing:
            now = datetime.now(UTC)
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
            for name, unit, values in _series(tally):
                for part in _parts(values):
                    yield {
                        "MetricName": name,
                        "Dimensions": dimensions,
                        "Timestamp": now,
                        "Values": list(part),
                        "Counts": [float(count) for count in part.values()],
                        "Unit": unit,
                    }


def _series(tally: Tally) -> tuple[tuple[str, str, Counter[float]], ...]:
    return (
        ("Invocations", "None", Counter({1.0: tally.invocations})),
        ("Invocation4XXErrors", "None", tally.client_errors),
        ("Invocation5XXErrors", "None", tally.server_errors),
        ("ConcurrentRequestsPerModel", "None", tally.concurrent),
        ("ModelLatency", "Microseconds", tally.model_us),
        ("OverheadLatency", "Microseconds", tally.overhead_us),
    )


def _parts(values: Counter[float]) -> Iterator[dict[float, int]]:
    items = iter(values.items())
    while part := dict(islice(items, _VALUES_PER_DATUM)):
        yield part
