"""Fields and bytes of the message; that Triton takes it is shown in tests/train by its real server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as schema

from model_packaging.triton import layout
from model_packaging.triton_config import TritonModel, from_text, model_config, to_text
from serving.errors import PackagingError
from serving.protocol.served import ServedModel
from serving.protocol.tensors import Tensor
from serving.spec.model import ModelSpec
from serving.spec.runtime import BatchInputSpec, TritonRuntime
from serving.spec.tensors import DType, TensorSpec


def written(spec: ModelSpec, rows: tuple[Tensor, ...] = ()) -> Any:
    """Give the message as its text says it, read by protobuf with NVIDIA's schema."""
    members = layout(ServedModel.of(spec, version="1.0.0"), weights=b"onnx", sample=b"{}", first_row=rows)
    (source,) = [member.source for member in members if member.path == "toy/config.pbtxt"]
    assert isinstance(source, bytes)
    return text_format.Parse(source.decode(), schema.ModelConfig())


def test_every_value_of_the_spec_arrives(spec: ModelSpec) -> None:
    config = written(spec, (Tensor("x", np.zeros((1, 2), dtype=np.float32)),))
    assert (config.name, config.platform, config.backend) == ("toy", "onnxruntime_onnx", "onnxruntime")
    assert config.max_batch_size == 8
    assert [(t.name, t.data_type, list(t.dims)) for t in config.input] == [("x", schema.TYPE_FP32, [2])]
    assert [(t.name, t.data_type, list(t.dims)) for t in config.output] == [("y", schema.TYPE_FP32, [1])]
    assert [(g.kind, g.count) for g in config.instance_group] == [(schema.ModelInstanceGroup.KIND_CPU, 1)]
    assert list(config.version_policy.specific.versions) == [1]
    batching = config.dynamic_batching
    assert batching.max_queue_delay_microseconds == 2500
    assert list(batching.preferred_batch_size) == []
    policy = batching.default_queue_policy
    assert policy.timeout_action == schema.ModelQueuePolicy.REJECT
    assert (policy.default_timeout_microseconds, policy.max_queue_size) == (50_000, 64)


def test_warm_up_runs_a_lone_row_and_a_full_batch_of_the_sample(spec: ModelSpec) -> None:
    row = Tensor("x", np.array([[1.0, 0.5]], dtype=np.float32))
    config = written(spec, (row,))
    assert [(warm.name, warm.batch_size) for warm in config.model_warmup] == [("lone", 1), ("full", 8)]
    for warm in config.model_warmup:
        given = warm.inputs["x"]
        assert (given.data_type, list(given.dims), given.input_data_file) == (schema.TYPE_FP32, [2], "x")
    served = ServedModel.of(spec, version="1.0.0")
    members = {member.path: member.source for member in layout(served, weights=b"o", sample=b"{}", first_row=(row,))}
    assert members["toy/warmup/x"] == np.array([1.0, 0.5], dtype="<f4").tobytes()
    assert set(members) == {
        "toy/config.pbtxt",
        "toy/streamhub.json",
        "toy/1/model.onnx",
        "toy/samples/request.json",
        "toy/warmup/x",
    }


def test_without_a_sample_zeros_warm_up_what_has_a_fixed_size_and_nothing_else(spec: ModelSpec) -> None:
    assert [warm.inputs["x"].zero_data for warm in written(spec).model_warmup] == [True, True]
    for tensor in (
        TensorSpec(name="x", dtype=DType.FP32, shape=(-1,)),
        TensorSpec(name="x", dtype=DType.BYTES, shape=(1,)),
    ):
        assert len(written(replace(spec, inputs=(tensor,))).model_warmup) == 0


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_has_its_triton_name(spec: ModelSpec, dtype: DType) -> None:
    config = written(replace(spec, inputs=(TensorSpec(name="t", dtype=dtype, shape=(-1, 3)),)))
    expected = "TYPE_STRING" if dtype is DType.BYTES else f"TYPE_{dtype.value}"
    assert schema.DataType.Name(config.input[0].data_type) == expected
    assert list(config.input[0].dims) == [-1, 3]


def test_the_spec_knows_every_type_that_triton_knows() -> None:
    known = {name.removeprefix("TYPE_") for name in schema.DataType.keys()} - {"INVALID", "STRING"}  # noqa: SIM118
    assert {dtype.value for dtype in DType} == known | {"BYTES"}


