"""Models of every kind that a Triton archive is made for, each as a spec, its weights and a sample request."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import orjson
from onnx import TensorProto, helper, numpy_helper

from serving.spec.hosting import HostingSpec
from serving.spec.model import ApiSpec, BudgetSpec, ModelSpec, Slo, VersionSpec
from serving.spec.runtime import BatchInputSpec, EnsembleStepSpec, TritonRuntime
from serving.spec.scaling import ScalingSpec
from serving.spec.tensors import DType, TensorSpec

Nodes = Sequence[onnx.NodeProto]
CPU = TritonRuntime(device="cpu", max_batch_size=4)


def tensor(name: str, dtype: str, *shape: int, ragged: bool = False) -> TensorSpec:
    return TensorSpec(name=name, dtype=DType(dtype), shape=shape, ragged=ragged)


@dataclass(frozen=True, kw_only=True)
class Model:
    """One entry of the zoo; `write` puts its weights into a folder and gives their path."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    write: Callable[[Path], Path]
    data: dict[str, tuple[list[int], list[Any]]] = field(default_factory=dict)
    runtime: TritonRuntime = CPU

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec(
            name=self.name,
            owner="team",
            description="A model of the zoo.",
            licence="Apache-2.0",
            runtime=self.runtime,
            slo=Slo(peak_qps=10, p99_ms=50),
            inputs=self.inputs,
            outputs=self.outputs,
            api=ApiSpec(route=f"/v1/{self.name.replace('_', '-')}", unit="id"),
            hosting=HostingSpec(instance_type="ml.c6i.large", scaling=ScalingSpec(target_concurrency=4)),
            budget=BudgetSpec(invoke_ms=40, overhead_ms=10, deadline_ms=100),
            versions={"1.0.0": VersionSpec(weights="weights")},
        )

    @property
    def sample(self) -> bytes:
        rows = [
            {
                "name": each.name,
                "datatype": each.dtype.value,
                "shape": self.data[each.name][0],
                "data": self.data[each.name][1],
            }
            for each in self.inputs
            if each.name in self.data
        ]
        return orjson.dumps({"inputs": rows})


ELEMENTS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}
"""The numbers of onnx.proto, by the words of the Open Inference Protocol."""

Value = tuple[str, str, Sequence[int | str]]


def graph(
    inputs: Sequence[Value], outputs: Sequence[Value], nodes: Nodes, constants: dict[str, Any] | None = None
) -> Callable[[Path], Path]:
    """Give a writer of an ONNX file; a size that is a text varies."""

    def write(folder: Path) -> Path:
        info = [
            [helper.make_tensor_value_info(name, ELEMENTS[dtype], shape) for name, dtype, shape in part]
            for part in (inputs, outputs)
        ]
        initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 4)]
        model = helper.make_model(
            helper.make_graph(list(nodes), "zoo", *info, initial), opset_imports=opsets, ir_version=9
        )
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        return path

    return write


node = helper.make_node


def cast(source: str, target: str, dtype: str = "FP32") -> onnx.NodeProto:
    return node("Cast", [source], [target], to=ELEMENTS[dtype])


PYTHON_DOUBLE = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", (x * 2).astype(np.float32))]))
        return answers
"""

PYTHON_LENGTHS = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
            lengths = np.array([[len(item) for item in row] for row in texts], dtype=np.float32)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("x", np.repeat(lengths, 2, axis=1))]))
        return answers
"""

PYTHON_LABEL = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            score = pb_utils.get_input_tensor_by_name(request, "score").as_numpy()
            label = np.where(score > 9.0, b"long", b"short").astype(np.object_)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("label", label)]))
        return answers
