from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.batching.stacking import split, stack
from serving.errors import ModelFailedError


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_what_is_stacked_and_split_again_is_what_it_was(rows: list[int]) -> None:
    generator = np.random.default_rng(0)
    requests = [
        [generator.random((count, 3), dtype=np.float32), np.full((count, 1), b"title", dtype=object)] for count in rows
    ]
    parts = split(stack(requests), rows)
    for request, part in zip(requests, parts, strict=True):
        for before, after in zip(request, part, strict=True):
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)


def test_a_single_request_is_not_copied() -> None:
    array = np.zeros((2, 3), dtype=np.float32)
    assert stack([[array]])[0] is array
    assert split([array], [2])[0][0] is array


@pytest.mark.parametrize("output", [np.zeros((3, 1)), np.zeros((1, 1)), np.zeros(())])
def test_an_output_of_another_number_of_rows_is_nobodys(output: np.ndarray) -> None:
    with pytest.raises(ModelFailedError, match="2 rows"):
        split([output], [1, 1])
