from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from serving.runtime.exposition import Board, summed

ONE = """\
# HELP requests_total requests by outcome
# TYPE requests_total counter
requests_total{outcome="ok"} 3
requests_total{outcome="failed"} 0
# TYPE seconds histogram
seconds_bucket{le="0.1"} 1
seconds_bucket{le="+Inf"} 3
seconds_sum 1.5
seconds_count 3
# TYPE waiting gauge
waiting 2
# TYPE model_ready gauge
model_ready 1
# TYPE slowdown_ratio gauge
slowdown_ratio 1.25
"""
OTHER = """\
# TYPE requests_total counter
requests_total{outcome="ok"} 4
requests_total{outcome="late"} 1
# TYPE seconds histogram
seconds_bucket{le="0.1"} 2
seconds_bucket{le="+Inf"} 4
seconds_sum 0.25
seconds_count 4
# TYPE waiting gauge
waiting 5
# TYPE model_ready gauge
model_ready 0
# TYPE slowdown_ratio gauge
slowdown_ratio 1
"""


def series(text: str) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_counters_and_histograms_are_added_and_gauges_by_what_they_say() -> None:
    assert series(summed([ONE, OTHER])) == {
        'requests_total{outcome="ok"}': 7,
        'requests_total{outcome="failed"}': 0,
        'requests_total{outcome="late"}': 1,
        'seconds_bucket{le="0.1"}': 3,
        'seconds_bucket{le="+Inf"}': 7,
        "seconds_sum": 1.75,
        "seconds_count": 7,
        "waiting": 7,
        "model_ready": 0,
        "slowdown_ratio": 1.25,
    }


def test_a_process_that_is_no_more_leaves_its_counts_and_no_gauges() -> None:
    found = series(summed([ONE], [OTHER]))
    assert found['requests_total{outcome="ok"}'] == 7
    assert (found["waiting"], found["model_ready"]) == (2, 1)


def test_every_kind_is_told_once() -> None:
    text = summed([ONE, ONE, OTHER])
    assert text.count("# TYPE requests_total counter") == 1
    assert text.count("# HELP requests_total") == 1


def test_one_process_alone_says_what_it_said() -> None:
    assert summed([ONE]) == ONE


@given(st.lists(st.integers(0, 2**53 // 8), min_size=1, max_size=8))
def test_large_counts_are_exact(counts: list[int]) -> None:
    texts = [f"# TYPE rows_total counter\nrows_total {count}\n" for count in counts]
    assert summed(texts) == f"# TYPE rows_total counter\nrows_total {sum(counts)}\n"


def test_no_counter_runs_backwards_when_processes_come_and_go(tmp_path: Path) -> None:
    board, text = Board(tmp_path), "# TYPE rows_total counter\nrows_total {}\n"
    board.write(text.format(5), process=1)
    board.write(text.format(7), process=2)
    assert series(board.text()) == {"rows_total": 12}
    board.end(2)
    assert series(board.text()) == {"rows_total": 12}
    board.write(text.format(0), process=3)
    board.write(text.format(6), process=1)
    assert series(board.text()) == {"rows_total": 13}
    board.end(4)
    assert series(board.text()) == {"rows_total": 13}
