"""Calibration and evaluation sets: what is no array of the spec is refused, in one line each, before anything runs."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_packaging import arrays
from model_packaging.arrays import read_arrays
from serving.errors import PackagingError
from serving.spec.tensors import DType, TensorSpec

X = TensorSpec(name="x", dtype=DType.FP32, shape=(2,))
TITLE = TensorSpec(name="title", dtype=DType.BYTES, shape=(1,))
GOOD = {"x": np.zeros((3, 2), np.float32), "target": np.array([0, 1, 1])}


def written(folder: Path, **stored: Any) -> Path:
    path = folder / "set.npz"
    np.savez_compressed(path, **stored)
    return path


def test_a_set_gives_inputs_columns_rows_and_the_files_digest(tmp_path: Path) -> None:
    found = read_arrays(written(tmp_path, **GOOD), [X], columns=["target"])
    assert (found.rows, list(found.columns["target"]), len(found.sha256)) == (3, [0, 1, 1], 64)


def test_texts_come_as_bytes_whether_they_were_stored_as_text_or_bytes(tmp_path: Path) -> None:
    for stored in (np.array([["é"], ["b"]]), np.array([["é".encode()], [b"b"]])):
        found = read_arrays(written(tmp_path, title=stored), [TITLE]).inputs["title"]
        assert list(found.flat) == ["é".encode(), b"b"]


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({"x": GOOD["x"]}, "got the arrays x; allowed target, x"),
        ({**GOOD, "more": GOOD["x"]}, "got the arrays more, target, x"),
        ({**GOOD, "x": np.zeros((3, 2))}, "x: got float64; allowed FP32"),
        ({**GOOD, "x": np.zeros((3, 4), np.float32)}, r"x: got rows of \[4\]; allowed \[2\]"),
        ({**GOOD, "x": np.float32(1)}, r"x: got rows of \[\]"),
        ({**GOOD, "target": np.array([0, 1])}, r"got \[2, 3\] rows"),
        ({**GOOD, "target": np.array([0.0, np.nan, 1.0])}, "target: got float64"),
        ({**GOOD, "target": np.array([["a"]] * 3)}, "target: got <U1"),
        ({"x": np.zeros((0, 2), np.float32), "target": np.zeros(0)}, r"got \[0\] rows"),
    ],
)
def test_arrays_that_are_not_of_the_spec_are_refused(tmp_path: Path, stored: dict[str, Any], said: str) -> None:
    with pytest.raises(PackagingError, match=said):
        read_arrays(written(tmp_path, **stored), [X], columns=["target"])


class Bomb:
    """An object whose unpickling would be noticed."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (Path.touch, (Path("unpickled"),))


def test_pickled_objects_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    objects = np.array([Bomb(), None], dtype=object)
    with pytest.raises(PackagingError, match="without pickled objects"):
        read_arrays(written(tmp_path, x=objects), [X])
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(PackagingError, match="no readable arrays"):
        read_arrays(tmp_path / "raw.npz", [X])
    assert not (tmp_path / "unpickled").exists()


def test_a_missing_or_torn_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackagingError, match="no readable arrays"):
        read_arrays(tmp_path / "none.npz", [X])
    path = written(tmp_path, **GOOD)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PackagingError, match="no readable arrays"):
        read_arrays(path, [X])


def test_a_file_that_claims_more_than_memory_should_hold_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "MAX_BYTES", 1000)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(2000))
    with pytest.raises(PackagingError, match="got 2000 bytes of arrays; allowed 1000"):
        read_arrays(path, [X])
