"""Captured tensors as named columns, one value a row; the names are those of [drift] features and of baselines.

A matrix of a model with feature views has a column a field, then the context's. Of an image: `<tensor>.brightness` and
`<tensor>.contrast` (mean and deviation of its values), of a text `<tensor>.length` (bytes), of an output with labels
`<tensor>.<label>`, of one value a row `<tensor>`, of any other `<tensor>.<place>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from serving.errors import TelemetryError
from serving.features.context import CONTEXT_FIELDS
from serving.protocol.tensors import Array, InferRequest, InferResponse, Tensor
from serving.spec import DType, ModelSpec, TensorSpec

Floats = npt.NDArray[np.float64]
Extract = Callable[[Array], Floats]

_IMAGE_DIMENSIONS = 3
_MATRIX = 2


class Columns:
    """Takes the watched columns out of requests and answers of one model."""

    def __init__(self, spec: ModelSpec, watched: Sequence[str]) -> None:
        known = {
            name: (side, tensor.name, extract)
            for side, tensors in (("request", spec.inputs), ("answer", spec.outputs))
            for tensor in tensors
            for name, extract in _columns(spec, tensor, output=side == "answer")
        }
        unknown = [name for name in watched if name not in known]
        if unknown:
            raise TelemetryError(
                f"model {spec.name}: drift features: got {', '.join(unknown)}; allowed {', '.join(known)}; correct "
                f"[drift] features in models/{spec.name}/model.toml"
            )
        self._wanted = {name: known[name] for name in watched}

    def rows(self, request: InferRequest, response: InferResponse) -> dict[str, Floats]:
        """Give the columns of one request; all have its number of rows.

        Raises:
            TelemetryError: a tensor is missing or not of the declared shape.

        """
        tensors = {"request": _by_name(request.inputs), "answer": _by_name(response.outputs)}
        try:
            columns = {name: extract(tensors[side][of]) for name, (side, of, extract) in self._wanted.items()}
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise TelemetryError(
                f"captured request: got no usable tensor ({error!r}); allowed those of the spec"
            ) from error
        if len({column.size for column in columns.values()}) > 1:
            raise TelemetryError("captured request: got tensors of different numbers of rows; allowed one for all")
        return columns


def _by_name(tensors: Iterable[Tensor]) -> dict[str, Array]:
    return {tensor.name: tensor.array for tensor in tensors}


def _columns(spec: ModelSpec, tensor: TensorSpec, *, output: bool) -> Iterable[tuple[str, Extract]]:
    name, shape = tensor.name, tensor.shape
    if tensor.dtype is DType.BYTES:
        yield f"{name}.length", _length
    elif len(shape) == _IMAGE_DIMENSIONS:
        yield f"{name}.brightness", lambda array: _flat(array).mean(axis=1)
        yield f"{name}.contrast", lambda array: _flat(array).std(axis=1)
    elif len(shape) == 1 and shape[0] > 0:
        for place, column in enumerate(_names(spec, tensor, output=output)):
            yield column, _place(place, shape[0])


def _names(spec: ModelSpec, tensor: TensorSpec, *, output: bool) -> Sequence[str]:
    width = tensor.shape[0]
    fields = tuple(field for view in spec.features for field in view.fields) + CONTEXT_FIELDS
    if not output and spec.features and len(fields) == width:
        return fields
    if output and len(spec.api.labels) == width > 1:
        return tuple(f"{tensor.name}.{label}" for label in spec.api.labels)
    return (tensor.name,) if width == 1 else tuple(f"{tensor.name}.{place}" for place in range(width))


def _place(place: int, width: int) -> Extract:
    def extract(array: Array) -> Floats:
        if array.ndim != _MATRIX or array.shape[1] != width:
            raise ValueError(f"shape {list(array.shape)}, not [-1, {width}]")
        return np.asarray(array[:, place], dtype=np.float64)

    return extract


def _flat(array: Array) -> Floats:
    return np.asarray(array.reshape(len(array), -1), dtype=np.float64)


def _length(array: Array) -> Floats:
    return np.array([len(text) for text in array.reshape(-1)], dtype=np.float64)
