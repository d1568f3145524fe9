"""A model small enough to read: two numbers in, the logistic of their weighted sum out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import orjson
import pytest
from onnx import TensorProto, helper, numpy_helper

from serving.spec.hosting import HostingSpec, ScalingSpec
from serving.spec.model import ApiSpec, BudgetSpec, ModelSpec, Slo, VersionSpec
from serving.spec.runtime import TritonRuntime, VllmRuntime
from serving.spec.tensors import DType, TensorSpec

SPEC = ModelSpec(
    name="toy",
    owner="team",
    description="A toy.",
    licence="Apache-2.0",
    runtime=TritonRuntime(device="cpu", max_batch_size=8, max_queue_delay_ms=2.5, max_queue_size=64),
    slo=Slo(peak_qps=10, p99_ms=20),
    inputs=(TensorSpec(name="x", dtype=DType.FP32, shape=(2,)),),
    outputs=(TensorSpec(name="y", dtype=DType.FP32, shape=(1,), range=(0.0, 1.0)),),
    api=ApiSpec(route="/v1/toy", unit="id", labels=("bad",), block_above={"bad": 0.9}),
    hosting=HostingSpec(instance_type="ml.c6i.large", scaling=ScalingSpec(target_concurrency=4)),
    budget=BudgetSpec(invoke_ms=15, overhead_ms=5, deadline_ms=50),
    versions={"1.0.0": VersionSpec(weights="weights/1.0.0.onnx"), "10.0.0": VersionSpec(weights="weights/1.0.0.onnx")},
)


def network(
    *, elem: int = TensorProto.FLOAT, batch: str | int = "N", out: str = "y", ir: int = 10, opset: int = 18
) -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.array([[1.0], [-2.0]], dtype=helper.tensor_dtype_to_np_dtype(elem)), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], [out])],
        "toy",
        [helper.make_tensor_value_info("x", elem, [batch, 2])],
        [helper.make_tensor_value_info(out, elem, [batch, 1])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def sample(data: list[float], name: str = "x") -> bytes:
    entry = {"name": name, "shape": [len(data) // 2, 2], "datatype": "FP32", "data": data}
    return orjson.dumps({"inputs": [entry]})


@pytest.fixture(name="spec")
def spec_fixture() -> ModelSpec:
    return SPEC


@pytest.fixture(name="make_network")
def make_network_fixture() -> Callable[..., onnx.ModelProto]:
    return network


@pytest.fixture(name="make_sample")
def make_sample_fixture() -> Callable[..., bytes]:
    return sample


@pytest.fixture(name="model_dir")
def model_dir_fixture(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "toy"
    (folder / "weights").mkdir(parents=True)
    (folder / "samples").mkdir()
    (folder / "weights" / "1.0.0.onnx").write_bytes(network().SerializeToString(deterministic=True))
    (folder / "samples" / "request.json").write_bytes(sample([1.0, 0.5, -1.0, 2.0]))
    return folder


def safetensors(values: bytes = b"\x00" * 8) -> bytes:
    header = orjson.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, len(values)]}})
    return len(header).to_bytes(8, "little") + header + values


@pytest.fixture(name="hf_spec")
def hf_spec_fixture() -> ModelSpec:
    texts = TensorSpec(name="messages", dtype=DType.BYTES, shape=(-1,))
    runtime = VllmRuntime(tensor_parallel=1)
    return replace(SPEC, runtime=runtime, inputs=(texts,), outputs=(replace(texts, name="content"),))


@pytest.fixture(name="hf_folder")
def hf_folder_fixture(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_bytes(b'{"model_type": "llama"}')
    (folder / "tokenizer.json").write_bytes(b"{}")
    (folder / "model.safetensors").write_bytes(safetensors())
    return folder