"""


def python(source: str, *, below: str = "") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        into = folder / below if below else folder / "python"
        into.mkdir()
        (into / "model.py").write_text(source)
        return into

    return write


def archive(name: str, members: dict[str, bytes]) -> Callable[[Path], Path]:
    """Give a writer of a zip with the members by which torch's own formats are known."""

    def write(folder: Path) -> Path:
        path = folder / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for member, data in members.items():
                target.writestr(member, data)
        return path

    return write


def steps(*writers: tuple[str, Callable[[Path], Path]]) -> Callable[[Path], Path]:
    """Give a writer of an ensemble's folder: a file or folder a step, named after it."""

    def write(folder: Path) -> Path:
        into = folder / "steps"
        into.mkdir()
        for name, writer in writers:
            made = writer(into)
            made.rename(into / f"{name}{made.suffix}")
        return into

    return write


SUM = graph(
    [("x", "FP32", ["N", 2])],
    [("y", "FP32", ["N", 1])],
    [node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)],
    {"axes": np.array([1])},
)

X2, Y1 = tensor("x", "FP32", 2), tensor("y", "FP32", 1)

ENSEMBLE_STEPS = (
    EnsembleStepSpec(name="lengths", backend="python", inputs=(tensor("text", "BYTES", 1),), outputs=(X2,)),
    EnsembleStepSpec(name="total", backend="onnxruntime", inputs=(X2,), outputs=(Y1,), writes={"y": "score"}),
    EnsembleStepSpec(
        name="words", backend="python", inputs=(tensor("score", "FP32", 1),), outputs=(tensor("label", "BYTES", 1),)
    ),
)

PYTHON_STEPS = (
    replace(ENSEMBLE_STEPS[0], writes={"x": "lengths_of_both"}),
    replace(
        ENSEMBLE_STEPS[2],
        inputs=(tensor("score", "FP32", 2),),
        outputs=(tensor("label", "BYTES", 2),),
        reads={"score": "lengths_of_both"},
    ),
)

