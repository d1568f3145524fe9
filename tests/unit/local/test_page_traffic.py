"""A burst's bounds, its bodies, and how answers are counted."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.page.traffic import MAX_REQUESTS, Answer, Burst, Sender, Target, other_unit, summary, varied
from serving.errors import LocalStackError


@pytest.mark.parametrize(("requests", "clients"), [(0, 1), (MAX_REQUESTS + 1, 1), (1, 0), (1, 9), (-5, -5)])
def test_a_burst_beyond_its_bounds_is_refused(requests: int, clients: int) -> None:
    with pytest.raises(LocalStackError, match="allowed: 1 to "):
        Burst(target="route:/v1/rank", requests=requests, clients=clients)


def test_every_bound_that_is_broken_is_named_at_once() -> None:
    with pytest.raises(LocalStackError, match=r"requests: got 0.*; clients: got 99"):
        Burst(target="x", requests=0, clients=99)


def test_an_unknown_target_is_refused_with_those_there_are() -> None:
    known = Target(id="route:/v1/rank", label="rank", url="http://127.0.0.1:1", body=lambda _: b"")
    with pytest.raises(LocalStackError, match=r"got 'nothing'; allowed: route:/v1/rank"):
        Sender(lambda: [known]).send(Burst(target="nothing", requests=1, clients=1))


def test_units_of_a_burst_differ_and_look_alike() -> None:
    units = {other_unit("user_001463", number) for number in range(MAX_REQUESTS)}
    assert len(units) == MAX_REQUESTS
    assert {len(unit) for unit in units} == {len("user_001463")}
    assert other_unit("user_001463", 3) == "user_001460"
    assert other_unit("content_000001", 3) == "content_000004"
    assert other_unit("user_001463", 1464) == "user_001463"
    assert other_unit("me", 3) == "me_3"


def test_bodies_differ_in_the_unit_alone() -> None:
    body = varied({"user_id": "user_001463", "candidates": ["v1"]}, "user_id")
    assert orjson.loads(body(1)) == {"user_id": "user_001462", "candidates": ["v1"]}


answers = st.lists(
    st.builds(
        Answer,
        status=st.sampled_from([0, 200, 424, 503]),
        variant=st.sampled_from(["", "a", "b"]),
        latency_ms=st.floats(0, 1e4),
        note=st.sampled_from(["", "503: overloaded"]),
    ),
    min_size=1,
    max_size=60,
)


@given(answers)
def test_every_answer_is_counted_once_by_status_and_variant(found: list[Answer]) -> None:
    result = summary("t", found, planned=70, elapsed_s=1.0)
    assert sum(row.count for row in result.rows) == result.sent == len(found)
    assert result.unsent == 70 - len(found)
    assert len({(row.status, row.variant) for row in result.rows}) == len(result.rows)
    assert sum(note.count for note in result.notes) == sum(bool(answer.note) for answer in found)
    for row in result.rows:
        latencies = [a.latency_ms for a in found if (a.status, a.variant) == (row.status, row.variant)]
        assert row.p50_ms == np.quantile(latencies, 0.5, method="inverted_cdf")
        assert row.p99_ms == np.quantile(latencies, 0.99, method="inverted_cdf")
