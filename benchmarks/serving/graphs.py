"""The graphs of the two models, made from code, always the same bytes, and their archives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.serving.models import INPUT, MAX_ROWS, OUTPUT, RANKER, WINDOW_MS, BenchModel, encode_oip_json
from model_packaging.build import package, package_path
from serving.spec.hosting import HostingSpec
from serving.spec.model import ApiSpec, BudgetSpec, ModelSpec, Slo, VersionSpec
from serving.spec.runtime import TritonRuntime
from serving.spec.scaling import ScalingSpec
from serving.spec.tensors import DType, TensorSpec

_VERSION = "1.0.0"


def write_graph(model: BenchModel, path: Path) -> None:
    """Write the ONNX graph."""
    weights = _Weights()
    nodes = _mlp(weights) if model is RANKER else _network(weights)
    elements = {DType.FP32: TensorProto.FLOAT, DType.UINT8: TensorProto.UINT8}
    given = helper.make_tensor_value_info(INPUT, elements[model.dtype], ["rows", *model.row])
    answer = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["rows", model.outputs])
    graph = helper.make_graph(nodes, model.name, [given], [answer], weights.tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(made.SerializeToString(deterministic=True))


def write_archive(model: BenchModel, folder: Path) -> Path:
    """Package the graph as `streamhub package` does and give the archive."""
    weights = folder / f"{model.name}.onnx"
    write_graph(model, weights)
    sample = folder / "samples/request.json"
    sample.parent.mkdir(exist_ok=True)
    sample.write_bytes(encode_oip_json(model, model.rows()[0]))
    package(_spec(model), _VERSION, model_dir=folder, out_dir=folder, image="triton:none", weights=weights)
    return package_path(folder, _spec(model), _VERSION)


def _spec(model: BenchModel) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        owner="benchmarks",
        description="A model of the benchmark.",
        licence="Apache-2.0",
        runtime=TritonRuntime(device="cpu", max_batch_size=MAX_ROWS, max_queue_delay_ms=WINDOW_MS),
        slo=Slo(peak_qps=1000, p99_ms=model.deadline_ms),
        inputs=(TensorSpec(name=INPUT, dtype=model.dtype, shape=model.row),),
        outputs=(TensorSpec(name=OUTPUT, dtype=DType.FP32, shape=(model.outputs,)),),
        api=ApiSpec(route=f"/v1/{model.name}", unit="id"),
        hosting=HostingSpec(instance_type="ml.c6i.large", scaling=ScalingSpec(target_concurrency=4)),
        budget=BudgetSpec(invoke_ms=60, overhead_ms=20, deadline_ms=model.deadline_ms),
        versions={_VERSION: VersionSpec(weights=f"{model.name}.onnx")},
    )


class _Weights:
    """Seeded initialisers, He-scaled so that answers stay of the order of one."""

    def __init__(self) -> None:
        self.tensors: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(3)

    def add(self, *shape: int) -> str:
        fan_in = int(np.prod(shape[1:])) or 1
        values = self._rng.standard_normal(shape) * np.sqrt(2 / fan_in)
        return self.constant(values.astype(np.float32))

    def constant(self, values: npt.NDArray[np.float32] | np.float32) -> str:
        name = f"w{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values), name))
        return name


def _mlp(weights: _Weights) -> list[onnx.NodeProto]:
    sizes = (64, 256, 128, 1)
    nodes, last = [], INPUT
    for index, (wide, out) in enumerate(pairwise(sizes)):
        ends = index == len(sizes) - 2
        target = OUTPUT if ends else f"h{index}"
        dense = [last, weights.add(out, wide), weights.constant(np.zeros(out, dtype=np.float32))]
        nodes.append(helper.make_node("Gemm", dense, [target if ends else f"{target}_dense"], transB=1))
        if not ends:
            nodes.append(helper.make_node("Relu", [f"{target}_dense"], [target]))
        last = target
    return nodes


def _network(weights: _Weights) -> list[onnx.NodeProto]:
    scale = weights.constant(np.float32(1 / 255))
    nodes = [
        helper.make_node("Cast", [INPUT], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["pixels", scale], ["scaled"]),
    ]
    last, channels = "scaled", 3
    for index, (out, stride) in enumerate(((32, 1), (64, 2), (128, 2), (128, 2), (128, 1))):
        kernel = weights.add(out, channels, 3, 3)
        strides = [stride, stride]
        nodes += [
            helper.make_node("Conv", [last, kernel], [f"c{index}"], pads=[1, 1, 1, 1], strides=strides),
            helper.make_node("Relu", [f"c{index}"], [f"r{index}"]),
        ]
        last, channels = f"r{index}", out
    return [
        *nodes,
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", weights.add(4, channels)], ["logits"], transB=1),
        helper.make_node("Sigmoid", ["logits"], [OUTPUT]),
    ]