ONNX = (
    Model(
        name="text",
        inputs=(tensor("title", "BYTES", 1),),
        outputs=(Y1,),
        write=graph(
            [("title", "BYTES", ["N", 1])],
            [("y", "FP32", ["N", 1])],
            [
                node(
                    "LabelEncoder",
                    ["title"],
                    ["y"],
                    domain="ai.onnx.ml",
                    keys_strings=["a", "b"],
                    values_floats=[1.0, 2.0],
                )
            ],
        ),
        data={"title": ([2, 1], ["a", "grüße"])},
    ),
    Model(
        name="image",
        inputs=(tensor("image", "UINT8", 4, 4, 3),),
        outputs=(tensor("mean", "FP32", 3),),
        write=graph(
            [("image", "UINT8", ["N", 4, 4, 3])],
            [("mean", "FP32", ["N", 3])],
            [cast("image", "f"), node("ReduceMean", ["f", "axes"], ["mean"], keepdims=0)],
            {"axes": np.array([1, 2])},
        ),
        data={"image": ([1, 4, 4, 3], list(range(48)))},
    ),
    Model(
        name="two_inputs",
        inputs=(X2, tensor("count", "INT64", 2)),
        outputs=(tensor("y", "FP32", 2),),
        write=graph(
            [("x", "FP32", ["N", 2]), ("count", "INT64", ["N", 2])],
            [("y", "FP32", ["N", 2])],
            [cast("count", "c"), node("Mul", ["x", "c"], ["y"])],
        ),
        data={"x": ([1, 2], [1.5, 2.0]), "count": ([1, 2], [2, 3])},
    ),
    Model(
        name="ragged",
        inputs=(tensor("tokens", "INT64", -1, ragged=True),),
        outputs=(Y1,),
        runtime=replace(CPU, batch_inputs=(BatchInputSpec(name="ends", source="tokens"),)),
        write=graph(
            [("tokens", "INT64", ["T"]), ("ends", "INT32", ["N"])],
            [("y", "FP32", ["N", 1])],
            [
                node("ReduceSum", ["tokens"], ["total"], keepdims=0),
                cast("total", "t"),
                cast("ends", "e"),
                node("Add", ["e", "t"], ["s"]),
                node("Unsqueeze", ["s", "axes"], ["y"]),
            ],
            {"axes": np.array([1])},
        ),
        data={"tokens": ([2, 3], [1, 2, 3, 4, 5, 6])},
    ),
    Model(
        name="no_batch",
        inputs=(tensor("x", "FP32", 2, 3),),
        outputs=(tensor("y", "FP32", 2),),
        runtime=replace(CPU, max_batch_size=0),
        write=graph(
            [("x", "FP32", [2, 3])],
            [("y", "FP32", [2])],
            [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
            {"axes": np.array([1])},
        ),
        data={"x": ([2, 3], [1, 2, 3, 4, 5, 6])},
    ),
    Model(
        name="bytes_out",
        inputs=(tensor("code", "INT64", 1),),
        outputs=(tensor("label", "BYTES", 1),),
        write=graph(
            [("code", "INT64", ["N", 1])],
            [("label", "BYTES", ["N", 1])],
            [
                node(
                    "LabelEncoder",
                    ["code"],
                    ["label"],
                    domain="ai.onnx.ml",
                    keys_int64s=[1, 2],
                    values_strings=["no", "yes"],
                )
            ],
        ),
        data={"code": ([2, 1], [1, 2])},
    ),
    Model(
        name="scalar",
        inputs=(tensor("x", "FP32"),),
        outputs=(tensor("y", "FP32"),),
        write=graph([("x", "FP32", ["N"])], [("y", "FP32", ["N"])], [node("Sigmoid", ["x"], ["y"])]),
        data={"x": ([3], [0.0, 1.0, -1.0])},
    ),
    Model(
        name="dynamic",
        inputs=(tensor("x", "FP32", -1, 4),),
        outputs=(tensor("y", "FP32", 4),),
        write=graph(
            [("x", "FP32", ["N", "L", 4])],
            [("y", "FP32", ["N", 4])],
            [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
            {"axes": np.array([1])},
        ),
        data={"x": ([1, 2, 4], [1, 2, 3, 4, 5, 6, 7, 8])},
    ),
    Model(
        name="half",
        inputs=(tensor("x", "FP16", 2),),
        outputs=(tensor("y", "FP16", 1),),
        write=graph(
            [("x", "FP16", ["N", 2])],
            [("y", "FP16", ["N", 1])],
            [node("MatMul", ["x", "w"], ["y"])],
            {"w": np.array([[1.0], [2.0]], dtype=np.float16)},
        ),
        data={"x": ([1, 2], [0.5, 0.25])},
    ),
    Model(
        name="bytes_in_eight",
        inputs=(tensor("x", "INT8", 4),),
        outputs=(Y1,),
        write=graph(
            [("x", "INT8", ["N", 4])],
            [("y", "FP32", ["N", 1])],
            [cast("x", "f"), node("ReduceSum", ["f", "axes"], ["y"], keepdims=1)],
            {"axes": np.array([1])},
        ),
        data={"x": ([1, 4], [-128, 0, 1, 127])},
    ),
    Model(
        name="two_outputs",
        inputs=(tensor("x", "FP32", 3),),
        outputs=(tensor("score", "FP32", 3), tensor("best", "INT64", 1)),
        write=graph(
            [("x", "FP32", ["N", 3])],
            [("score", "FP32", ["N", 3]), ("best", "INT64", ["N", 1])],
            [node("Softmax", ["x"], ["score"], axis=1), node("ArgMax", ["x"], ["best"], axis=1, keepdims=1)],
        ),
        data={"x": ([1, 3], [1, 3, 2])},
    ),
    Model(
        name="integers",
        inputs=(tensor("a", "UINT16", 1), tensor("b", "UINT32", 1), tensor("c", "UINT64", 1), tensor("d", "INT16", 1)),
        outputs=(tensor("y", "FP64", 4),),
        write=graph(
            [("a", "UINT16", ["N", 1]), ("b", "UINT32", ["N", 1]), ("c", "UINT64", ["N", 1]), ("d", "INT16", ["N", 1])],
            [("y", "FP64", ["N", 4])],
            [
                *(cast(name, f"{name}_", "FP64") for name in "abcd"),
                node("Concat", ["a_", "b_", "c_", "d_"], ["y"], axis=1),
            ],
        ),
        data={"a": ([1, 1], [65535]), "b": ([1, 1], [4294967295]), "c": ([1, 1], [1 << 60]), "d": ([1, 1], [-32768])},
    ),
    Model(
        name="masked",
        inputs=(tensor("x", "FP64", 2), tensor("keep", "BOOL", 2)),
        outputs=(tensor("y", "FP64", 2),),
        write=graph(
            [("x", "FP64", ["N", 2]), ("keep", "BOOL", ["N", 2])],
            [("y", "FP64", ["N", 2])],
            [cast("keep", "k", "FP64"), node("Mul", ["x", "k"], ["y"])],
        ),
        data={"x": ([1, 2], [1.0, 2.0]), "keep": ([1, 2], [True, False])},
    ),
    Model(
        name="brain",
        inputs=(tensor("x", "BF16", 2),),
        outputs=(tensor("y", "FP32", 2),),
        write=graph([("x", "BF16", ["N", 2])], [("y", "FP32", ["N", 2])], [cast("x", "y")]),
    ),
)

TORCH = (
    Model(
        name="scripted",
        inputs=(tensor("INPUT__0", "FP32", 2),),
        outputs=(tensor("OUTPUT__0", "FP32", 1),),
        runtime=replace(CPU, backend="pytorch"),
        write=archive("module.pt", {"module/code/__torch__.py": b"class M(Module):\n", "module/version": b"3\n"}),
        data={"INPUT__0": ([1, 2], [1.0, 2.0])},
    ),
    Model(
        name="compiled",
        inputs=(tensor("INPUT__0", "FP32", 2),),
        outputs=(tensor("OUTPUT__0", "FP32", 1),),
        runtime=replace(CPU, backend="pytorch"),
        write=archive(
            "module.pt2",
            {
                "module/archive_format": b"pt2",
                "module/data/aotinductor/model/m.wrapper_metadata.json": b'{"AOTI_DEVICE_KEY": "cpu"}',
            },
        ),
        data={"INPUT__0": ([1, 2], [1.0, 2.0])},
    ),
)

PYTHON = (
    Model(
        name="double",
        inputs=(X2,),
        outputs=(tensor("y", "FP32", 2),),
        runtime=replace(CPU, backend="python"),
        write=python(PYTHON_DOUBLE),
        data={"x": ([2, 2], [1.0, 2.0, 3.0, 4.0])},
    ),
    Model(
        name="text_to_label",
        inputs=(tensor("text", "BYTES", 1),),
        outputs=(tensor("label", "BYTES", 2),),
        runtime=replace(CPU, backend="ensemble", steps=PYTHON_STEPS),
        write=steps(("lengths", python(PYTHON_LENGTHS)), ("words", python(PYTHON_LABEL))),
        data={"text": ([2, 1], ["hello", "hello wide world"])},
    ),
)

MIXED = (
    Model(
        name="mixed",
        inputs=(tensor("text", "BYTES", 1),),
        outputs=(tensor("label", "BYTES", 1),),
        runtime=replace(CPU, backend="ensemble", steps=ENSEMBLE_STEPS),
        write=steps(("lengths", python(PYTHON_LENGTHS)), ("total", SUM), ("words", python(PYTHON_LABEL))),
        data={"text": ([2, 1], ["hello", "hello wide world"])},
    ),
)

ALL = (*ONNX, *TORCH, *PYTHON, *MIXED)
