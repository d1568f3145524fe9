"""From an MLflow model, on a tracking server or in a folder, to a package with the lineage of its run.

MLflow's own client resolves addresses and fetches; what it fetched is read as data only (`mlflow_model`).
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import onnx

from model_packaging.archive import Progress
from model_packaging.build import TrainingRecord, package
from model_packaging.mlflow_model import (
    MlflowModel,
    mlflow_run_id,
    read_mlflow_model,
    signature_problems,
    wanted_flavour,
)
from model_packaging.onnx_graph import MAX_BYTES
from serving.errors import PackagingError
from serving.spec import codec
from serving.spec.evidence import Origin
from serving.spec.manifest import PackageManifest
from serving.spec.model import ModelSpec

if TYPE_CHECKING:
    from mlflow.entities import Run

_SERVER = "MLFLOW_TRACKING_URI"
_COMMIT_TAG = "mlflow.source.git.commit"
_DATA_TAG = "data_sha256"
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ON_A_SERVER = ("models:/", "runs:/", "mlflow-artifacts:/")
_RETRIES = ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
"""MLflow's own 7 make a server that is not there an answer of minutes."""

_SILENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An MLflow model on this machine; `run` is None where the model names none, or no server was asked."""

    folder: Path
    uri: str
    tracking_uri: str
    run: Run | None


def import_mlflow(
    uri: str,
    spec: ModelSpec,
    version: str,
    *,
    model_dir: Path,
    out_dir: Path,
    image: str,
    tracking_uri: str = "",
    progress: Progress | None = None,
) -> PackageManifest:
    """Package an MLflow model as a version of a model of this project.

    Args:
        uri: `models:/<name>/<version>`, `models:/<name>@<alias>`, `runs:/<run>/<path>`, an artifact URI, or a folder.
        spec: the model whose version it becomes; its tensors are held against MLflow's signature and the weights.
        version: a semantic version.
        model_dir: `models/<name>`, for the sample.
        out_dir: where package and manifest go.
        image: the container image, `repository:tag`.
        tracking_uri: the tracking server; empty: MLFLOW_TRACKING_URI, or for a folder none.
        progress: told how many bytes are packed.

    Raises:
        PackagingError: MLflow has no such model, its flavour is not what the runtime takes, its signature
            contradicts the spec, or the weights are refused (a pickled PyTorch module always is).

    """
    flavour = wanted_flavour(spec)
    with tempfile.TemporaryDirectory(prefix="streamhub-mlflow-") as temporary:
        scratch = Path(temporary)
        fetched = fetch(uri, scratch / "model", tracking_uri=tracking_uri)
        model = read_mlflow_model(fetched.folder, flavour)
        if problems := list(signature_problems(model, spec)):
            raise PackagingError("\n".join(f"{spec.name}: {problem}" for problem in problems))
        weights = scratch / f"{version}{model.suffix}"
        _in_one_file(model, weights)
        record = training_record(model, fetched)
        weights.with_name(f"{version}.metrics.json").write_bytes(codec.to_json(record))
        return package(
            spec, version, model_dir=model_dir, out_dir=out_dir, image=image, weights=weights, progress=progress
        )


def fetch(uri: str, folder: Path, *, tracking_uri: str = "") -> Fetched:
    """Bring a model to this machine: a folder is read where it lies, anything else is fetched by MLflow's client.

    Raises:
        PackagingError: there is no such model, the server does not answer, or MLflow's client is not installed.

    """
    local = Path(uri)
    if local.is_dir():
        model_run = _run_of(local, tracking_uri) if tracking_uri else None
        return Fetched(folder=local, uri=local.name, tracking_uri=_without_login(tracking_uri), run=model_run)
    if ":/" not in uri:
        raise PackagingError(
            f"{uri}: got no folder and no URI; allowed models:/NAME/VERSION, runs:/RUN/PATH, an artifact URI or a "
            f"folder; correct it"
        )
    server = tracking_uri or os.environ.get(_SERVER, "")
    if not server and uri.startswith(_ON_A_SERVER):
        raise PackagingError(
            f"{uri}: got no tracking server, and MLflow would begin an empty one here; allowed its address; "
            f"give --tracking-uri (sqlite:///mlflow.db for one in this folder)"
        )
    folder.mkdir()
    with _mlflow_errors(uri):
        from mlflow.artifacts import download_artifacts  # noqa: PLC0415 - an optional client, slow to import

        with _asking(server):
            got = Path(download_artifacts(artifact_uri=uri, dst_path=str(folder), tracking_uri=server or None))
    return Fetched(folder=got, uri=uri, tracking_uri=_without_login(server), run=_run_of(got, server))


def training_record(model: MlflowModel, fetched: Fetched) -> TrainingRecord:
    """Give what a manifest says of training: metrics that are numbers, the commit, the data, and where it came from.

    The data's digest is that of the run's tag `data_sha256`; MLflow's own dataset digests are short and go to `origin`.
    """
    run = fetched.run
    origin = Origin(
        uri=fetched.uri,
        tracking_uri=fetched.tracking_uri,
        flavour=model.flavour,
        model_id=model.model_id,
        run_id=model.run_id,
        experiment_id=run.info.experiment_id if run is not None else "",
        mlflow_version=model.mlflow_version,
        datasets=_datasets(run),
    )
    if run is None:
        return TrainingRecord(origin=origin)
    digest = run.data.tags.get(_DATA_TAG, "")
    return TrainingRecord(
        metrics={name: value for name, value in sorted(run.data.metrics.items()) if math.isfinite(value)},
        training_commit=run.data.tags.get(_COMMIT_TAG, ""),
        data_sha256=digest if _SHA256.fullmatch(digest) else "",
        origin=origin,
    )


def _datasets(run: Run | None) -> dict[str, str]:
    if run is None or run.inputs is None:
        return {}
    return {each.dataset.name: each.dataset.digest for each in run.inputs.dataset_inputs}


def _run_of(folder: Path, tracking_uri: str) -> Run | None:
    run_id = mlflow_run_id(folder)
    if not run_id or not tracking_uri:
        return None
    with _mlflow_errors(f"run {run_id}"):
        from mlflow.tracking import MlflowClient  # noqa: PLC0415 - as above

        return MlflowClient(tracking_uri=tracking_uri).get_run(run_id)


def _in_one_file(model: MlflowModel, weights: Path) -> None:
    """Copy the weights; ONNX tensors that MLflow keeps in files beside the graph (its default) come into the graph."""
    if model.flavour != "onnx" or model.weights.stat().st_size > MAX_BYTES:
        shutil.copyfile(model.weights, weights)
        return
    try:
        graph = onnx.load(model.weights)  # refuses data outside the folder
        onnx.save(graph, weights)
    except Exception as error:  # noqa: BLE001 # protobuf and onnx raise types of their own for broken and for too large files
        reason = " ".join(str(error).split())[:200]
        raise PackagingError(
            f"{model.weights.name}: got no ONNX graph that is whole ({reason}); "
            f"allowed one with its tensors in at most {MAX_BYTES} bytes; log it again"
        ) from None


@contextmanager
def _asking(server: str) -> Iterator[None]:
    """Have MLflow ask one server: it resolves `models:/` by its process's address, whatever address a call names."""
    before = os.environ.get(_SERVER)
    if server:
        os.environ[_SERVER] = server
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SERVER, None)
        else:
            os.environ[_SERVER] = before


@contextmanager
def _mlflow_errors(what: str) -> Iterator[None]:
    """MLflow's errors, those of its HTTP client and its absence, in one line each."""
    os.environ.update(_SILENT)  # read when MLflow is imported
    os.environ.setdefault(*_RETRIES)
    try:
        yield
    except ImportError:
        raise PackagingError(
            f"{what}: got no MLflow client in this environment; allowed mlflow-skinny; install it: "
            f".venv/bin/uv sync --inexact --group mlflow"
        ) from None
    except Exception as error:  # noqa: BLE001 # the client lets errors of requests, urllib3, cloud SDKs and its own through
        reason = " ".join(str(error).split())[:300]
        raise PackagingError(
            f"{what}: got no answer from MLflow ({type(error).__name__}: {reason}); allowed a model that is there; "
            f"check the address and --tracking-uri"
        ) from None


def _without_login(uri: str) -> str:
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
