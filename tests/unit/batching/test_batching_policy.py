from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.batching.policy import NOTHING, Caps, next_step, refuse
from serving.batching.service_times import ServiceTimes

MAX_ROWS = 32
CAPS = Caps(max_rows=MAX_ROWS, max_waiting=64)
TIMES = ServiceTimes.measured([(1, 0.001), (32, 0.004)], max_rows=MAX_ROWS)


@dataclass(frozen=True)
class Request:
    rows: int
    arrived_s: float
    deadline_s: float


requests = st.builds(Request, rows=st.integers(1, MAX_ROWS), arrived_s=st.floats(0, 1), deadline_s=st.floats(0.9, 1.2))
queues = st.lists(
    st.lists(requests, max_size=40).map(lambda queue: sorted(queue, key=lambda request: request.arrived_s)), max_size=4
)
curves = st.lists(st.tuples(st.integers(1, MAX_ROWS), st.floats(1e-6, 0.3)), min_size=1, max_size=6)


@given(queues, curves)
def test_a_step_keeps_every_cap_and_every_deadline_it_can(waiting: list[list[Request]], points: object) -> None:
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    step = next_step(waiting, idle_workers=1, now_s=1.0, caps=CAPS, times=times)
    if not any(waiting):
        assert step == NOTHING
        return
    queue = waiting[step.queue]
    assert queue[0].arrived_s == min(queue[0].arrived_s for queue in waiting if queue), "the oldest head goes first"
    assert step.late + step.take > 0, "a worker is idle and somebody waits: something happens"
    run = queue[step.late : step.late + step.take]
    assert step.rows == sum(request.rows for request in run) <= MAX_ROWS
    if len(run) > 1:
        assert 1.0 + CAPS.margin * times.seconds(step.rows) <= min(request.deadline_s for request in run)
    for number, late in enumerate(queue[: step.late]):
        assert 1.0 + CAPS.margin * times.seconds(min(MAX_ROWS, sum(r.rows for r in queue[number:]))) > late.deadline_s


@given(queues, curves)
def test_a_wrong_prediction_never_silences_the_server(waiting: list[list[Request]], points: object) -> None:
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    left = [list(queue) for queue in waiting]
    ran = 0
    while (step := next_step(left, idle_workers=1, now_s=1.0, caps=CAPS, times=times)) != NOTHING:
        ran += step.take
        del left[step.queue][: step.late + step.take]
    if any(waiting) and all(request.deadline_s > 1.0 for queue in waiting for request in queue):
        assert ran, "all dropped, so nothing is ever measured again"


@given(requests)
def test_a_lone_request_on_an_idle_worker_goes_at_once(request: Request) -> None:
    slow = ServiceTimes.measured([(1, 9.0)], max_rows=MAX_ROWS)
    step = next_step([[request]], idle_workers=1, now_s=0.5, caps=CAPS, times=slow)
    assert (step.take, step.late) == (1, 0)


@given(queues)
def test_nothing_happens_while_all_workers_are_busy(waiting: list[list[Request]]) -> None:
    assert next_step(waiting, idle_workers=0, now_s=1.0, caps=CAPS, times=TIMES) == NOTHING


def test_rows_are_counted_not_requests() -> None:
    queue = [Request(rows, 0.0, 9.0) for rows in (10, 20, 2, 1)]
    step = next_step([queue], idle_workers=1, now_s=0.1, caps=CAPS, times=TIMES)
    assert (step.take, step.rows) == (3, 32)


def test_shapes_do_not_mix_and_the_oldest_goes_first() -> None:
    young, old = [Request(1, 0.3, 9.0)] * 3, [Request(1, 0.2, 9.0)] * 2
    step = next_step([young, old], idle_workers=1, now_s=0.4, caps=CAPS, times=TIMES)
    assert (step.queue, step.take) == (1, 2)


def test_a_head_that_misses_in_its_batch_is_late_even_if_it_would_make_it_alone() -> None:
    queue = [Request(1, 0.0, 1.002)] + [Request(1, 0.0, 9.0)] * 31
    step = next_step([queue], idle_workers=1, now_s=1.0, caps=CAPS, times=TIMES)
    assert (step.late, step.take) == (1, 31)


def test_a_tight_request_behind_the_head_makes_the_batch_smaller() -> None:
    queue = [Request(1, 0.0, 9.0), Request(1, 0.0, 1.0015)] + [Request(1, 0.0, 9.0)] * 30
    step = next_step([queue], idle_workers=1, now_s=1.0, caps=CAPS, times=TIMES)
    assert (step.late, step.take) == (0, 4)  # 4 rows take 1.29 ms, with the margin 1.42; 5 would take 1.53


