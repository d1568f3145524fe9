"""Models that MLflow itself logged to its own tracking server become packages with the lineage of their run."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import orjson
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; run make test-train, which installs it")
for _package in ("flask", "huey", "pandas"):
    pytest.importorskip(_package, reason="MLflow's server is not installed; run make test-train, which installs it")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
pytest.importorskip("mlflow", reason="MLflow is not installed; run make test-train, which installs it")

import mlflow  # noqa: E402 - only once it is known to be there
import mlflow.onnx  # noqa: E402 - as above
import mlflow.pytorch  # noqa: E402 - as above
import urllib3  # noqa: E402 - as above
from mlflow.models import ModelSignature  # noqa: E402 - as above
from mlflow.types import Schema, TensorSpec  # noqa: E402 - as above

from model_packaging.build import archive_path  # noqa: E402 - as above
from model_packaging.mlflow_import import import_mlflow  # noqa: E402 - as above
from model_packaging.verify import verify  # noqa: E402 - as above
from serving.errors import PackagingError  # noqa: E402 - as above
from serving.protocol.archive import unpack  # noqa: E402 - as above
from serving.spec.load import load_model  # noqa: E402 - as above
from serving.spec.manifest import PackageManifest  # noqa: E402 - as above
from serving.spec.model import ModelSpec  # noqa: E402 - as above

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

COMMIT, DATA = "5f" * 20, "ab" * 32
ROWS = np.linspace(-1, 1, 72, dtype=np.float32).reshape(2, 36)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A run and what it logged, by the names a person would give."""

    run_id: str
    name: str


