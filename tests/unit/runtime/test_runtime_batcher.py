"""The batcher on a clock and a loop of its own: no thread, no timer, no time of this machine."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.batching.policy import Caps
from serving.errors import DeadlineExceededError, InferenceError, ModelFailedError, OverloadedError
from tests.fakes.batching import MAX_ROWS, Asked, Server


@pytest.mark.parametrize("inline", [False, True])
def test_a_lone_request_is_immediate(*, inline: bool) -> None:
    """It starts within the iteration of the loop that read it: no time passes and no timer exists that could."""
    server = Server(seconds=lambda _: 0.0001, inline=inline)
    job = server.ask()
    server.loop.turn()
    if not inline:
        assert [batch.started_s for batch in server.bench.started] == [0.0]
        server.compute()
    assert job.values == [2.0]
    assert job.finished_s == pytest.approx(0.0001)


def test_what_arrives_together_runs_together_and_what_arrives_meanwhile_runs_next() -> None:
    server = Server()
    first = [server.ask(number) for number in range(3)]
    server.loop.turn()
    second = [server.ask(number) for number in range(3, 8)]
    server.loop.turn()
    assert [batch.rows for batch in server.bench.started] == [3]
    assert server.compute().rows == 3
    assert [batch.rows for batch in server.bench.started] == [5]
    server.until_idle()
    assert [job.values for job in (*first, *second)] == [[2.0 * number] for number in range(8)]


def test_cancelled_mates_survive_before_and_during_a_run() -> None:
    server = Server()
    server.ask(0.0)
    server.loop.turn()
    jobs = [server.ask(number) for number in range(1, 9)]
    for job in jobs[::2]:
        server.batcher.cancel(job)
    server.compute()
    assert server.bench.started[0].rows == 4
    server.batcher.cancel(jobs[1])
    server.until_idle()
    assert [len(job.answers) for job in jobs] == [0, 0, 0, 1, 0, 1, 0, 1]
    assert [job.values for job in jobs[3::2]] == [[8.0], [12.0], [16.0]]
    assert server.metrics.outcomes["cancelled"] == 5


def test_a_poisoned_request_fails_alone_and_does_not_teach_slowness() -> None:
    server = Server()
    server.ask()
    server.loop.turn()
    jobs = [server.ask(-1.0 if number == 11 else 1.0) for number in range(MAX_ROWS)]
    server.compute()
    before = server.batcher.times
    server.until_idle()
    assert [isinstance(job.answers[0], InferenceError) for job in jobs] == [number == 11 for number in range(MAX_ROWS)]
    assert server.batcher.times is before


def test_a_request_larger_than_a_batch_is_answered_whole() -> None:
    server = Server()
    server.ask()
    server.loop.turn()
    large, small = server.ask(3.0, rows=100), server.ask(4.0)
    large.arrays[0][:] = np.arange(100).reshape(-1, 1)
    rows = []
    while server.bench.started:
        rows.append(server.compute().rows)
    assert rows == [1, 32, 32, 32, 5], "three full batches, then what is left with the next request"
    assert large.values == [2.0 * number for number in range(100)]
    assert small.values == [8.0]
    assert server.batcher.idle


def test_a_large_request_of_which_a_part_fails_is_answered_once_and_its_rest_is_not_computed() -> None:
    server = Server()
    server.ask()
    server.loop.turn()
    large, small = server.ask(1.0, rows=200), server.ask(4.0)
    large.arrays[0][40] = -1.0
    server.until_idle()
    assert isinstance(large.error, ModelFailedError)
    assert small.values == [8.0]
    assert server.metrics.rows <= 1 + 3 * MAX_ROWS + 1, "the batch after the failed one had started already"


def test_a_large_request_whose_client_left_is_not_computed_further() -> None:
    server = Server()
    large = server.ask(1.0, rows=200)
    server.loop.turn()
    server.batcher.cancel(large)
    server.until_idle()
    assert large.answers == []
    assert server.metrics.rows == MAX_ROWS


def test_a_large_request_counts_as_the_batches_it_is() -> None:
    server = Server(caps=Caps(max_rows=MAX_ROWS, max_waiting=4))
    server.ask()
    server.loop.turn()
    server.ask(within_s=60.0)
    with pytest.raises(OverloadedError):
        server.ask(rows=4 * MAX_ROWS, within_s=60.0)
    assert server.ask(rows=3 * MAX_ROWS, within_s=60.0)


def test_a_large_request_without_the_time_for_all_its_batches_is_refused_before_the_first() -> None:
    server = Server()
    server.ask()
    server.loop.turn()
    with pytest.raises(OverloadedError):
        server.ask(rows=10 * MAX_ROWS, within_s=10 * server.seconds(MAX_ROWS))
    assert server.ask(rows=10 * MAX_ROWS, within_s=13 * server.seconds(MAX_ROWS))


def test_short_runs_on_the_loop_let_it_look_at_its_sockets() -> None:
    server = Server(seconds=lambda _: 0.0009, caps=Caps(max_rows=1, max_waiting=256), inline=True)
    jobs = [server.ask() for _ in range(100)]
    turns = 0
    while not server.batcher.idle:
        began_s = server.clock.now_s
        server.loop.turn()
        turns += 1
        assert server.clock.now_s - began_s <= 0.006
    assert turns > 1
    assert all(job.values == [2.0] for job in jobs)


def test_a_run_that_becomes_slow_leaves_the_loop() -> None:
    server = Server(seconds=lambda _: 0.0005, inline=True)
    server.ask()
    server.loop.turn()
    server.seconds = lambda _: 0.02
    for _ in range(3):
        server.ask()
        server.loop.turn()
    assert server.bench.started, "it is computed by a worker from now on"


def test_closing_closes_the_workers() -> None:
    server = Server()
    server.batcher.close()
    assert server.bench.closed


Action = tuple[str, int, int]
actions: st.SearchStrategy[list[Action]] = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "large", "cancel", "turn", "compute", "wait"]),
        st.integers(1, 40),
        st.integers(0, 3),
    ),
    max_size=60,
)


class Story:
    """What clients and workers do to one server, one action after the other."""

    def __init__(self) -> None:
        self.server = Server(caps=Caps(max_rows=8, max_waiting=16, workers=2))
        self.asked: list[Asked] = []
        self.left: set[int] = set()

    def ask(self, number: int, shape: int, *, rows: int) -> None:
        value = -1.0 if number % 7 == 0 else 1.0
        with suppress(OverloadedError):
            self.asked.append(self.server.ask(value, rows=rows, within_s=0.2, signature=((shape,),)))

    def cancel(self, number: int) -> None:
        at = number % max(1, len(self.asked))
        if self.asked and not self.asked[at].answers and at not in self.left:
            self.left.add(at)
            self.server.batcher.cancel(self.asked[at])

    def act(self, kind: str, number: int, shape: int) -> None:
        match kind:
            case "ask":
                self.ask(number, shape, rows=1 + number % 8)
            case "large":
                self.ask(number, shape, rows=number)
            case "cancel":
                self.cancel(number)
            case "turn":
                self.server.loop.turn()
            case "compute" if self.server.bench.started:
                self.server.compute()
            case "wait":
                self.server.clock.now_s += number / 500


@given(actions)
@settings(max_examples=150)
def test_whoever_is_let_in_is_answered_once_whatever_happens_around_it(steps: list[Action]) -> None:
    story = Story()
    for step in steps:
        story.act(*step)
    story.server.until_idle()
    assert [len(job.answers) for job in story.asked] == [number not in story.left for number in range(len(story.asked))]
    for job in story.asked:
        if job.answers and isinstance(job.answers[0], list):
            assert job.values == [2.0] * job.rows
        elif job.answers:
            assert isinstance(job.error, (ModelFailedError, DeadlineExceededError))


def test_where_batches_do_not_pay_callers_are_answered_one_after_the_other() -> None:
    """A row costs 100 ms in any batch: in one batch of 32 all would wait 3.2 s, so they wait half of it on average."""
    server = Server(seconds=lambda rows: 0.100 * rows)
    jobs = [server.ask(within_s=9.0) for _ in range(32)]
    server.until_idle()
    finished = [job.finished_s for job in jobs]
    assert finished == sorted(finished)
    assert max(finished) == pytest.approx(3.2)
    assert sum(finished) / 32 == pytest.approx(1.65)
