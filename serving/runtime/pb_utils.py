"""What a Python model of Triton imports as `triton_python_backend_utils`: the part of it that works without Triton.

Names and meanings are those of triton-inference-server/python_backend (README, *Usage*; src/resources/
triton_python_backend_utils.py). Calls to other models, decoupled answers and tensors on a GPU are not here: they raise.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from serving.protocol.tensors import DTYPES, Array

MODULE = "triton_python_backend_utils"

_TYPE = "TYPE_"
_STRING = "STRING"
_BYTES = "BYTES"


class TritonModelException(Exception):  # noqa: N818 - Triton's name
    """What a model raises when it cannot answer."""


class TritonError:
    """Why one request of a batch has no answer."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message = message
        self._code = code

    def message(self) -> str:
        """Give the text."""
        return self._message

    def code(self) -> int:
        """Give the kind."""
        return self._code


class Tensor:
    """A named array; texts are objects of `bytes` (of `str` too, in an answer)."""

    def __init__(self, name: str, array: Array) -> None:
        if not isinstance(array, np.ndarray):
            raise TritonModelException(f"tensor {name!r}: got a {type(array).__name__}; allowed a numpy array")
        self._name = name
        self._array = array

    def name(self) -> str:
        """Give its name."""
        return self._name

    def as_numpy(self) -> Array:
        """Give the array."""
        return self._array

    def triton_dtype(self) -> int:
        """Give the number of its type in model_config.proto."""
        return _NUMBERS[np.dtype(self._array.dtype)]

    def shape(self) -> list[int]:
        """Give its sizes, rows first."""
        return list(self._array.shape)

    def is_cpu(self) -> bool:
        """Say where it lies."""
        return True

    def to_dlpack(self, stream: Any = None) -> Any:  # noqa: ANN401 - a capsule
        """Share its memory with another library."""
        return self._array.__dlpack__(stream=stream)

    @staticmethod
    def from_dlpack(name: str, other: Any) -> Tensor:  # noqa: ANN401 - of any library
        """Take the memory of another library's tensor on the CPU."""
        return Tensor(name, np.from_dlpack(other))


class InferenceRequest:
    """One request of a batch, with its own rows."""

    def __init__(  # noqa: PLR0917 - as in Triton
        self,
        request_id: str = "",
        correlation_id: int = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        **others: Any,  # noqa: ANN401 - Triton has more every year
    ) -> None:
        del others
        self._request_id = request_id
        self._correlation_id = correlation_id
        self._inputs = list(inputs)
        self._names = list(requested_output_names)
        self._model = model_name, model_version

    def inputs(self) -> list[Tensor]:
        """Give its tensors."""
        return self._inputs

    def requested_output_names(self) -> list[str]:
        """Give the outputs that are asked for."""
        return self._names

    def request_id(self) -> str:
        """Give the client's id, which does not reach a model here."""
        return self._request_id

    def correlation_id(self) -> int:
        """Give the sequence it belongs to: none."""
        return self._correlation_id

    def model_name(self) -> str:
        """Give the model it is for."""
        return self._model[0]

    def parameters(self) -> str:
        """Give the client's parameters as JSON, which do not reach a model here."""
        return "{}"

    def flags(self) -> int:
        """Give the flags of a sequence: none."""
        return 0

    def timeout(self) -> int:
        """Give the time left in microseconds; 0: the server sees to it."""
        return 0

    def preferred_memory(self) -> None:
        """Give where answers should lie: anywhere."""

    def is_cancelled(self) -> bool:
        """Say whether the client is gone; one that is does not get so far."""
        return False

    def exec(self, **_: Any) -> NoReturn:  # noqa: ANN401 - Triton's name
        """Call another model, which this server does not do for a model."""
        raise _absent(
            "a request to another model (InferenceRequest.exec)", "make the other model a step of an ensemble"
        )

    async_exec = exec  # noqa: A003 - as above

    def get_response_sender(self) -> NoReturn:
        """Answer more than once, which this server does not do."""
        raise _absent("a decoupled answer (get_response_sender)", "return one answer a request")


