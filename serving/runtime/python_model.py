"""A Python model of Triton's, run in the server's own process: `model.py` with `initialize`, `execute` and `finalize`.

Source: triton-inference-server/python_backend, README, *Usage*. Its packages are those of the server; an archive that
brings an interpreter of its own is refused.
"""

from __future__ import annotations

import importlib.util
import json
import queue
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from serving.errors import ArchiveError, InferenceError, InvalidRequestError, ModelFailedError
from serving.protocol.tensors import DTYPES, Array
from serving.runtime import pb_utils
from serving.runtime.jobs import Answer
from serving.runtime.runner import Runner
from serving.spec.tensors import DType, TensorSpec

_OWN_INTERPRETER = "environment.tar.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonPart:
    """What is run: the whole model or one step of an ensemble; `file` is its `model.py`, `max_rows` 0: no batches."""

    name: str
    version: str
    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_rows: int
    instances: int

    @property
    def where(self) -> str:
        """Name it in a message."""
        return f"{self.name} {self.version}"


class PythonModel(Runner):
    """Instances of `TritonPythonModel`, each of which does one batch at a time; requests stay requests.

    Raises:
        ArchiveError: it cannot be imported or does not initialise.

    """

    def __init__(self, part: PythonPart) -> None:
        self._part = part
        self._names = [tensor.name for tensor in part.inputs]
        self._asked = [tensor.name for tensor in part.outputs]
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._instances: list[Any] = []
        self.separate = self._answer
        module = _imported(part)
        try:
            for number in range(part.instances):
                self._instances.append(_initialised(module, part, number))
        except BaseException:
            self.close()
            raise
        for instance in self._instances:
            self._idle.put(instance)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Give the outputs of one request.

        Raises:
            ModelFailedError: the model raised, or gave what its spec does not say.
            InvalidRequestError: the model says that the request is wrong.

        """
        (answer,) = self._answer([arrays])
        if isinstance(answer, InferenceError):
            raise answer
        return answer

    def close(self) -> None:
        """Finalise every instance; what they raise on the way out concerns nobody."""
        for instance in self._instances:
            if hasattr(instance, "finalize"):
                try:
                    instance.finalize()
                except Exception as error:  # noqa: BLE001 - any, and the others are to be finalised too
                    pb_utils.Logger.log_warn(f"{self._part.where}: finalize raised {type(error).__name__}: {error}")
        self._instances.clear()
        folder = str(self._part.file.parent)
        if folder in sys.path:
            sys.path.remove(folder)

    def _answer(self, requests: Sequence[Sequence[Array]]) -> list[Answer]:
        given = [self._request(arrays) for arrays in requests]
        instance = self._idle.get()
        try:
            responses = instance.execute(given)
        except Exception as error:  # noqa: BLE001 - a model's own code
            raise ModelFailedError(
                f"model {self._part.where}: raised {type(error).__name__}: {error}; "
                f"allowed an answer; check the values of the request against the model's README"
            ) from None
        finally:
            self._idle.put(instance)
        if not isinstance(responses, list) or len(responses) != len(requests):
            got = f"{len(responses)} responses" if isinstance(responses, list) else type(responses).__name__
            raise ModelFailedError(
                f"model {self._part.where}: got {got} from execute; allowed a list of {len(requests)}, one a request"
            )
        return [self._outputs(response, arrays) for response, arrays in zip(responses, requests, strict=True)]

    def _request(self, arrays: Sequence[Array]) -> pb_utils.InferenceRequest:
        tensors = [pb_utils.Tensor(name, array) for name, array in zip(self._names, arrays, strict=True)]
        name = self._part.name
        return pb_utils.InferenceRequest(
            inputs=tensors, requested_output_names=self._asked, model_name=name, model_version=1
        )

    def _outputs(self, response: Any, arrays: Sequence[Array]) -> Answer:  # noqa: ANN401 - a model gives anything
        if not isinstance(response, pb_utils.InferenceResponse):
            return self._failed(f"got a {type(response).__name__} from execute; allowed an InferenceResponse")
        error = response.error()
        if error is not None:
            if error.code() == pb_utils.TritonError.INVALID_ARG:
                return InvalidRequestError(f"model {self._part.where}: {error.message()}")
            return ModelFailedError(f"model {self._part.where}: {error.message()}")
        rows = len(arrays[0]) if self._part.max_rows else None
        outputs = []
        for spec in self._part.outputs:
            tensor = pb_utils.get_output_tensor_by_name(response, spec.name)
            array = None if tensor is None else _plain(tensor.as_numpy(), spec)
            if array is None or not _fits(array, spec, rows):
                got = "none" if tensor is None else f"{tensor.as_numpy().dtype} {tensor.shape()}"
                shape = [*([] if rows is None else [rows]), *spec.shape]
                return self._failed(f"output {spec.name!r}: got {got}; allowed {spec.dtype} {shape}")
            outputs.append(array)
        return outputs

    def _failed(self, what: str) -> ModelFailedError:
        return ModelFailedError(f"model {self._part.where}: {what}; report it to the model's owner")


def _plain(array: Array, spec: TensorSpec) -> Array | None:
    """Give an output in the type of its spec: texts as bytes, whatever numpy has them in; None: another type."""
    if spec.dtype is not DType.BYTES:
        return np.ascontiguousarray(array) if array.dtype == DTYPES[spec.dtype] else None
    if array.dtype.kind not in "OSU":
        return None
    flat = np.empty(array.size, dtype=np.object_)
    flat[:] = [item if isinstance(item, bytes) else str(item).encode() for item in array.flat]
    return flat.reshape(array.shape)


def _fits(array: Array, spec: TensorSpec, rows: int | None) -> bool:
    shape = array.shape if rows is None else array.shape[1:]
    right = rows is None or (array.ndim > 0 and len(array) == rows)
    return (
        right
        and len(shape) == len(spec.shape)
        and all(want in (-1, size) for size, want in zip(shape, spec.shape, strict=True))
    )


def _imported(part: PythonPart) -> ModuleType:
    folder = part.file.parent
    if (folder.parent / _OWN_INTERPRETER).is_file():
        raise ArchiveError(
            f"{part.where}: got {_OWN_INTERPRETER}, an interpreter of its own; allowed models that this server's "
            f"own runs; it runs in the Triton container, not here"
        )
    pb_utils.install()
    spec = importlib.util.spec_from_file_location(f"streamhub_model_{part.name}", part.file)
    assert spec is not None  # noqa: S101 - the name ends in .py
    assert spec.loader is not None  # noqa: S101 - as above
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    before = set(sys.modules)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - a model's own code
        sys.path.remove(str(folder))
        raise ArchiveError(
            f"{part.where}: {part.file.name}: raised {type(error).__name__} when it was imported: {error}; "
            f"allowed code that this server's packages run; it may need the Triton container"
        ) from None
    finally:
        _forget(folder, set(sys.modules) - before)
    if not hasattr(module, "TritonPythonModel"):
        raise ArchiveError(f"{part.where}: {part.file.name}: got no class TritonPythonModel; allowed one; add it")
    return module


def _forget(folder: Path, names: set[str]) -> None:
    """Take the modules beside a model out of the table: another model's of the same name are others."""
    for name in names:
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin and Path(origin).is_relative_to(folder):
            del sys.modules[name]


