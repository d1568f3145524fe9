"""From the samples of the rounds to the figures that are told; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

import numpy as np

from serving.protocol.tensors import Array

Way = Literal["model server", "InvokeEndpoint", "boto3"]
WAYS: tuple[Way, ...] = ("model server", "InvokeEndpoint", "boto3")
TARGET_ADDED_MS = 1.0
"""What InvokeEndpoint may add to the model server's p50, one client, HTTP client without botocore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of one way: latencies in ms; CPU in microseconds a request, of the servers and of the client."""

    way: Way
    clients: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    rate: float
    server_cpu_us: float
    client_cpu_us: float


def sample_of(
    way: Way, clients: int, latency_s: Array, *, seconds: float, server_cpu_s: float, client_cpu_s: float
) -> Sample:
    """Sum one run up; `latency_s` has a number for each answer."""
    p50, p90, p99 = (float(value) * 1e3 for value in np.quantile(latency_s, (0.5, 0.9, 0.99)))
    count = len(latency_s)
    return Sample(
        way=way,
        clients=clients,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        rate=count / seconds,
        server_cpu_us=server_cpu_s / count * 1e6,
        client_cpu_us=client_cpu_s / count * 1e6,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What one way costs more than another in the same round, medians over rounds."""

    way: Way
    to: Way
    clients: int
    p50_ms: float
    p90_ms: float
    server_cpu_us: float
    client_cpu_us: float


def medians(samples: Sequence[Sample]) -> list[Sample]:
    """Give one sample for each way and number of clients: the median of each figure."""
    kinds = dict.fromkeys((each.way, each.clients) for each in samples)
    return [_median([each for each in samples if (each.way, each.clients) == kind]) for kind in kinds]


def added(samples: Sequence[Sample], way: Way, to: Way, clients: int) -> Added:
    """Compare two ways round by round; both have a sample in each."""
    ours = [each for each in samples if (each.way, each.clients) == (way, clients)]
    base = [each for each in samples if (each.way, each.clients) == (to, clients)]
    rounds = list(zip(ours, base, strict=True))
    return Added(
        way=way,
        to=to,
        clients=clients,
        p50_ms=median(one.p50_ms - other.p50_ms for one, other in rounds),
        p90_ms=median(one.p90_ms - other.p90_ms for one, other in rounds),
        server_cpu_us=median(one.server_cpu_us - other.server_cpu_us for one, other in rounds),
        client_cpu_us=median(one.client_cpu_us - other.client_cpu_us for one, other in rounds),
    )


def _median(samples: Sequence[Sample]) -> Sample:
    names = ("p50_ms", "p90_ms", "p99_ms", "rate", "server_cpu_us", "client_cpu_us")
    documents = [asdict(each) for each in samples]
    return Sample(
        way=samples[0].way,
        clients=samples[0].clients,
        **{name: median(document[name] for document in documents) for name in names},
    )
