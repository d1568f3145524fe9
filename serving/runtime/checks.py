"""A request against the tensors its model was trained with, alone and before it meets any other request."""

from __future__ import annotations

from serving.errors import InvalidRequestError
from serving.protocol.served import ServedModel
from serving.protocol.tensors import DTYPES, Array, InferRequest
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

Signature = tuple[tuple[int, ...], ...]


class RequestCheck:
    """What one model takes; compiled once, because it runs for every request."""

    def __init__(self, served: ServedModel, *, max_rows: int) -> None:
        self._max_rows = max_rows
        runtime = served.runtime
        self.batched = not isinstance(runtime, TritonRuntime) or runtime.max_batch_size > 0
        """Whether the first dimension of every tensor is rows; else a request is one tensor of each, as they are."""
        self._inputs = served.inputs
        self._texts = not isinstance(runtime, TritonRuntime) or runtime.backend == "onnxruntime"
        """Whether BYTES are texts, which is all that a graph knows; a Python model may take an image in them."""
        self._order = {tensor.name: number for number, tensor in enumerate(served.inputs)}
        self._dtypes = tuple(DTYPES[tensor.dtype] for tensor in served.inputs)
        self._ranks = tuple(len(tensor.shape) + self.batched for tensor in served.inputs)
        self._outputs = frozenset(tensor.name for tensor in served.outputs)
        self._varies = any(size < 0 for tensor in served.inputs for size in tensor.shape)

    def arrays(self, request: InferRequest) -> list[Array]:
        """Give the inputs in the model's order, all of the same number of rows.

        Raises:
            InvalidRequestError: a name, a type, a shape or a number of rows that the model does not take.

        """
        inputs = request.inputs
        if len(inputs) == 1 == len(self._inputs):
            arrays = [inputs[0].array]
            if inputs[0].name not in self._order:
                raise self._names(request)
        else:
            by_name = {tensor.name: tensor.array for tensor in inputs}
            if by_name.keys() != self._order.keys():
                raise self._names(request)
            arrays = [by_name[tensor.name] for tensor in self._inputs]
        rows = self.rows(arrays)
        for number, array in enumerate(arrays):
            self._one(number, array, rows)
        if request.outputs and not self._outputs.issuperset(request.outputs):
            raise InvalidRequestError(
                f"outputs: got {', '.join(map(repr, request.outputs))}; allowed {', '.join(sorted(self._outputs))}; "
                f"leave outputs out to get all"
            )
        return arrays

    def rows(self, arrays: list[Array]) -> int:
        """Give how many rows a request has; 1 without a batch dimension, 0 for what has no dimension at all."""
        if not self.batched:
            return 1
        return len(arrays[0]) if arrays[0].ndim else 0

    def signature(self, arrays: list[Array]) -> Signature:
        """Give what requests must share to be in one batch: the sizes that vary."""
        return tuple(array.shape[1:] for array in arrays) if self._varies and self.batched else ()

    def _one(self, number: int, array: Array, rows: int) -> None:
        tensor = self._inputs[number]
        if array.dtype != self._dtypes[number]:
            raise InvalidRequestError(
                f"tensor {tensor.name!r}: datatype: got {array.dtype}; allowed {tensor.dtype}; send that type"
            )
        shape = array.shape
        sizes = shape[1:] if self.batched else shape
        right = len(shape) == self._ranks[number] and (
            sizes == tensor.shape or all(want in (-1, size) for size, want in zip(sizes, tensor.shape, strict=True))
        )
        if right and self.batched:
            right = 1 <= rows <= self._max_rows and shape[0] == rows
        if not right or 0 in shape:
            raise self._shape(tensor, array, rows)
        if tensor.dtype is DType.BYTES and self._texts:
            _texts(tensor.name, array)

    def _names(self, request: InferRequest) -> InvalidRequestError:
        return InvalidRequestError(
            f"inputs: got {', '.join(repr(tensor.name) for tensor in request.inputs)}; "
            f"allowed exactly {', '.join(map(repr, self._order))}; send each once"
        )

    def _shape(self, tensor: TensorSpec, array: Array, rows: int) -> InvalidRequestError:
        sizes = ", ".join(["rows"] * self.batched + ["any" if size < 0 else str(size) for size in tensor.shape])
        if not self.batched:
            return InvalidRequestError(
                f"tensor {tensor.name!r}: shape: got {list(array.shape)}; allowed [{sizes}], "
                f"since the model takes no batches; send one such tensor a request"
            )
        return InvalidRequestError(
            f"tensor {tensor.name!r}: shape: got {list(array.shape)} of {rows} rows; allowed [{sizes}] with "
            f"1 to {self._max_rows} rows, the same in every input; send more rows as several requests"
        )


def _texts(name: str, array: Array) -> None:
    try:
        for item in array.flat:
            item.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"tensor {name!r}: got bytes that are no UTF-8 ({error}); allowed texts; encode them as UTF-8"
        ) from None
