"""Parity: what is drawn is of the spec, and no difference beyond the tolerance passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_packaging.inference import Arrays
from model_packaging.parity import check_parity, compare, draw
from serving.errors import PackagingError
from serving.protocol.tensors import DTYPES, Array
from serving.spec.evidence import Tolerance
from serving.spec.tensors import DType, TensorSpec

NARROW = Tolerance(absolute=1e-4, relative=1e-3)
FLOATS = hnp.arrays(np.float32, st.integers(1, 20), elements=st.floats(-1e6, 1e6, width=32))


@given(FLOATS)
def test_an_answer_has_parity_with_itself(values: Array) -> None:
    found = compare({"y": values}, {"y": values.copy()}, NARROW)
    assert (found.max_abs_error, found.max_rel_error, found.problems) == (0.0, 0.0, ())


@given(FLOATS, FLOATS)
def test_a_difference_passes_exactly_where_numpy_calls_it_close(want: Array, have: Array) -> None:
    size = min(len(want), len(have))
    want, have = want[:size].astype(np.float64), have[:size].astype(np.float64)
    found = compare({"y": want}, {"y": have}, NARROW)
    assert (found.problems == ()) == np.allclose(have, want, atol=NARROW.absolute, rtol=NARROW.relative)
    assert found.max_abs_error == np.abs(have - want).max()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("side", ["both", "want", "have"])
def test_what_is_not_finite_has_no_parity_with_anything(value: float, side: str) -> None:
    bad, good = (np.array([number], dtype=np.float32) for number in (value, 1.0))
    want, have = (bad if side in {"both", name} else good for name in ("want", "have"))
    assert "not finite" in compare({"y": want}, {"y": have}, NARROW).problems[0]


def test_classes_and_texts_must_be_the_same() -> None:
    assert compare({"y": np.array([1, 2])}, {"y": np.array([1, 2])}, NARROW).problems == ()
    assert "got 1 other values" in compare({"y": np.array([1, 2])}, {"y": np.array([1, 3])}, NARROW).problems[0]
    texts = [np.array([text], dtype=object) for text in (b"a", b"b")]
    assert compare({"y": texts[0]}, {"y": texts[1]}, NARROW).problems


@pytest.mark.parametrize("have", [np.zeros((2, 1), np.float32), np.zeros(2, np.int64)])
def test_another_shape_or_type_is_no_parity(have: Array) -> None:
    assert "allowed float32 [2]" in compare({"y": np.zeros(2, np.float32)}, {"y": have}, NARROW).problems[0]


def test_another_name_is_no_parity() -> None:
    zeros = np.zeros(2, np.float32)
    assert compare({"y": zeros}, {"z": zeros}, NARROW).problems == (
        "outputs: got ['z']; allowed ['y']; name them alike",
    )


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.value in DTYPES])
def test_drawn_inputs_are_of_the_type_and_shape_of_the_spec(dtype: DType) -> None:
    spec = TensorSpec(name="x", dtype=dtype, shape=(2, -1))
    drawn = draw([spec], 5, np.random.default_rng(0))["x"]
    assert drawn.shape[:2] == (5, 2)
    assert drawn.dtype == DTYPES[dtype.value]
    if dtype is DType.BYTES:
        assert all(isinstance(item, bytes) for item in drawn.flat)


def test_drawn_inputs_stay_within_range_and_categories() -> None:
    number = TensorSpec(name="n", dtype=DType.INT64, shape=(3,), range=(2.0, 4.0))
    real = TensorSpec(name="r", dtype=DType.FP32, shape=(3,), range=(-0.5, 0.25))
    text = TensorSpec(name="t", dtype=DType.BYTES, shape=(1,), categories=("red", "blue"))
    drawn = draw([number, real, text], 200, np.random.default_rng(1))
    assert set(np.unique(drawn["n"])) == {2, 3, 4}
    assert drawn["r"].min() >= -0.5
    assert drawn["r"].max() <= 0.25
    assert set(drawn["t"].flat) == {b"red", b"blue"}


def test_a_report_counts_what_was_asked_and_a_fault_names_its_batch() -> None:
    def reference(arrays: Arrays) -> dict[str, Array]:
        return {"y": arrays["x"] * 2}

    def off_from_three_rows_on(arrays: Arrays) -> dict[str, Array]:
        return {"y": arrays["x"] * 2 + (0.5 if len(arrays["x"]) >= 3 else 0.0)}

    inputs = [TensorSpec(name="x", dtype=DType.FP64, shape=(2,))]
    parity = check_parity(reference, reference, inputs=inputs, rows=(1, 4), toolchain={"numpy": "2"})
    assert (parity.rows, parity.batches, parity.max_abs_error) == (5, (1, 4), 0.0)
    with pytest.raises(PackagingError, match="parity at 4 rows: output 'y'") as caught:
        check_parity(off_from_three_rows_on, reference, inputs=inputs, rows=(1, 4), toolchain={})
    assert "parity at 1 rows" not in str(caught.value)
