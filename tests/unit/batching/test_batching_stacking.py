from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.batching.stacking import Stacker, divide, join, split
from serving.errors import ModelFailedError


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_what_is_stacked_and_split_again_is_what_it_was(rows: list[int]) -> None:
    generator = np.random.default_rng(0)
    requests = [
        [generator.random((count, 3), dtype=np.float32), np.full((count, 1), b"title", dtype=object)] for count in rows
    ]
    parts = split(Stacker().stack(requests), rows)
    for request, part in zip(requests, parts, strict=True):
        for before, after in zip(request, part, strict=True):
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)


def test_a_single_request_is_not_copied() -> None:
    array = np.zeros((2, 3), dtype=np.float32)
    assert Stacker().stack([[array]])[0] is array
    assert np.shares_memory(split([array], [2])[0][0], array)


@pytest.mark.parametrize("output", [np.zeros((3, 1)), np.zeros((1, 1)), np.zeros(())])
def test_an_output_of_another_number_of_rows_is_nobodys(output: np.ndarray) -> None:
    with pytest.raises(ModelFailedError, match="2 rows"):
        split([output], [1, 1])


LARGE = (1 << 20) // 4 // 8
"""Floats a row, so that a batch of eight rows is a mebibyte: from there on memory is kept."""


def rows_of(value: float, rows: int = 4) -> list[np.ndarray]:
    return [np.full((rows, LARGE), value, dtype=np.float32)]


def test_large_batches_go_into_the_same_memory() -> None:
    stacker = Stacker()
    first = stacker.stack([rows_of(1.0), rows_of(2.0)])[0]
    assert (first[:4] == 1.0).all()
    assert (first[4:] == 2.0).all()
    second = stacker.stack([rows_of(3.0), rows_of(4.0)])[0]
    assert np.shares_memory(first, second)
    smaller = stacker.stack([rows_of(5.0), rows_of(6.0, rows=5)])[0]
    assert smaller.shape == (9, LARGE)
    assert (smaller[4:] == 6.0).all()


@pytest.mark.parametrize("model", [lambda x: x, lambda x: x[:, :1], lambda x: x.T, lambda x: x.reshape(-1)])
def test_no_answer_lies_in_memory_that_the_next_batch_overwrites(model: object) -> None:
    stacker = Stacker()
    outputs = stacker.owned([model(stacker.stack([rows_of(1.0), rows_of(1.0)])[0])])  # type: ignore[operator]
    stacker.stack([rows_of(9.0), rows_of(9.0)])
    assert (outputs[0] == 1.0).all()


def test_memory_is_never_kept_for_texts_nor_shared_by_inputs() -> None:
    stacker = Stacker()
    texts = np.full((4, LARGE), b"x", dtype=object)
    one, two, three = stacker.stack([[*rows_of(1.0), texts, *rows_of(2.0)]] * 2)
    assert not np.shares_memory(one, three)
    assert two.shape == (8, LARGE)
    again = stacker.stack([[*rows_of(1.0), texts, *rows_of(2.0)]] * 2)
    assert not np.shares_memory(two, again[1])


@given(st.integers(1, 100), st.integers(1, 20))
def test_a_request_in_parts_is_whole_again(rows: int, max_rows: int) -> None:
    arrays = [np.arange(rows * 3).reshape(rows, 3), np.arange(rows)]
    parts = divide(arrays, max_rows=max_rows)
    assert [len(part[0]) for part in parts[:-1]] == [max_rows] * (len(parts) - 1)
    assert 1 <= len(parts[-1][0]) <= max_rows
    for before, after in zip(arrays, join(parts), strict=True):
        np.testing.assert_array_equal(before, after)


def test_parts_of_different_shapes_are_no_answer() -> None:
    with pytest.raises(ModelFailedError, match="fit together"):
        join([[np.zeros((2, 3))], [np.zeros((2, 4))]])
