"""The text is read by NVIDIA's own message type, from its client package."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from importlib.metadata import files
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from model_packaging.triton import config_pbtxt, layout
from serving.protocol.served import ServedModel
from serving.protocol.tensors import Tensor
from serving.spec.model import ModelSpec
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec


@pytest.fixture(scope="module", name="messages")
def messages_fixture() -> Any:
    """Load the generated module alone: its package imports grpc, which is not needed for a message."""
    found = [path for path in files("tritonclient") or () if path.name == "model_config_pb2.py"]
    spec = importlib.util.spec_from_file_location("model_config_pb2", str(found[0].locate()))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parsed(messages: Any, served: ServedModel, rows: tuple[Tensor, ...] = ()) -> Any:
    return text_format.Parse(config_pbtxt(served, rows), messages.ModelConfig())


def test_every_value_of_the_spec_arrives(messages: Any, spec: ModelSpec) -> None:
    row = Tensor("x", np.zeros((1, 2), dtype=np.float32))
    config = parsed(messages, ServedModel.of(spec, version="1.0.0"), (row,))
    assert (config.name, config.platform, config.backend) == ("toy", "onnxruntime_onnx", "onnxruntime")
    assert config.max_batch_size == 8
    assert [(t.name, t.data_type, list(t.dims)) for t in config.input] == [("x", messages.TYPE_FP32, [2])]
    assert [(t.name, t.data_type, list(t.dims)) for t in config.output] == [("y", messages.TYPE_FP32, [1])]
    assert [(g.kind, g.count) for g in config.instance_group] == [(messages.ModelInstanceGroup.KIND_CPU, 1)]
    batching = config.dynamic_batching
    assert batching.max_queue_delay_microseconds == 2500
    assert list(batching.preferred_batch_size) == []
    policy = batching.default_queue_policy
    assert policy.timeout_action == messages.ModelQueuePolicy.REJECT
    assert (policy.default_timeout_microseconds, policy.max_queue_size) == (50_000, 64)


def test_warm_up_runs_a_lone_row_and_a_full_batch_of_the_sample(messages: Any, spec: ModelSpec) -> None:
    row = Tensor("x", np.array([[1.0, 0.5]], dtype=np.float32))
    served = ServedModel.of(spec, version="1.0.0")
    config = parsed(messages, served, (row,))
    assert [warm.batch_size for warm in config.model_warmup] == [1, 8]
    for warm in config.model_warmup:
        given = warm.inputs["x"]
        assert (given.data_type, list(given.dims), given.input_data_file) == (messages.TYPE_FP32, [2], "x")
    members = {member.path: member.source for member in layout(served, weights=b"onnx", sample=b"{}", first_row=(row,))}
    assert members["toy/warmup/x"] == np.array([1.0, 0.5], dtype="<f4").tobytes()
    assert set(members) == {
        "toy/config.pbtxt",
        "toy/streamhub.json",
        "toy/1/model.onnx",
        "toy/samples/request.json",
        "toy/warmup/x",
    }


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_has_its_triton_name(messages: Any, spec: ModelSpec, dtype: DType) -> None:
    tensor = TensorSpec(name="t", dtype=dtype, shape=(-1, 3))
    config = parsed(messages, ServedModel.of(replace(spec, inputs=(tensor,)), version="1.0.0"))
    expected = "TYPE_STRING" if dtype is DType.BYTES else f"TYPE_{dtype.value}"
    assert messages.DataType.Name(config.input[0].data_type) == expected
    assert list(config.input[0].dims) == [-1, 3]


def test_one_number_a_row_is_reshaped_because_triton_wants_a_dimension(messages: Any, spec: ModelSpec) -> None:
    tensor = TensorSpec(name="t", dtype=DType.FP32, shape=())
    config = parsed(messages, ServedModel.of(replace(spec, inputs=(tensor,)), version="1.0.0"))
    assert list(config.input[0].dims) == [1]
    assert config.input[0].HasField("reshape")
    assert list(config.input[0].reshape.shape) == []


def test_a_gpu_model_and_a_zero_delay_are_said(messages: Any, spec: ModelSpec) -> None:
    runtime = TritonRuntime(device="gpu", max_queue_delay_ms=0.0, instances=2)
    config = parsed(messages, ServedModel.of(replace(spec, runtime=runtime), version="1.0.0"))
    assert config.instance_group[0].kind == messages.ModelInstanceGroup.KIND_GPU
    assert config.instance_group[0].count == 2
    assert config.HasField("dynamic_batching")
    assert config.dynamic_batching.max_queue_delay_microseconds == 0


def test_a_model_without_batches_has_no_batcher(messages: Any, spec: ModelSpec) -> None:
    runtime = TritonRuntime(device="cpu", max_batch_size=0)
    config = parsed(messages, ServedModel.of(replace(spec, runtime=runtime), version="1.0.0"))
    assert not config.HasField("dynamic_batching")


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "ümlaut", "7\x017"])
def test_any_name_survives_the_text_format(messages: Any, spec: ModelSpec, name: str) -> None:
    tensor = TensorSpec(name=name, dtype=DType.FP32, shape=(1,))
    config = parsed(messages, ServedModel.of(replace(spec, inputs=(tensor,)), version="1.0.0"))
    assert config.input[0].name == name