def test_an_expired_request_is_never_run_even_alone() -> None:
    step = next_step([[Request(1, 0.0, 1.0)]], idle_workers=1, now_s=1.0, caps=CAPS, times=TIMES)
    assert (step.late, step.take) == (1, 0)


SIZES = (1, 2, 4, 8, 16, 32)


@given(curves)
def test_a_batch_is_the_smallest_in_which_a_row_costs_no_more_than_in_any_other(points: object) -> None:
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    cost = {size: (times.seconds(size) + 0.0002) / size for size in SIZES}  # a batch costs 0.2 ms beside its run
    good = [size for size in SIZES if cost[size] <= 1.01 * min(cost.values())]
    assert times.worth_rows == good[0]
    queue = [Request(1, 0.0, 1e9)] * 40
    assert next_step([queue], idle_workers=1, now_s=0.0, caps=CAPS, times=times).take == good[0]


def test_a_request_of_more_rows_than_pay_runs_whole() -> None:
    times = ServiceTimes.measured([(1, 0.100), (32, 3.200)], max_rows=MAX_ROWS)
    assert times.worth_rows == 1
    queue = [Request(10, 0.0, 9.0), Request(1, 0.0, 9.0)]
    assert next_step([queue], idle_workers=1, now_s=0.0, caps=CAPS, times=times).rows == 10


def test_what_pays_is_learnt_with_the_times() -> None:
    times = ServiceTimes.measured([(1, 0.001), (32, 0.004)], max_rows=MAX_ROWS)
    for _ in range(400):
        times = times.after(1, 0.001).after(32, 0.064)
    assert times.worth_rows < MAX_ROWS


@given(curves, st.integers(1, MAX_ROWS - 1))
def test_more_rows_never_take_less_time(points: object, rows: int) -> None:
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    assert times.seconds(rows) <= times.seconds(rows + 1)


def test_times_between_and_beyond_measured_sizes_lie_on_straight_lines() -> None:
    times = ServiceTimes.measured([(2, 0.002), (4, 0.006)], max_rows=8)
    assert [times.seconds(rows) for rows in (1, 2, 3, 4, 8)] == pytest.approx([0.002, 0.002, 0.004, 0.006, 0.014])


def test_a_slow_phase_is_learnt_and_forgotten_for_all_sizes() -> None:
    times = TIMES
    for _ in range(60):
        times = times.after(1, 0.003)
    assert times.seconds(32) == pytest.approx(0.012, rel=0.01)
    for _ in range(60):
        times = times.after(1, 0.001)
    assert times.seconds(32) == pytest.approx(0.004, rel=0.01)


def test_one_freak_run_counts_for_little() -> None:
    assert TIMES.after(1, 60.0).seconds(1) == pytest.approx(0.0019)


def test_the_curve_of_no_measurement_is_refused() -> None:
    with pytest.raises(ValueError, match="points"):
        ServiceTimes.measured([], max_rows=4)


def refused(
    rows: int, *, deadline_in_s: float, waiting: int, waiting_rows: int, busy_s: float = 0.002, arriving: float = 0.0
) -> float | None:
    return refuse(
        rows,
        deadline_in_s=deadline_in_s,
        waiting=waiting,
        waiting_rows=waiting_rows,
        busy_s=busy_s,
        arriving_rows_s=arriving,
        caps=CAPS,
        times=TIMES,
    )


def test_an_idle_server_refuses_nobody() -> None:
    assert refused(32, deadline_in_s=1e-9, waiting=0, waiting_rows=0, busy_s=0.0) is None


def test_a_full_queue_refuses() -> None:
    assert refused(1, deadline_in_s=9.0, waiting=63, waiting_rows=63) is None
    after_s = refused(1, deadline_in_s=9.0, waiting=64, waiting_rows=64)
    assert after_s == pytest.approx(0.002 + 2 * 0.004)


def test_a_request_that_would_miss_behind_the_queue_is_refused() -> None:
    # 2 ms busy, two full batches of 4 ms, then itself
    assert refused(1, deadline_in_s=1.1 * 0.0111, waiting=40, waiting_rows=64) is None
    assert refused(1, deadline_in_s=1.1 * 0.0109, waiting=40, waiting_rows=64) is not None


def test_a_batch_that_will_fill_up_is_counted_as_full() -> None:
    assert refused(1, deadline_in_s=1.1 * 0.0139, waiting=40, waiting_rows=64, arriving=1e6) is not None
    assert refused(1, deadline_in_s=1.1 * 0.0141, waiting=40, waiting_rows=64, arriving=1e6) is None


@given(queues, curves)
def test_nobody_is_overtaken_in_a_queue_and_no_queue_starves(waiting: list[list[Request]], points: object) -> None:
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    left = [list(queue) for queue in waiting]
    while (step := next_step(left, idle_workers=1, now_s=1.0, caps=CAPS, times=times)) != NOTHING:
        oldest_s = min(queue[0].arrived_s for queue in left if queue)
        assert left[step.queue][0].arrived_s == oldest_s, "the oldest of all leaves with the next step"
        del left[step.queue][: step.late + step.take]
    assert not any(left)


