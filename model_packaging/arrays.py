"""Calibration and evaluation sets: NumPy's `.npz`, never pickled, held against the spec before anything is run."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from serving.errors import PackagingError
from serving.protocol.tensors import DTYPES, Array
from serving.spec.tensors import DType, TensorSpec

MAX_BYTES = 1 << 30
"""Of the arrays in memory: a calibration set is a sample, and a zip file may claim any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySet:
    """Rows of a model's inputs, and the columns that go with them (`target`, `group`); `sha256` is the file's."""

    inputs: Mapping[str, Array]
    columns: Mapping[str, Array]
    rows: int
    sha256: str


def read_arrays(path: Path, inputs: Sequence[TensorSpec], *, columns: Sequence[str] = ()) -> ArraySet:
    """Read a set that has every input by name and exactly these further columns, one value a row.

    Raises:
        PackagingError: no such file, or not such arrays; all reasons, a line each.

    """
    try:
        data = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            claimed = sum(entry.file_size for entry in archive.infolist())
        if claimed > MAX_BYTES:
            raise PackagingError(f"{path.name}: got {claimed} bytes of arrays; allowed {MAX_BYTES}; take fewer rows")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise PackagingError(
            f"{path.name}: got no readable arrays ({error}); allowed NumPy's .npz without pickled objects; "
            f"write it with numpy.savez_compressed"
        ) from None
    if problems := list(_problems(arrays, inputs, columns)):
        raise PackagingError("\n".join(f"{path.name}: {problem}" for problem in problems))
    by_name = {spec.name: _as_bytes(arrays[spec.name], spec) for spec in inputs}
    return ArraySet(
        inputs=by_name,
        columns={name: arrays[name] for name in columns},
        rows=len(arrays[inputs[0].name]),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _problems(arrays: Mapping[str, Array], inputs: Sequence[TensorSpec], columns: Sequence[str]) -> Iterator[str]:
    named = {spec.name: spec for spec in inputs}
    wanted = [*named, *columns]
    if sorted(arrays) != sorted(wanted):
        yield f"got the arrays {', '.join(sorted(arrays)) or 'none'}; allowed {', '.join(sorted(wanted))}; rename them"
        return
    for name, spec in named.items():
        yield from _misfit(name, arrays[name], spec)
    for name in columns:
        column = arrays[name]
        if column.ndim != 1 or column.dtype.kind not in "biuf" or not np.isfinite(column).all():
            yield f"{name}: got {column.dtype} {list(column.shape)}; allowed finite numbers, one a row; correct it"
    sizes = {len(array) for array in arrays.values() if array.ndim}
    if len(sizes) != 1 or sizes == {0}:
        yield f"got {sorted(sizes)} rows; allowed one number of rows, 1 or more; write all arrays of the same rows"


def _misfit(name: str, array: Array, spec: TensorSpec) -> Iterator[str]:
    fits = array.dtype.kind in "SU" if spec.dtype is DType.BYTES else array.dtype == DTYPES[spec.dtype.value]
    if not fits:
        yield f"{name}: got {array.dtype}; allowed {spec.dtype.value} of model.toml; write it in that type"
    row = array.shape[1:]
    if len(row) != len(spec.shape) or any(want not in {-1, have} for want, have in zip(spec.shape, row, strict=True)):
        yield f"{name}: got rows of {list(row)}; allowed {list(spec.shape)} of model.toml; correct them"


def _as_bytes(array: Array, spec: TensorSpec) -> Array:
    if spec.dtype is not DType.BYTES:
        return array
    texts = np.empty(array.size, dtype=np.object_)
    texts[:] = [item if isinstance(item, bytes) else item.encode() for item in array.ravel().tolist()]
    return texts.reshape(array.shape)