def _initialised(module: ModuleType, part: PythonPart, number: int) -> Any:  # noqa: ANN401 - a model's own class
    try:
        instance = module.TritonPythonModel()
        if hasattr(instance, "initialize"):
            instance.initialize(_arguments(part, number))
    except Exception as error:  # noqa: BLE001 - a model's own code
        raise ArchiveError(
            f"{part.where}: {part.file.name}: raised {type(error).__name__} when it was initialised: {error}; "
            f"allowed code that this server's packages run; it may need the Triton container"
        ) from None
    return instance


def _arguments(part: PythonPart, number: int) -> dict[str, str]:
    return {
        "model_config": json.dumps(_config(part)),
        "model_instance_kind": "CPU",
        "model_instance_name": f"{part.name}_0_{number}",
        "model_instance_device_id": "0",
        "model_repository": str(part.file.parent.parent),
        "model_version": part.file.parent.name,
        "model_name": part.name,
    }


def _config(part: PythonPart) -> dict[str, Any]:
    """Give what follows from the spec of Triton's model configuration as JSON."""

    def tensors(group: Sequence[TensorSpec]) -> list[dict[str, Any]]:
        return [
            {"name": each.name, "data_type": pb_utils.type_name(each.dtype.value), "dims": list(each.shape) or [1]}
            for each in group
        ]

    return {
        "name": part.name,
        "backend": "python",
        "max_batch_size": part.max_rows,
        "input": tensors(part.inputs),
        "output": tensors(part.outputs),
        "instance_group": [{"kind": "KIND_CPU", "count": part.instances}],
        "parameters": {},
    }