class InferenceResponse:
    """The outputs of one request, or why there are none."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self._tensors = list(output_tensors)
        self._error = error

    def output_tensors(self) -> list[Tensor]:
        """Give its tensors."""
        return self._tensors

    def has_error(self) -> bool:
        """Say whether there is no answer."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """Say why there is none."""
        return self._error


class Logger:
    """Triton's log, which is this server's."""

    _log = logging.getLogger("streamhub.model")

    @classmethod
    def log(cls, message: str, level: int = 0) -> None:
        """Write a line of Triton's level 0 (info), 1 (warning), 2 (error) or 3 (verbose)."""
        cls._log.log({1: logging.WARNING, 2: logging.ERROR, 3: logging.DEBUG}.get(level, logging.INFO), "%s", message)

    @classmethod
    def log_info(cls, message: str) -> None:
        """Write a line."""
        cls.log(message, 0)

    @classmethod
    def log_warn(cls, message: str) -> None:
        """Write a warning."""
        cls.log(message, 1)

    @classmethod
    def log_error(cls, message: str) -> None:
        """Write an error."""
        cls.log(message, 2)

    @classmethod
    def log_verbose(cls, message: str) -> None:
        """Write what only a developer reads."""
        cls.log(message, 3)


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Tensor | None:
    """Find an input; None: there is none."""
    return next((tensor for tensor in request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(response: InferenceResponse, name: str) -> Tensor | None:
    """Find an output; None: there is none."""
    return next((tensor for tensor in response.output_tensors() if tensor.name() == name), None)


def get_input_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Find an input of the configuration that `initialize` got, once it is parsed; None: there is none."""
    return next((each for each in model_config.get("input", ()) if each["name"] == name), None)


def get_output_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Find an output of the configuration that `initialize` got, once it is parsed; None: there is none."""
    return next((each for each in model_config.get("output", ()) if each["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config: dict[str, Any]) -> bool:
    """Say whether a model answers more than once."""
    policy = model_config.get("model_transaction_policy") or {}
    return bool(policy.get("decoupled", False))


def triton_string_to_numpy(triton_type: str) -> Any:  # noqa: ANN401 - a scalar type
    """Give the array type of `TYPE_FP32` and the like."""
    name = triton_type.removeprefix(_TYPE)
    return DTYPES[_BYTES if name == _STRING else name].type


def numpy_to_triton_type(data_type: Any) -> int:  # noqa: ANN401 - a scalar type
    """Give the number of an array type in model_config.proto."""
    return _NUMBERS[np.dtype(data_type)]


def triton_to_numpy_type(data_type: int) -> Any:  # noqa: ANN401 - a scalar type
    """Give the array type of a number in model_config.proto."""
    return next(dtype.type for dtype, number in _NUMBERS.items() if number == data_type)


def type_name(dtype: str) -> str:
    """Give the name in model_config.proto of a type of the Open Inference Protocol."""
    return _TYPE + (_STRING if dtype == _BYTES else dtype)


def install() -> None:
    """Let models import this as `triton_python_backend_utils`."""
    if MODULE not in sys.modules:
        module = ModuleType(MODULE, __doc__)
        module.__dict__.update({name: value for name, value in globals().items() if name in _PUBLIC})
        sys.modules[MODULE] = module


def _absent(got: str, fix: str) -> TritonModelException:
    return TritonModelException(f"model: got {got}; allowed in Triton only; {fix}")


# model_config.proto, enum DataType, after TYPE_INVALID = 0
_INTEGERS = ("UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64")
_ORDER = ("BOOL", *_INTEGERS, "FP16", "FP32", "FP64", "BYTES")
_NUMBERS = {DTYPES[name]: number for number, name in enumerate(_ORDER, start=1)}
_PUBLIC = frozenset(
    {
        "InferenceRequest",
        "InferenceResponse",
        "Logger",
        "Tensor",
        "TritonError",
        "TritonModelException",
        "get_input_config_by_name",
        "get_input_tensor_by_name",
        "get_output_config_by_name",
        "get_output_tensor_by_name",
        "numpy_to_triton_type",
        "triton_string_to_numpy",
        "triton_to_numpy_type",
        "using_decoupled_model_transaction_policy",
    }
)
