from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.runtime.metrics import Histogram, Metrics, Series, exposition


@given(st.lists(st.integers(0, 1 << 20)))
def test_buckets_are_cumulative_counts_of_values_up_to_their_bound(values: list[int]) -> None:
    histogram = Histogram(12)
    for value in values:
        histogram.add(value)
    lines = [line.rsplit(" ", 1) for line in histogram.lines("h", 'a="b"', scale=1.0)]
    for name, count in lines[:-3]:
        bound = float(name.split('le="')[1].rstrip('"}'))
        assert int(count) == sum(value <= bound for value in values)
    assert lines[-3] == ['h_bucket{a="b",le="+Inf"}', str(len(values))]
    assert float(lines[-2][1]) == sum(values) or sum(values) > 10**9
    assert lines[-1] == ['h_count{a="b"}', str(len(values))]


def test_the_text_has_one_type_a_metric_and_a_value_a_line() -> None:
    metrics = Metrics()
    metrics.ran(3, seconds=0.002, waited_s=0.001)
    metrics.outcomes["ok"] += 3
    text = exposition([Series("m", "1.0.0", metrics, {"ready": 1.0})], gauges={"connections": 2})
    assert 'streamhub_requests_total{model="m",version="1.0.0",outcome="ok"} 3\n' in text
    assert 'streamhub_rows_total{model="m",version="1.0.0"} 3\n' in text
    assert 'streamhub_compute_seconds_sum{model="m",version="1.0.0"} 0.002\n' in text
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
