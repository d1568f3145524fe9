"""Every kind of model: what is written for Triton is read by its own schema and held against the ONNX graph itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as schema

from model_packaging.build import package, package_path
from model_packaging.triton import repository_problems
from model_packaging.verify import verify
from serving.errors import PackagingError
from serving.protocol.archive import unpack
from serving.spec.model import ModelSpec
from serving.spec.rules.model_rules import MODEL_RULES
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType
from tests.unit.packaging.zoo import ALL, ELEMENTS, MIXED, ONNX, PYTHON, TORCH, Model, archive, tensor

Packaged = Callable[..., Path]


@pytest.fixture(name="packaged")
def packaged_fixture(tmp_path: Path) -> Packaged:
    def make(model: Model, spec: ModelSpec | None = None) -> Path:
        folder = tmp_path / "models" / model.name
        (folder / "samples").mkdir(parents=True)
        (folder / "samples/request.json").write_bytes(model.sample)
        weights = model.write(folder)
        spec = spec or model.spec
        package(spec, "1.0.0", model_dir=folder, out_dir=tmp_path / "out", image="image:1", weights=weights)
        return package_path(tmp_path / "out", spec, "1.0.0")

    return make


def configs(packed: Path, into: Path) -> dict[str, Any]:
    root = unpack(packed, into).root
    return {
        path.parent.name: text_format.Parse(path.read_text(), schema.ModelConfig())
        for path in root.glob("*/config.pbtxt")
    }


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_a_model_keeps_every_rule_and_its_archive_has_no_finding(packaged: Packaged, model: Model) -> None:
    assert [finding for rule in MODEL_RULES for finding in rule(model.spec)] == []
    found = verify(packaged(model))
    assert found.findings == ()


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_a_configuration_names_the_tensors_of_the_spec_in_its_order(
    packaged: Packaged, tmp_path: Path, model: Model
) -> None:
    config = configs(packaged(model), tmp_path / "unpacked")[model.name]
    for given, wanted in ((config.input, model.inputs), (config.output, model.outputs)):
        assert [each.name for each in given] == [each.name for each in wanted]
        types = ["TYPE_STRING" if each.dtype is DType.BYTES else f"TYPE_{each.dtype}" for each in wanted]
        assert [schema.DataType.Name(each.data_type) for each in given] == types
        assert [list(each.dims) for each in given] == [list(each.shape) or [1] for each in wanted]
    assert config.max_batch_size == model.runtime.max_batch_size


@pytest.mark.parametrize("model", ONNX, ids=lambda model: model.name)
def test_a_configuration_is_what_the_graph_takes_and_gives(packaged: Packaged, tmp_path: Path, model: Model) -> None:
    config = configs(packaged(model), tmp_path / "unpacked")[model.name]
    graph = onnx.load(tmp_path / "unpacked" / model.name / "1/model.onnx").graph
    numbers = {f"TYPE_{name}" if name != "BYTES" else "TYPE_STRING": number for name, number in ELEMENTS.items()}
    computed = {target: each.data_type for each in config.batch_input for target in each.target_name}
    constants = {each.name for each in graph.initializer}
    taken = {each.name: each.type.tensor_type for each in graph.input if each.name not in constants}
    assert set(taken) == {each.name for each in config.input} | set(computed)
    for given, found in ((config.input, taken), (config.output, {o.name: o.type.tensor_type for o in graph.output})):
        for each in given:
            assert found[each.name].elem_type == numbers[schema.DataType.Name(each.data_type)]
            sizes = [size.dim_value or -1 for size in found[each.name].shape.dim]
            row = [] if each.HasField("reshape") else list(each.dims)
            joined = getattr(each, "allow_ragged_batch", False)
            assert sizes == ([-1] if joined else [-1, *row] if config.max_batch_size else row)
    for name, number in computed.items():
        assert taken[name].elem_type == numbers[schema.DataType.Name(number)]


@pytest.mark.parametrize("model", ONNX, ids=lambda model: model.name)
def test_every_way_in_which_a_spec_is_not_its_graph_is_told_at_once(packaged: Packaged, model: Model) -> None:
    first = model.inputs[0]
    other = DType.FP64 if first.dtype is not DType.FP64 else DType.FP32
    shape = (9, 9) if first.ragged is False else first.shape
    inputs = (replace(first, dtype=other, shape=shape), *model.inputs[1:])
    outputs = (*model.outputs, tensor("nowhere", "FP32", 1))
    with pytest.raises(PackagingError) as caught:
        packaged(model, replace(model.spec, inputs=inputs, outputs=outputs))
    lines = str(caught.value).splitlines()
    assert any(f"input {first.name!r}: dtype" in line for line in lines)
    assert any("output 'nowhere'" in line for line in lines)
    assert first.ragged or any(f"input {first.name!r}: shape" in line for line in lines)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (TORCH[0], ("pytorch", "pytorch_libtorch", "model.pt")),
        (TORCH[1], ("pytorch", "torch_aoti", "model.pt2")),
        (PYTHON[0], ("python", "", "model.py")),
        (ONNX[0], ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_backend_has_its_platform_and_file(
    packaged: Packaged, tmp_path: Path, model: Model, wanted: tuple[str, str, str]
) -> None:
    config = configs(packaged(model), tmp_path / "unpacked")[model.name]
    (path,) = (tmp_path / "unpacked" / model.name / "1").iterdir()
    assert (config.backend, config.platform, path.name) == wanted


def test_an_ensemble_is_a_folder_beside_its_steps_with_the_delay_in_the_steps_that_gain(
    packaged: Packaged, tmp_path: Path
) -> None:
    (model,) = MIXED
    found = configs(packaged(model), tmp_path / "unpacked")
    assert set(found) == {"mixed", "lengths", "total", "words"}
    whole = found["mixed"]
    assert whole.platform == "ensemble"
    assert not whole.HasField("dynamic_batching")
    maps = [(step.model_name, dict(step.input_map), dict(step.output_map)) for step in whole.ensemble_scheduling.step]
    assert maps == [
        ("lengths", {"text": "text"}, {"x": "x"}),
        ("total", {"x": "x"}, {"y": "score"}),
        ("words", {"score": "score"}, {"label": "label"}),
    ]
    delays = {name: found[name].dynamic_batching.max_queue_delay_microseconds for name in ("lengths", "total", "words")}
    assert delays == {"lengths": 0, "total": 10_000, "words": 0}
    assert [path.name for path in (tmp_path / "unpacked/mixed/1").iterdir()] == ["ensemble"]


def test_an_environment_beside_a_python_model_is_where_its_interpreter_comes_from(
    tmp_path: Path, packaged: Packaged
) -> None:
    (double, _) = PYTHON

    def write(folder: Path) -> Path:
        into = double.write(folder)
        (into / "environment.tar.gz").write_bytes(b"packed")
        (into / "__pycache__").mkdir()
        (into / "__pycache__/model.cpython-311.pyc").write_bytes(b"code")
        return into

    config = configs(packaged(replace(double, write=write)), tmp_path / "unpacked")["double"]
    place = config.parameters["EXECUTION_ENV_PATH"].string_value
    assert place == "$$TRITON_MODEL_DIRECTORY/environment.tar.gz"  # python_backend, README
    files = {
        path.relative_to(tmp_path / "unpacked/double").as_posix() for path in (tmp_path / "unpacked/double").rglob("*")
    }
    assert "environment.tar.gz" in files
    assert not any("__pycache__" in file for file in files)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "got no model.py"),
        ({"model.py": "class TritonPythonModel:\n  def initialize(self, args): ...\n"}, "got only initialize"),
        ({"model.py": "def execute(requests): ...\n"}, "no class TritonPythonModel"),
        ({"model.py": "def execute(:\n"}, "line 1"),
        (
            {"model.py": "class TritonPythonModel:\n  def execute(self, r): ...\n", "requirements.txt": "numpy\n"},
            "conda-pack",
        ),
    ],
)
def test_a_python_model_that_would_not_load_is_refused(packaged: Packaged, files: dict[str, str], words: str) -> None:
    def write(folder: Path) -> Path:
        into = folder / "python"
        into.mkdir()
        for name, text in files.items():
            (into / name).write_text(text)
        return into

    with pytest.raises(PackagingError, match=words):
        packaged(replace(PYTHON[0], write=write))


def test_a_step_without_its_file_and_a_file_of_no_step_are_refused_together(packaged: Packaged) -> None:
    (model,) = MIXED

    def write(folder: Path) -> Path:
        into = model.write(folder)
        (into / "total.onnx").rename(into / "sum.onnx")
        return into

    with pytest.raises(PackagingError) as caught:
        packaged(replace(model, write=write))
    text = str(caught.value)
    assert "total.onnx: got no such file" in text
    assert "sum.onnx: got a file of no step" in text


@pytest.mark.parametrize(
    ("index", "members", "words"),
    [
        (0, {"module/data.pkl": b"\x80\x02}."}, "weights without code"),
        (1, {"module/models/model.json": b"{}"}, "exported program, not compiled"),
        (1, {"m/data/aotinductor/model/x_metadata.json": b'{"AOTI_DEVICE_KEY": "cuda"}'}, "compiled for cuda"),
    ],
)
def test_files_that_torch_wrote_for_something_else_are_refused(
    packaged: Packaged, index: int, members: dict[str, bytes], words: str
) -> None:
    name = ("module.pt", "module.pt2")[index]
    with pytest.raises(PackagingError, match=words):
        packaged(replace(TORCH[index], write=archive(name, members)))


def test_a_configuration_changed_by_hand_is_found_where_it_matters(packaged: Packaged, tmp_path: Path) -> None:
    folder = unpack(packaged(ONNX[2]), tmp_path / "unpacked")
    path = folder.root / "two_inputs/config.pbtxt"
    whole = path.read_text()
    for old, new, words in (
        ("dims: 2", "dims: 3", "dims: got [3]; allowed [2]"),
        ("TYPE_INT64", "TYPE_INT32", "data_type: got TYPE_INT32; allowed TYPE_INT64"),
        ('name: "count"', 'name: "counts"', "input 'count'"),
        ("KIND_CPU", "KIND_GPU", "instance_group: got KIND_GPU"),
        ("max_batch_size: 4", "max_batch_size: 0", "dynamic_batching: got it with max_batch_size 0"),
        ("versions: 1", "versions: 7", "version_policy: got version_policy { specific { versions: 7 } }"),
        ('input_data_file: "x"', 'input_data_file: "z"', "warmup/z: got no such file"),
        ("max_batch_size", "max_batch", "no field named"),
    ):
        assert old in whole
        path.write_text(whole.replace(old, new, 1))
        assert any(words in problem for problem in repository_problems(folder.root, folder.served)), words
    tuned = whole.replace("max_queue_size: 256", "max_queue_size: 9")
    path.write_text(tuned + 'parameters { key: "intra_op_thread_count" value { string_value: "2" } }')
    assert list(repository_problems(folder.root, folder.served)) == []


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("default_model_filename", 'default_model_filename: "other.onnx"'),
        ("cc_model_filenames", 'cc_model_filenames { key: "8.0" value: "other.onnx" }'),
        ("model_operations", 'model_operations { op_library_filename: "evil.so" }'),
        ("model_repository_agents", 'model_repository_agents { agents { name: "evil" } }'),
        ("runtime", 'runtime: "evil.py"'),
        ("optimization", 'optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }'),
        ("parameters", 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/tmp/evil" } }'),
        ("response_cache", "response_cache { enable: true }"),
        ("sequence_batching", "sequence_batching { }"),
        ("batch_output", 'batch_output { target_name: "y" }'),
    ],
)
def test_a_field_that_packaging_never_writes_is_refused(
    packaged: Packaged, tmp_path: Path, field: str, text: str
) -> None:
    """Each would have Triton load, convert or answer something that nobody looked at (model_config.proto)."""
    folder = unpack(packaged(ONNX[2]), tmp_path / "unpacked")
    path = folder.root / "two_inputs/config.pbtxt"
    whole = path.read_text()
    if field == "sequence_batching":  # one of a choice with dynamic_batching, of which text may name one
        whole = re.sub(r"dynamic_batching \{(.|\n)*?\n\}\n", "", whole)
    path.write_text(whole + text)
    found = list(repository_problems(folder.root, folder.served))
    assert any(f"config.pbtxt: {field}: got {field}" in problem for problem in found), found


def test_a_runtime_that_is_no_ensemble_has_no_steps_and_the_reverse() -> None:
    runtime = MIXED[0].runtime
    assert isinstance(runtime, TritonRuntime)
    for wrong in (replace(runtime, backend="python"), replace(runtime, steps=())):
        spec = replace(MIXED[0].spec, runtime=wrong)
        assert "runtime.backend" in {finding[0] for rule in MODEL_RULES for finding in rule(spec)}
