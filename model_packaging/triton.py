"""A Triton model repository of one ONNX model: its `config.pbtxt` and its warm-up data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model_packaging.archive import Member
from serving.protocol.elements import to_bytes
from serving.protocol.served import FILE_NAME, ServedModel
from serving.protocol.tensors import Tensor
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

_SCALAR_DIMS = (1,)
_MICROSECONDS_PER_MS = 1000
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Word:
    """A name of an enumeration: written without quotes."""

    text: str


Value = str | int | bool | Word | Sequence["Field"]
Field = tuple[str, "Value"]


def layout(served: ServedModel, *, weights: Path | bytes, sample: bytes, first_row: Sequence[Tensor]) -> list[Member]:
    """Give the members of the archive: one folder of the model's name, as Triton's SageMaker frontend wants it.

    Args:
        served: what the archive says of the model.
        weights: the ONNX file, or its bytes.
        sample: `samples/request.json`.
        first_row: one row of each input, for the warm-up.

    """
    top = served.name
    return [
        Member(f"{top}/config.pbtxt", config_pbtxt(served, first_row).encode()),
        Member(f"{top}/{FILE_NAME}", served.to_json()),
        Member(f"{top}/1/model.onnx", weights),
        Member(f"{top}/samples/request.json", sample),
        *(Member(f"{top}/warmup/{tensor.name}", to_bytes(tensor.array)) for tensor in first_row),
    ]


def config_pbtxt(served: ServedModel, first_row: Sequence[Tensor]) -> str:
    """Write Triton's `ModelConfig` of a model as protobuf text, with nothing that matters left to defaults.

    A request that has waited as long as its deadline is refused: nobody would read its answer.
    """
    runtime = served.runtime
    if not isinstance(runtime, TritonRuntime):
        raise TypeError(f"{served.name} is a {runtime.kind} model")
    fields: list[Field] = [
        ("name", served.name),
        ("backend", "onnxruntime"),
        ("platform", "onnxruntime_onnx"),
        ("max_batch_size", runtime.max_batch_size),
        *(("input", _tensor(spec)) for spec in served.inputs),
        *(("output", _tensor(spec)) for spec in served.outputs),
        ("instance_group", [("kind", Word(f"KIND_{runtime.device.upper()}")), ("count", runtime.instances)]),
    ]
    if runtime.max_batch_size:
        fields.append(("dynamic_batching", _batching(runtime, deadline_ms=served.deadline_ms)))
    if first_row:
        sizes = sorted({1, max(1, runtime.max_batch_size)})
        fields += [("model_warmup", _warmup(size, first_row)) for size in sizes]
    return "".join(_lines(fields, ""))


def _batching(runtime: TritonRuntime, *, deadline_ms: float) -> list[Field]:
    policy: list[Field] = [
        ("timeout_action", Word("REJECT")),
        ("default_timeout_microseconds", _microseconds(deadline_ms)),
        ("allow_timeout_override", True),
        ("max_queue_size", runtime.max_queue_size),
    ]
    return [
        ("max_queue_delay_microseconds", _microseconds(runtime.max_queue_delay_ms)),
        ("default_queue_policy", policy),
    ]


def _microseconds(milliseconds: float) -> int:
    return round(milliseconds * _MICROSECONDS_PER_MS)


def _tensor(spec: TensorSpec) -> list[Field]:
    fields: list[Field] = [("name", spec.name), ("data_type", _data_type(spec.dtype))]
    fields += [("dims", size) for size in (spec.shape or _SCALAR_DIMS)]
    if not spec.shape:  # Triton wants a dimension beside the batch; reshape takes it away before the model
        fields.append(("reshape", []))
    return fields


def _data_type(dtype: DType) -> Word:
    return Word("TYPE_STRING" if dtype is DType.BYTES else f"TYPE_{dtype.value}")


def _warmup(size: int, first_row: Sequence[Tensor]) -> list[Field]:
    inputs: list[Field] = []
    for tensor in first_row:
        value: list[Field] = [("data_type", _data_type(DType(tensor.datatype)))]
        value += [("dims", length) for length in (tensor.array.shape[1:] or _SCALAR_DIMS)]
        value.append(("input_data_file", tensor.name))
        inputs.append(("inputs", [("key", tensor.name), ("value", value)]))
    kind: Literal["lone", "full"] = "lone" if size == 1 else "full"
    return [("name", kind), ("batch_size", size), *inputs]


def _lines(fields: Sequence[Field], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in fields:
        if isinstance(value, (str, int, Word)):
            lines.append(f"{indent}{key}: {_scalar(value)}\n")
        else:
            lines += [f"{indent}{key} {{\n", *_lines(value, indent + _INDENT), f"{indent}}}\n"]
    return lines


def _scalar(value: str | int | Word) -> str:
    if isinstance(value, Word):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return '"' + "".join(_escaped(byte) for byte in value.encode()) + '"'


def _escaped(byte: int) -> str:
    """Write one byte of a string as the text format wants it: printable ASCII as it is, the rest in octal."""
    text = chr(byte)
    if text in {'"', "\\"}:
        return f"\\{text}"
    return text if " " <= text <= "~" else f"\\{byte:03o}"
