"""From a trained torch network to an ONNX graph that answers as it does; the same network gives the same bytes.

torch is imported where it is used: it is in no dependency group, and nothing but training needs it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version as installed
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from model_packaging.inference import Answer, Arrays, answers_of
from model_packaging.parity import FP32, check_parity
from serving.protocol.tensors import Array
from serving.spec.evidence import Parity, Tolerance
from serving.spec.model import ModelSpec
from serving.spec.runtime import TritonRuntime

# https://onnxruntime.ai/docs/reference/compatibility.html: opset 18 and IR 10 load in every ONNX Runtime since 1.18
IR_VERSION = 10
OPSET = 18

TOOLS = ("torch", "onnxscript", "onnx", "onnxruntime", "numpy")
"""Whose releases an exported graph and its parity depend on."""


def export_network(
    network: Any,  # noqa: ANN401 - a torch module
    inputs: Mapping[str, Any],
    *,
    output_names: Sequence[str],
    opset: int = OPSET,
    free: Mapping[str, Mapping[int, str]] = MappingProxyType({}),
) -> onnx.ModelProto:
    """Export with a free batch dimension `N`, constants folded; drop what depends on the machine it ran on.

    `inputs` are example tensors of at least two rows by name, in the order the network takes them; `free` names further
    free dimensions of an input by their place.
    """
    import torch  # noqa: PLC0415

    dims = {label: torch.export.Dim(label) for label in ("N", *(x for row in free.values() for x in row.values()))}
    shapes = [{0: dims["N"], **{at: dims[label] for at, label in free.get(name, {}).items()}} for name in inputs]
    # it says that torchvision is absent, that torch deprecates its own parts, that inputs share `N`: nothing to act on
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=FutureWarning)
        warnings.simplefilter("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="# The axis name")
        program: Any = torch.onnx.export(
            network.eval(),
            tuple(inputs.values()),
            dynamo=True,
            optimize=True,
            opset_version=opset,
            input_names=list(inputs),
            output_names=list(output_names),
            dynamic_shapes=tuple(shapes),
            verbose=False,
        )
    model = onnx.ModelProto()
    model.CopyFrom(program.model_proto)
    return tidy(model, ir_version=IR_VERSION)


def tidy(model: onnx.ModelProto, *, ir_version: int) -> onnx.ModelProto:
    """Remove stack traces, paths and shape notes of exporters and converters; keep what defines the function."""
    model.ir_version = ir_version
    model.doc_string = ""
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        tensor.doc_string = ""
        del tensor.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    return model


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write the bytes; equal models give equal files."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def torch_answers(network: Any, *, output_names: Sequence[str]) -> Answer:  # noqa: ANN401 - a torch module
    """Give a function that asks the network in eval mode, by the names of its inputs in their order."""
    import torch  # noqa: PLC0415

    def ask(arrays: Arrays) -> dict[str, Array]:
        network.eval()
        with torch.no_grad():
            answers = network(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays.values()))
        each = answers if isinstance(answers, tuple) else (answers,)
        return {name: answer.numpy() for name, answer in zip(output_names, each, strict=True)}

    return ask


def parity_with_torch(
    model: onnx.ModelProto,
    reference: Answer,
    spec: ModelSpec,
    *,
    samples: Iterable[Arrays] = (),
    tolerance: Tolerance = FP32,
) -> Parity:
    """Hold an exported graph against the network it came from, on 1, 3 and the most rows that are served at once.

    Args:
        model: the graph.
        reference: the network, for example `torch_answers(network, …)`; with what the graph does before and after it.
        spec: its inputs are drawn within their ranges.
        samples: real inputs, such as those held out from training.
        tolerance: what is accepted.

    Raises:
        PackagingError: an answer is beyond the tolerance.

    """
    largest = spec.runtime.max_batch_size if isinstance(spec.runtime, TritonRuntime) else 1
    return check_parity(
        answers_of(model),
        reference,
        inputs=spec.inputs,
        rows=sorted({1, min(3, max(1, largest)), max(1, largest)}),
        samples=samples,
        tolerance=tolerance,
        toolchain={tool: installed(tool) for tool in TOOLS},
    )
