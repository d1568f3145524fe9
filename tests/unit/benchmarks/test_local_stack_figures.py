from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.local_stack.figures import Sample, Way, added, medians, sample_of
from benchmarks.local_stack.report import document, lines, markdown


def sample(way: Way, p50_ms: float, *, clients: int = 1, cpu_us: float = 100.0) -> Sample:
    return Sample(
        way=way,
        clients=clients,
        p50_ms=p50_ms,
        p90_ms=2 * p50_ms,
        p99_ms=3 * p50_ms,
        rate=1000 / p50_ms,
        server_cpu_us=cpu_us,
        client_cpu_us=cpu_us / 10,
    )


ROUNDS = [
    *(sample("model server", 1.0), sample("InvokeEndpoint", 1.5, cpu_us=150), sample("boto3", 4.0)),
    # a noisy round, slow for everyone
    *(sample("model server", 11.0), sample("InvokeEndpoint", 11.25, cpu_us=180), sample("boto3", 14.0)),
    *(sample("model server", 1.0), sample("InvokeEndpoint", 2.75, cpu_us=160), sample("boto3", 5.0)),
]


def test_what_is_added_is_compared_within_a_round_and_the_median_taken_then() -> None:
    found = added(ROUNDS, "InvokeEndpoint", "model server", 1)
    assert (found.p50_ms, found.p90_ms) == (0.5, 1.0)
    assert (found.server_cpu_us, found.client_cpu_us) == (60, 6)


def test_a_round_that_lacks_a_way_is_an_error() -> None:
    with pytest.raises(ValueError, match="longer"):
        added(ROUNDS[:-2], "InvokeEndpoint", "model server", 1)


@given(st.lists(st.floats(1e-5, 10), min_size=1, max_size=200), st.floats(0.1, 10))
def test_a_sample_has_the_quantiles_of_its_latencies_and_costs_by_request(latency_s: list[float], cpu_s: float) -> None:
    found = sample_of("boto3", 1, np.array(latency_s), seconds=2, server_cpu_s=cpu_s, client_cpu_s=cpu_s / 2)
    assert found.p50_ms == pytest.approx(np.median(latency_s) * 1e3)
    assert found.p50_ms <= found.p90_ms <= found.p99_ms <= max(latency_s) * 1e3 * (1 + 1e-9)
    assert found.rate * 2 == pytest.approx(len(latency_s))
    assert found.server_cpu_us * len(latency_s) == pytest.approx(cpu_s * 1e6)
    assert found.client_cpu_us == pytest.approx(found.server_cpu_us / 2)


def test_medians_are_by_way_and_clients() -> None:
    more = [*ROUNDS, sample("InvokeEndpoint", 9.0, clients=8)]
    assert {(each.way, each.clients): each.p50_ms for each in medians(more)} == {
        ("model server", 1): 1.0, ("InvokeEndpoint", 1): 2.75, ("boto3", 1): 5.0, ("InvokeEndpoint", 8): 9.0,
    }  # fmt: skip


def test_the_report_says_whether_the_target_is_met() -> None:
    machine = {"cpus": 2}
    assert document(ROUNDS, machine, rounds=3)["target"] == {"added_p50_ms": 1.0, "measured_ms": 0.5, "met": True}
    assert "Measured: 0.50 ms (met)" in markdown(ROUNDS, machine, rounds=3)
    assert lines(ROUNDS)[-1] == "met: at most 1 ms added at the p50"
    slow = [sample("model server", 1.0), sample("InvokeEndpoint", 2.5), sample("boto3", 4.0)]
    assert "Measured: 1.50 ms (**missed**)" in markdown(slow, machine, rounds=1)
    assert lines(slow)[-1].startswith("MISSED")