def test_one_number_a_row_is_reshaped_because_triton_wants_a_dimension(spec: ModelSpec) -> None:
    config = written(replace(spec, inputs=(TensorSpec(name="t", dtype=DType.FP32, shape=()),)))
    assert list(config.input[0].dims) == [1]
    assert config.input[0].HasField("reshape")
    assert list(config.input[0].reshape.shape) == []


def test_a_gpu_model_and_a_zero_delay_are_said(spec: ModelSpec) -> None:
    runtime = TritonRuntime(device="gpu", max_queue_delay_ms=0.0, instances=2)
    config = written(replace(spec, runtime=runtime))
    assert config.instance_group[0].kind == schema.ModelInstanceGroup.KIND_GPU
    assert config.instance_group[0].count == 2
    assert config.HasField("dynamic_batching")
    assert config.dynamic_batching.max_queue_delay_microseconds == 0


def test_preferred_sizes_and_threads_are_said_where_a_spec_has_them(spec: ModelSpec) -> None:
    plain = written(spec)
    assert dict(plain.parameters) == {}
    runtime = TritonRuntime(device="cpu", preferred_batch_sizes=(8, 16), intra_op_threads=2)
    config = written(replace(spec, runtime=runtime))
    assert list(config.dynamic_batching.preferred_batch_size) == [8, 16]
    assert config.parameters["intra_op_thread_count"].string_value == "2"


def test_a_model_without_batches_has_no_batcher_and_is_warmed_up_once(spec: ModelSpec) -> None:
    runtime = TritonRuntime(device="cpu", max_batch_size=0)
    config = written(replace(spec, runtime=runtime), (Tensor("x", np.zeros(2, dtype=np.float32)),))
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")
    assert [(warm.batch_size, list(warm.inputs["x"].dims)) for warm in config.model_warmup] == [(1, [2])]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("element-count", schema.BatchInput.BATCH_ELEMENT_COUNT),
        ("accumulated-element-count", schema.BatchInput.BATCH_ACCUMULATED_ELEMENT_COUNT),
        ("accumulated-element-count-with-zero", schema.BatchInput.BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO),
    ],
)
def test_a_ragged_input_comes_with_what_tells_its_rows_apart(spec: ModelSpec, kind: Any, number: int) -> None:
    ragged = TensorSpec(name="tokens", dtype=DType.INT64, shape=(-1,), ragged=True)
    ends = BatchInputSpec(name="ends", source="tokens", kind=kind)
    config = written(replace(spec, inputs=(ragged,), runtime=TritonRuntime(device="cpu", batch_inputs=(ends,))))
    assert config.input[0].allow_ragged_batch
    (given,) = config.batch_input
    assert (given.kind, list(given.target_name), list(given.source_input)) == (number, ["ends"], ["tokens"])
    assert given.data_type == schema.TYPE_INT32


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "ümlaut", "7\x017"])
def test_any_name_survives_the_text_format(spec: ModelSpec, name: str) -> None:
    config = written(replace(spec, inputs=(TensorSpec(name=name, dtype=DType.FP32, shape=(1,)),)))
    assert config.input[0].name == name


def test_maps_are_written_in_one_order_whatever_the_order_of_the_spec(spec: ModelSpec) -> None:
    tensors = tuple(TensorSpec(name=name, dtype=DType.FP32, shape=(1,)) for name in ("b", "a", "c"))
    served = ServedModel.of(replace(spec, inputs=tensors), version="1.0.0")
    runtime = served.runtime
    assert isinstance(runtime, TritonRuntime)
    rows = tuple(Tensor(tensor.name, np.zeros((1, 1), dtype=np.float32)) for tensor in tensors)
    model = TritonModel.whole(served, runtime, file="model.onnx")
    one, other = (to_text(model_config(replace(model, warmup=given))) for given in (rows, rows[::-1]))
    assert one == other


def test_text_that_is_no_configuration_is_refused_with_its_place() -> None:
    with pytest.raises(PackagingError, match=r"config\.pbtxt: .*2:1"):
        from_text(b'name: "toy"\nnot_a_field: 1\n')
    with pytest.raises(PackagingError, match=r"config\.pbtxt"):
        from_text(b"\xff\xfe")
