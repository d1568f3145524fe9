"""What the three training scripts share: seeded torch, export to ONNX, and the files that travel with weights.

torch is imported where it is used, so that everything else of a model folder works without it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from serving.protocol.codec import encode_request
from serving.protocol.tensors import InferRequest, Tensor
from serving.telemetry.baseline import make_baseline

# https://onnxruntime.ai/docs/reference/compatibility.html: opset 18 and IR 10 load in every ONNX Runtime since 1.18
IR_VERSION = 10
BASELINE_BINS = 10


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


def export_network(
    network: Any,  # noqa: ANN401 - a torch module
    inputs: Mapping[str, Any],
    *,
    output_name: str,
    opset: int,
    free: Mapping[str, Mapping[int, str]] = MappingProxyType({}),
) -> onnx.ModelProto:
    """Export with a free batch dimension `N`; drop what depends on the machine it ran on.

    `inputs` are example tensors of at least two rows by name, in the order the network takes them; `free` names further
    free dimensions of an input by their place.
    """
    import torch  # noqa: PLC0415

    dims = {label: torch.export.Dim(label) for label in ("N", *(x for row in free.values() for x in row.values()))}
    shapes = [{0: dims["N"], **{at: dims[label] for at, label in free.get(name, {}).items()}} for name in inputs]
    # it says that torchvision is absent, that torch deprecates its own parts, that inputs share `N`: nothing to act on
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=FutureWarning)
        warnings.simplefilter("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="# The axis name")
        program = torch.onnx.export(
            network.eval(),
            tuple(inputs.values()),
            dynamo=True,
            opset_version=opset,
            input_names=list(inputs),
            output_names=[output_name],
            dynamic_shapes=tuple(shapes),
            verbose=False,
        )
    model = onnx.ModelProto()
    model.CopyFrom(program.model_proto)
    return tidy(model)


def tidy(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove stack traces, paths and shape notes of the exporter; keep what defines the function."""
    model.ir_version = IR_VERSION
    model.doc_string = ""
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        tensor.doc_string = ""
        del tensor.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    return model


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write the bytes; equal models give equal files."""
    path.write_bytes(model.SerializeToString(deterministic=True))


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


def code_commit(script: str) -> str:
    """Give the last commit that changed the Python files the training reads; empty outside a git checkout."""
    folder = Path(script).resolve().parent
    command = ["git", "log", "-1", "--format=%H", "--", "*.py", str(Path(__file__).resolve())]
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
) -> None:
    """Write `<version>.metrics.json` and `<version>.baseline.json` beside `<version>.onnx`; `stem` has no suffix."""
    record = {
        "metrics": {name: round(value, 6) for name, value in metrics.items()},
        "training_commit": code_commit(script),
        "data_sha256": data_sha256,
        "seed": seed,
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
