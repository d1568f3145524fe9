"""An MLflow model folder becomes a package, or is refused in one line; `MLmodel` as MLflow's documentation has it."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import orjson
import pytest
import yaml

from model_packaging.build import archive_path
from model_packaging.mlflow_import import fetch, import_mlflow
from model_packaging.verify import verify
from serving.errors import PackagingError
from serving.protocol.archive import unpack
from serving.spec.manifest import PackageManifest
from serving.spec.model import ModelSpec
from serving.spec.runtime import PyTorchRuntime, TritonRuntime

Network = Callable[..., onnx.ModelProto]
Import = Callable[..., PackageManifest]
MlflowFolder = Callable[..., Path]


def tensors(*entries: tuple[str, str, list[int]]) -> str:
    return orjson.dumps(
        [
            {"name": name, "type": "tensor", "tensor-spec": {"dtype": dtype, "shape": shape}}
            for name, dtype, shape in entries
        ]
    ).decode()


SIGNATURE = {"inputs": tensors(("x", "float32", [-1, 2])), "outputs": tensors(("y", "float32", [-1, 1]))}


@pytest.fixture(name="mlflow_folder")
def mlflow_folder_fixture(tmp_path: Path, make_network: Network) -> MlflowFolder:
    def make(*, external: bool = False, **changes: Any) -> Path:
        folder = tmp_path / "logged"
        folder.mkdir()
        onnx.save(make_network(), folder / "model.onnx", save_as_external_data=external, size_threshold=0)
        document = {
            "flavors": {"onnx": {"data": "model.onnx", "onnx_version": "1.23.2"}, "python_function": {}},
            "mlflow_version": "3.18.0",
            "signature": SIGNATURE,
            "utc_time_created": "2026-12-03 00:12:10.456547",
        }
        (folder / "MLmodel").write_text(yaml.safe_dump({**document, **changes}))
        return folder

    return make


@pytest.fixture(name="imported")
def imported_fixture(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> Import:
    def run(uri: Path | str, of: ModelSpec = spec) -> PackageManifest:
        return import_mlflow(
            str(uri), of, "2.0.0", model_dir=model_dir, out_dir=tmp_path / "out", image="triton:26.05-py3-cpu"
        )

    return run


def test_an_onnx_model_becomes_an_archive_that_verifies(
    mlflow_folder: MlflowFolder, imported: Import, tmp_path: Path
) -> None:
    manifest = imported(mlflow_folder())
    found = verify(archive_path(tmp_path / "out", "toy", "2.0.0"))
    assert found.findings == ()
    assert manifest.origin is not None
    assert (manifest.origin.flavour, manifest.origin.mlflow_version) == ("onnx", "3.18.0")


def test_tensors_that_mlflow_keeps_beside_the_graph_come_into_it(
    mlflow_folder: MlflowFolder, imported: Import, make_network: Network, tmp_path: Path
) -> None:
    folder = mlflow_folder(external=True)
    assert len(list(folder.glob("*"))) > 2, "the graph's tensors lie in a file of their own"
    imported(folder)
    unpacked = unpack(archive_path(tmp_path / "out", "toy", "2.0.0"), tmp_path / "unpacked")
    rows = np.array([[1.0, 0.5], [-1.0, 2.0]], dtype=np.float32)
    (got,) = ort.InferenceSession(unpacked.model).run(None, {"x": rows})
    (expected,) = ort.InferenceSession(make_network().SerializeToString()).run(None, {"x": rows})
    np.testing.assert_array_equal(got, expected)


def test_the_same_folder_gives_the_same_archive(mlflow_folder: MlflowFolder, imported: Import) -> None:
    folder = mlflow_folder(external=True)
    assert imported(folder).archive_sha256 == imported(folder).archive_sha256


def test_tensors_outside_the_folder_are_refused(mlflow_folder: MlflowFolder, imported: Import, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\x00" * 8)
    folder = mlflow_folder()
    graph = onnx.load(folder / "model.onnx")
    weights = graph.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../secret")
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(PackagingError, match=r"model\.onnx: got no ONNX graph that is whole"):
        imported(folder)


def test_names_that_mlflow_leaves_out_are_matched_by_order(mlflow_folder: MlflowFolder, imported: Import) -> None:
    inputs = orjson.dumps([{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 2]}}]).decode()
    assert imported(mlflow_folder(signature={"inputs": inputs, "outputs": None})).version == "2.0.0"


def test_a_signature_of_columns_says_nothing_of_tensors(mlflow_folder: MlflowFolder, imported: Import) -> None:
    columns = orjson.dumps([{"name": "x", "type": "double", "required": True}]).decode()
    assert imported(mlflow_folder(signature={"inputs": columns})).version == "2.0.0"


@pytest.mark.parametrize(
    ("inputs", "outputs", "told"),
    [
        (("x", "float64", [-1, 2]), ("y", "float32", [-1, 1]), "inputs: x: got FP64 [-1, 2]; allowed FP32 [-1, 2]"),
        (("x", "float32", [-1, 3]), ("y", "float32", [-1, 1]), "inputs: x: got FP32 [-1, 3]; allowed FP32 [-1, 2]"),
        (("x", "float32", [2]), ("y", "float32", [-1, 1]), "inputs: x: got FP32 [2]; allowed FP32 [-1, 2]"),
        (("x", "str", [-1, 2]), ("y", "float32", [-1, 1]), "inputs: x: got BYTES [-1, 2]; allowed FP32 [-1, 2]"),
        (("v", "float32", [-1, 2]), ("y", "float32", [-1, 1]), "inputs: got no 'x'; allowed v"),
        (("x", "float32", [-1, 2]), ("y", "int64", [-1, 1]), "outputs: y: got INT64 [-1, 1]; allowed FP32 [-1, 1]"),
    ],
)
def test_a_signature_that_contradicts_the_spec_is_refused(
    mlflow_folder: MlflowFolder,
    imported: Import,
    inputs: tuple[str, str, list[int]],
    outputs: tuple[str, str, list[int]],
    told: str,
) -> None:
    folder = mlflow_folder(signature={"inputs": tensors(inputs), "outputs": tensors(outputs)})
    with pytest.raises(PackagingError) as refused:
        imported(folder)
    assert told in str(refused.value)


def test_all_differences_of_a_signature_come_at_once(mlflow_folder: MlflowFolder, imported: Import) -> None:
    wrong = {"inputs": tensors(("x", "float64", [-1, 2])), "outputs": tensors(("z", "float32", [-1, 1]))}
    with pytest.raises(PackagingError) as refused:
        imported(mlflow_folder(signature=wrong))
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"flavors": {"sklearn": {"pickled_model": "model.pkl"}}}, "flavors: got sklearn; allowed onnx"),
        ({"flavors": {"onnx": {"data": "../../etc/passwd"}}}, "onnx: got the data '../../etc/passwd'"),
        ({"flavors": {"onnx": {"data": "/etc/passwd"}}}, "onnx: got the data '/etc/passwd'"),
        ({"flavors": {"onnx": {"data": "gone.onnx"}}}, "onnx: got no weights; allowed gone.onnx"),
        ({"flavors": None}, "flavors: got none; allowed onnx"),
        ({"signature": {"inputs": "not json"}}, "signature: got an unreadable one"),
        ({"signature": {"inputs": '[{"type": "tensor"}]'}}, "signature: got an unreadable one"),
    ],
)
def test_a_folder_that_is_not_what_it_should_be_is_refused_in_one_line(
    mlflow_folder: MlflowFolder, imported: Import, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(PackagingError) as refused:
        imported(mlflow_folder(**changes))
    assert told in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_weights_that_are_a_link_out_of_the_folder_are_refused(
    mlflow_folder: MlflowFolder, imported: Import, tmp_path: Path
) -> None:
    folder = mlflow_folder()
    (folder / "model.onnx").rename(tmp_path / "elsewhere.onnx")
    (folder / "model.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    with pytest.raises(PackagingError, match="got no weights"):
        imported(folder)


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "!!python/object/apply:os.system ['true']"])
def test_a_broken_mlmodel_file_is_refused_and_runs_nothing(tmp_path: Path, imported: Import, text: str) -> None:
    folder = tmp_path / "logged"
    folder.mkdir()
    (folder / "MLmodel").write_text(text)
    with pytest.raises(PackagingError, match="MLmodel"):
        imported(folder)


def test_an_address_that_is_none_is_refused(imported: Import) -> None:
    with pytest.raises(PackagingError, match="got no folder and no URI; allowed models:/NAME/VERSION"):
        imported("toy")


@pytest.fixture(name="torch_spec")
def torch_spec_fixture(spec: ModelSpec) -> ModelSpec:
    names = {"x": "INPUT__0", "y": "OUTPUT__0"}
    return replace(
        spec,
        runtime=TritonRuntime(device="cpu", backend="pytorch", max_batch_size=8, max_queue_delay_ms=2.5),
        inputs=tuple(replace(tensor, name=names[tensor.name]) for tensor in spec.inputs),
        outputs=tuple(replace(tensor, name=names[tensor.name]) for tensor in spec.outputs),
    )


class Payload:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("run",)


def pickled_module() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(Payload()))
    return packed.getvalue()


@pytest.mark.parametrize("content", [pickle.dumps(Payload()), pickled_module()], ids=["plain", "torch.save"])
def test_a_pickled_pytorch_module_is_refused_by_the_global_it_names(
    mlflow_folder: MlflowFolder, imported: Import, torch_spec: ModelSpec, content: bytes, capsys: Any
) -> None:
    folder = mlflow_folder(flavors={"pytorch": {"model_data": "data", "pytorch_version": "2.13.0"}}, signature=None)
    (folder / "data").mkdir()
    (folder / "data" / "model.pth").write_bytes(content)
    with pytest.raises(PackagingError, match=r"print"):
        imported(folder, torch_spec)
    assert capsys.readouterr().out == ""


def test_a_runtime_that_mlflow_has_no_flavour_for_is_refused(
    mlflow_folder: MlflowFolder, imported: Import, spec: ModelSpec
) -> None:
    with pytest.raises(PackagingError, match="runtime: got pytorch; allowed triton with backend"):
        imported(mlflow_folder(), replace(spec, runtime=PyTorchRuntime(device="cpu")))


def test_a_graph_that_is_not_the_specs_is_refused_like_any_other(
    mlflow_folder: MlflowFolder, imported: Import, make_network: Network
) -> None:
    folder = mlflow_folder(signature=None)
    onnx.save(make_network(elem=onnx.TensorProto.DOUBLE), folder / "model.onnx")
    with pytest.raises(PackagingError, match="FP64"):
        imported(folder)


def test_a_server_that_is_named_is_asked_for_what_an_address_leads_to_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow resolves `models:/` by its process's address alone: an argument of the download does not reach it."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    asked: list[tuple[str, str]] = []

    def download(**arguments: str) -> str:
        asked.append((mlflow.get_tracking_uri(), mlflow.get_registry_uri()))
        folder = Path(arguments["dst_path"])
        (folder / "MLmodel").write_text("flavors: {}")
        return str(folder)

    monkeypatch.setattr("mlflow.artifacts.download_artifacts", download)
    fetch("models:/toy/1", tmp_path / "a", tracking_uri="http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:10")
    fetch("models:/toy/1", tmp_path / "b")
    assert asked == [("http://127.0.0.1:9",) * 2, ("http://127.0.0.1:10",) * 2]
    assert mlflow.get_tracking_uri() == "http://127.0.0.1:10"
