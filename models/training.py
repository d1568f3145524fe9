"""What the training scripts share: seeded torch, and the files that travel with weights.

torch is imported where it is used, so that everything else of a model folder works without it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.protocol.codec import encode_request
from serving.protocol.tensors import InferRequest, Tensor
from serving.spec import codec
from serving.spec.evidence import Parity
from serving.spec.load import parse
from serving.spec.model import ModelSpec
from serving.telemetry.baseline import make_baseline

BASELINE_BINS = 10
EXPORT_FILES = ("export.py", "parity.py")


def weights_folder(script: str) -> Path:
    """Read `--out DIR`; without it the weights beside the script are rewritten."""
    parser = argparse.ArgumentParser(description="train the model and write its weights, metrics and drift baseline")
    parser.add_argument("--out", type=Path, default=Path(script).parent / "weights", help="folder to write to")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def seed_torch(seed: int) -> Any:  # noqa: ANN401 - torch ships beside the lock and is not known to the type checker
    """Import torch, fix its seed and its thread count, and give the module: the same seed gives the same bytes."""
    import torch  # noqa: PLC0415

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    return torch


def image_columns(images: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.float64]]:
    """Give the watched columns of images (rows, height, width, 3): mean and deviation of all values, 0..255."""
    flat = images.reshape(len(images), -1)
    return {"image.brightness": flat.mean(axis=1), "image.contrast": flat.std(axis=1)}


def data_digest(*arrays: npt.NDArray[Any]) -> str:
    """Give the SHA-256 over the training arrays, in order."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def spec_of(script: str) -> ModelSpec:
    """Read the `model.toml` beside the script; files that it names may still be missing."""
    path = Path(script).parent / "model.toml"
    return parse(path.read_text(encoding="utf-8"), ModelSpec, file=path.name)


def code_commit(script: str) -> str:
    """Give the last commit that changed the Python files the training reads; empty where they differ from it."""
    folder = Path(script).resolve().parent
    shared = (Path(__file__).resolve(), *(folder.parents[1] / "model_packaging" / name for name in EXPORT_FILES))
    files = ("--", "*.py", *map(str, shared))
    if _git(folder, "status", "--porcelain", *files):
        return ""
    return _git(folder, "log", "-1", "--format=%H", *files)


def _git(folder: Path, *words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip()


def write_records(
    stem: Path,
    *,
    metrics: Mapping[str, float],
    data_sha256: str,
    seed: int,
    script: str,
    columns: Mapping[str, npt.NDArray[Any]],
    parity: Parity,
) -> None:
    """Write `<version>.metrics.json` and `<version>.baseline.json` beside `<version>.onnx`; `stem` has no suffix."""
    record = {
        "metrics": {name: round(value, 6) for name, value in metrics.items()},
        "training_commit": code_commit(script),
        "data_sha256": data_sha256,
        "seed": seed,
        "parity": codec.converter().unstructure(parity),
    }
    baseline = make_baseline(columns, bins=BASELINE_BINS).to_dict()
    for suffix, document in ((".metrics.json", record), (".baseline.json", baseline)):
        write_json(stem.with_name(stem.name + suffix), document)


def write_samples(script: str, inputs: Mapping[str, npt.NDArray[Any]], body: Mapping[str, object]) -> None:
    """Write `samples/request.json` for the model server and `samples/api.json`, a body of the prediction API."""
    folder = Path(script).parent / "samples"
    folder.mkdir(exist_ok=True)
    request = InferRequest(inputs=tuple(Tensor(name, array) for name, array in inputs.items()))
    encoded, _ = encode_request(request, binary=False)
    (folder / "request.json").write_bytes(encoded + b"\n")
    write_json(folder / "api.json", body)


def write_json(path: Path, document: object) -> None:
    """Write readable JSON that ends with a newline."""
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