class Ranker(torch.nn.Module):  # type: ignore[misc] # torch ships no types here
    """A network with the ranker's tensors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layer = torch.nn.Linear(36, 1)

    def forward(self, features: Any) -> Any:
        """Give one score a row."""
        return torch.sigmoid(self.layer(features))


@pytest.fixture(scope="module", name="tracking")
def tracking_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run MLflow's own server with its artifact proxy on a free port."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = f"--host 127.0.0.1 --port {port} --workers 1 --serve-artifacts --backend-store-uri sqlite:///runs.db"
    command = [sys.executable, "-m", "mlflow", "server", *options.split(), "--artifacts-destination", str(folder / "a")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until_healthy(address, server, folder / "log")
            yield address
        finally:
            os.killpg(server.pid, 15)
            server.wait(timeout=30)


def wait_until_healthy(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 280
    while time.monotonic() < until:
        if server.poll() is not None:
            break
        try:
            if urllib3.request("GET", f"{address}/health", retries=False, timeout=5).status == 200:
                return
        except urllib3.exceptions.HTTPError:
            time.sleep(0.2)
    pytest.fail(log.read_text()[-2000:])


@pytest.fixture(scope="module", name="logged")
def logged_fixture(tracking: str) -> Logged:
    """Log the same network as ONNX, as TorchScript and as a pickled module, in one run."""
    mlflow.set_tracking_uri(tracking)
    network = Ranker().eval()
    example = torch.from_numpy(ROWS)
    with mlflow.start_run() as run:
        mlflow.log_metrics({"auc": 0.75, "loss": float("nan")})
        mlflow.set_tags({"mlflow.source.git.commit": COMMIT, "data_sha256": DATA})
        mlflow.log_input(mlflow.data.from_numpy(ROWS, name="impressions"), context="training")
        mlflow.onnx.log_model(
            as_onnx(network), name="onnx", registered_model_name="ranker", signature=signature("features", "score")
        )
        scripted = torch.jit.trace(network, example)
        mlflow.pytorch.log_model(scripted, name="script", serialization_format="pickle")
        mlflow.pytorch.log_model(network, name="module", serialization_format="pickle")
    mlflow.MlflowClient().set_registered_model_alias("ranker", "champion", "1")
    mlflow.set_tracking_uri(None)  # type: ignore[arg-type] # an import knows its server from its own argument alone
    return Logged(run_id=run.info.run_id, name="ranker")


def as_onnx(network: Any) -> onnx.ModelProto:
    weights, bias = (value.detach().numpy() for value in (network.layer.weight, network.layer.bias))
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gemm", ["features", "w", "b"], ["z"], transB=1),
            onnx.helper.make_node("Sigmoid", ["z"], ["score"]),
        ],
        "ranker",
        [onnx.helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["rows", 36])],
        [onnx.helper.make_tensor_value_info("score", onnx.TensorProto.FLOAT, ["rows", 1])],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)


def signature(given: str, answer: str) -> Any:
    kind = np.dtype(np.float32)
    return ModelSignature(
        inputs=Schema([TensorSpec(kind, (-1, 36), given)]), outputs=Schema([TensorSpec(kind, (-1, 1), answer)])
    )


@pytest.fixture(name="root")
def root_fixture() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(name="spec")
def spec_fixture(root: Path) -> ModelSpec:
    return load_model(root, "recommendation_ranker")


@pytest.fixture(name="imported")
def imported_fixture(root: Path, tracking: str, tmp_path: Path) -> Any:
    def run(uri: str, spec: ModelSpec, model_dir: Path | None = None) -> PackageManifest:
        folder = root / "models" / spec.name if model_dir is None else model_dir
        address = tracking.replace("://", "://someone:secret@")
        return import_mlflow(
            uri, spec, "9.0.0", model_dir=folder, out_dir=tmp_path, image="triton:1", tracking_uri=address
        )

    return run


@pytest.mark.parametrize("form", ["models:/{name}/1", "models:/{name}@champion", "runs:/{run_id}/onnx"])
def test_each_form_of_address_gives_the_same_archive_with_its_runs_lineage(
    form: str, logged: Logged, imported: Any, spec: ModelSpec, tmp_path: Path
) -> None:
    uri = form.format(name=logged.name, run_id=logged.run_id)
    manifest = imported(uri, spec)
    assert verify(archive_path(tmp_path, spec.name, "9.0.0")).findings == ()
    assert manifest.metrics == {"auc": 0.75}, "what is no number is left out"
    assert (manifest.training_commit, manifest.data_sha256) == (COMMIT, DATA)
    assert manifest.origin is not None
    assert manifest.origin.run_id == logged.run_id
    assert manifest.origin.uri == uri
    assert list(manifest.origin.datasets) == ["impressions"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", manifest.origin.tracking_uri), "the login stays out of it"


def test_the_archive_answers_as_the_network_that_was_logged(
    logged: Logged, imported: Any, spec: ModelSpec, tmp_path: Path
) -> None:
    imported(f"models:/{logged.name}/1", spec)
    folder = unpack(archive_path(tmp_path, spec.name, "9.0.0"), tmp_path / "unpacked")
    (got,) = ort.InferenceSession(folder.model).run(None, {"features": ROWS})
    expected = Ranker().eval()(torch.from_numpy(ROWS)).detach().numpy()
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.fixture(name="torch_spec")
def torch_spec_fixture(spec: ModelSpec) -> ModelSpec:
    return replace(
        spec,
        runtime=replace(spec.runtime, backend="pytorch"),
        inputs=tuple(replace(tensor, name="INPUT__0") for tensor in spec.inputs),
        outputs=tuple(replace(tensor, name="OUTPUT__0") for tensor in spec.outputs),
    )


@pytest.fixture(name="torch_dir")
def torch_dir_fixture(tmp_path: Path) -> Path:
    (tmp_path / "samples").mkdir()
    sample = {"inputs": [{"name": "INPUT__0", "datatype": "FP32", "shape": [2, 36], "data": ROWS.ravel().tolist()}]}
    (tmp_path / "samples" / "request.json").write_bytes(orjson.dumps(sample))
    return tmp_path


def test_torchscript_becomes_an_archive_for_tritons_pytorch_backend(
    logged: Logged, imported: Any, torch_spec: ModelSpec, torch_dir: Path, tmp_path: Path
) -> None:
    manifest = imported(f"runs:/{logged.run_id}/script", torch_spec, torch_dir)
    path = archive_path(tmp_path, torch_spec.name, "9.0.0")
    assert verify(path).findings == ()
    assert [entry.path for entry in manifest.files if entry.path.endswith(".pt")]
    assert manifest.origin is not None
    assert manifest.origin.flavour == "pytorch"


def test_a_pickled_module_is_refused(logged: Logged, imported: Any, torch_spec: ModelSpec, torch_dir: Path) -> None:
    with pytest.raises(PackagingError, match="pickle"):
        imported(f"runs:/{logged.run_id}/module", torch_spec, torch_dir)


@pytest.mark.parametrize("uri", ["models:/nobody/1", "models:/ranker/99", "runs:/0123456789abcdef0123456789abcdef/m"])
@pytest.mark.usefixtures("logged")
def test_what_the_server_does_not_have_is_one_line(uri: str, imported: Any, spec: ModelSpec) -> None:
    with pytest.raises(PackagingError) as refused:
        imported(uri, spec)
    assert str(refused.value).startswith(f"{uri}: got no answer from MLflow")
    assert len(str(refused.value).splitlines()) == 1