@given(st.lists(requests, min_size=1, max_size=40), curves)
def test_dropping_heads_stops_at_the_first_that_makes_it(queue: list[Request], points: object) -> None:
    """An oracle that fills the batch of every head anew."""
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    step = next_step([queue], idle_workers=1, now_s=1.0, caps=CAPS, times=times)

    def makes_it(head: int) -> bool:
        rows = 0
        for request in queue[head:]:
            if rows and rows + request.rows > times.worth_rows:
                break
            rows += request.rows
        last = head == len(queue) - 1 and queue[head].deadline_s > 1.0
        return last or 1.0 + CAPS.margin * times.seconds(rows) <= queue[head].deadline_s

    first = [makes_it(head) for head in range(len(queue))]
    whole = 1.0 + CAPS.margin * times.seconds(step.rows) <= min(r.deadline_s for r in queue[: step.take] or queue)
    if step.late or not whole:
        assert step.late == (first.index(True) if True in first else len(queue))


def test_a_large_request_is_counted_as_the_batches_it_is() -> None:
    # 2 ms busy, then ten full batches of 4 ms
    assert refused(10 * MAX_ROWS, deadline_in_s=1.1 * 0.0421, waiting=1, waiting_rows=0) is None
    assert refused(10 * MAX_ROWS, deadline_in_s=1.1 * 0.0419, waiting=1, waiting_rows=0) is not None
    assert refused(10 * MAX_ROWS, deadline_in_s=9.0, waiting=54, waiting_rows=0) is None
    assert refused(10 * MAX_ROWS, deadline_in_s=9.0, waiting=55, waiting_rows=0) is not None


runs = st.lists(st.tuples(st.integers(1, MAX_ROWS), st.floats(0, 2.0)), max_size=60)


@given(curves, runs)
def test_more_rows_never_take_less_time_whatever_was_learnt(points: object, learnt: list[tuple[int, float]]) -> None:
    times = ServiceTimes.measured(points, max_rows=MAX_ROWS)  # type: ignore[arg-type]
    for rows, seconds in learnt:
        times = times.after(rows, seconds)
    predicted = [times.seconds(rows) for rows in range(1, MAX_ROWS + 1)]
    assert predicted == sorted(predicted)
    assert all(0 <= seconds < float("inf") for seconds in predicted)


def test_a_bucket_that_was_measured_wrong_is_learnt_beside_one_that_was_right() -> None:
    """32 rows truly take 2 ms and not the 4 ms of warm-up; one row is as measured."""
    times = TIMES
    for _ in range(300):
        times = times.after(1, 0.001).after(32, 0.002)
    assert times.seconds(1) == pytest.approx(0.001, rel=0.1)
    assert times.seconds(32) == pytest.approx(0.002, rel=0.1)


@pytest.mark.parametrize("max_rows", [1, 2, 3, 24, 32, 500, 512])
def test_every_number_of_rows_has_a_time(max_rows: int) -> None:
    times = ServiceTimes.measured([(1, 1.0), (max_rows, float(max_rows))], max_rows=max_rows)
    assert [times.seconds(rows) for rows in range(1, max_rows + 1)] == pytest.approx(list(range(1, max_rows + 1)))


asked = st.fixed_dictionaries(
    {
        "rows": st.integers(1, 4 * MAX_ROWS),
        "waiting": st.integers(0, 80),
        "waiting_rows": st.integers(0, 80 * MAX_ROWS),
        "busy_s": st.floats(0, 1),
        "arriving": st.floats(0, 1e6),
    }
)


@given(asked, st.floats(1e-4, 10), st.floats(0, 10))
def test_whoever_has_more_time_is_not_refused_where_a_hurried_one_is_let_in(
    request: dict[str, float], deadline_in_s: float, more_s: float
) -> None:
    rows = int(request.pop("rows"))
    if refused(rows, deadline_in_s=deadline_in_s, **request) is None:  # type: ignore[arg-type]
        assert refused(rows, deadline_in_s=deadline_in_s + more_s, **request) is None  # type: ignore[arg-type]


@given(asked, st.floats(1e-4, 10))
def test_who_is_refused_is_told_a_time_that_is_none_below_zero(request: dict[str, float], deadline_in_s: float) -> None:
    rows = int(request.pop("rows"))
    after_s = refused(rows, deadline_in_s=deadline_in_s, **request)  # type: ignore[arg-type]
    assert after_s is None or after_s >= 0
    if request["waiting"] >= CAPS.max_waiting:
        assert after_s is not None
