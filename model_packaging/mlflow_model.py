"""What an MLflow model folder says of itself: its `MLmodel` file, its weights, and its signature held against a spec.

Sources: MLflow, *MLflow Model* (format of `MLmodel`), *Model signature*; flavours `mlflow.onnx` and `mlflow.pytorch`.
Nothing is imported or unpickled: a flavour's Python code and environment files stay behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import orjson

from model_packaging.foreign_yaml import read_yaml
from serving.errors import PackagingError
from serving.protocol.tensors import DATATYPES
from serving.spec.model import ModelSpec
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import TensorSpec

Flavour = Literal["onnx", "pytorch"]

_MLMODEL = "MLmodel"
_MAX_MLMODEL_BYTES = 8 << 20
_WEIGHTS: Mapping[Flavour, tuple[str, ...]] = {"onnx": ("",), "pytorch": ("model.pt2", "model.pth")}
"""Below what a flavour names as its data: the file itself, or the file of the format it was saved in."""

_SUFFIXES = {".pth": ".pt"}
"""`torch.jit.save` through MLflow ends in .pth; Triton wants .pt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureTensor:
    """One tensor of a signature; `shape` has the batch dimension, -1 where it varies; MLflow lets names be absent."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowModel:
    """An MLflow model on disk; `run_id` and `model_id` are empty where it was saved outside a run.

    `inputs` and `outputs` are empty where the signature is missing or is one of data frame columns, not of tensors.
    """

    weights: Path
    flavour: Flavour
    mlflow_version: str
    run_id: str
    model_id: str
    inputs: tuple[SignatureTensor, ...]
    outputs: tuple[SignatureTensor, ...]

    @property
    def suffix(self) -> str:
        """The suffix under which a package takes the weights."""
        return _SUFFIXES.get(self.weights.suffix, self.weights.suffix)


def wanted_flavour(spec: ModelSpec) -> Flavour:
    """Give the flavour that a model's runtime can be made of.

    Raises:
        PackagingError: none can.

    """
    runtime = spec.runtime
    if isinstance(runtime, TritonRuntime) and runtime.backend in ("onnxruntime", "pytorch"):
        return "onnx" if runtime.backend == "onnxruntime" else "pytorch"
    got = f"{runtime.kind} {runtime.backend}" if isinstance(runtime, TritonRuntime) else runtime.kind
    raise PackagingError(
        f"{spec.name}: runtime: got {got}; allowed triton with backend onnxruntime or pytorch, which MLflow's flavours "
        f"onnx and pytorch give; package other runtimes from files: streamhub package {spec.name} --weights PATH"
    )


def read_mlflow_model(folder: Path, flavour: Flavour) -> MlflowModel:
    """Read a model folder and find the weights of a flavour.

    Raises:
        PackagingError: it is no MLflow model, has another flavour, or its weights lie outside it.

    """
    document = _mlmodel(folder / _MLMODEL)
    flavours = _table(document.get("flavors"))
    if flavour not in flavours:
        have = ", ".join(sorted(set(flavours) - {"python_function"})) or "none"
        raise PackagingError(
            f"{folder / _MLMODEL}: flavors: got {have}; allowed {flavour}, which the spec's runtime is made of; "
            f"log the model with mlflow.{flavour}.log_model"
        )
    signature = _table(document.get("signature"))
    return MlflowModel(
        weights=_weights(folder, flavour, _table(flavours[flavour])),
        flavour=flavour,
        mlflow_version=str(document.get("mlflow_version") or ""),
        run_id=str(document.get("run_id") or ""),
        model_id=str(document.get("model_id") or ""),
        inputs=tuple(_tensors(folder, signature.get("inputs"))),
        outputs=tuple(_tensors(folder, signature.get("outputs"))),
    )


def mlflow_run_id(folder: Path) -> str:
    """Give the run that made a model; empty where it was saved outside one.

    Raises:
        PackagingError: it is no MLflow model.

    """
    return str(_mlmodel(folder / _MLMODEL).get("run_id") or "")


def signature_problems(model: MlflowModel, spec: ModelSpec) -> Iterator[str]:
    """Say where a signature of tensors contradicts a spec; where MLflow has no names, the order counts."""
    batched = isinstance(spec.runtime, TritonRuntime) and spec.runtime.max_batch_size > 0
    for section, found, declared in (("inputs", model.inputs, spec.inputs), ("outputs", model.outputs, spec.outputs)):
        if not found:
            continue
        if len(found) != len(declared):
            yield f"signature: {section}: got {len(found)} tensors; allowed {len(declared)}, as [[{section}]] says"
            continue
        yield from _differences(section, found, declared, batched=batched)


def _differences(
    section: str, found: Sequence[SignatureTensor], declared: Sequence[TensorSpec], *, batched: bool
) -> Iterator[str]:
    named = {tensor.name: tensor for tensor in found if tensor.name}
    for index, want in enumerate(declared):
        got = named.get(want.name) if named else found[index]
        if got is None:
            yield f"signature: {section}: got no {want.name!r}; allowed {', '.join(sorted(named))}; name it so in both"
            continue
        shape = (-1, *want.shape) if batched else want.shape
        if (got.datatype, len(got.shape)) != (want.dtype.value, len(shape)) or any(
            a != b and -1 not in (a, b) for a, b in zip(got.shape, shape, strict=True)
        ):
            yield (
                f"signature: {section}: {want.name}: got {got.datatype} {list(got.shape)}; "
                f"allowed {want.dtype.value} {list(shape)}, as [[{section}]] says; correct one of them"
            )


def _mlmodel(path: Path) -> dict[str, Any]:
    try:
        document = read_yaml(path, max_bytes=_MAX_MLMODEL_BYTES)
    except (OSError, ValueError) as error:
        raise PackagingError(f"{path}: got no readable MLmodel file ({error}); allowed a folder MLflow wrote") from None
    return _table(document)


def _table(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _weights(folder: Path, flavour: Flavour, settings: Mapping[str, Any]) -> Path:
    data = str(settings.get("data" if flavour == "onnx" else "model_data") or "")
    place = PurePosixPath(data)
    if not data or place.is_absolute() or ".." in place.parts:
        raise PackagingError(f"{folder / _MLMODEL}: {flavour}: got the data {data!r}; allowed a path below the folder")
    candidates = [folder / place / name if name else folder / place for name in _WEIGHTS[flavour]]
    root = folder.resolve()
    for candidate in candidates:
        if candidate.is_file() and candidate.resolve().is_relative_to(root):
            return candidate
    allowed = " or ".join(candidate.relative_to(folder).as_posix() for candidate in candidates)
    raise PackagingError(f"{folder}: {flavour}: got no weights; allowed {allowed} inside the folder; log it again")


def _tensors(folder: Path, text: object) -> Iterator[SignatureTensor]:
    if not isinstance(text, str) or not text:
        return
    try:
        entries = orjson.loads(text)
        for entry in entries:
            if entry.get("type") == "tensor":
                spec = entry["tensor-spec"]
                yield SignatureTensor(
                    name=str(entry.get("name") or ""),
                    datatype=_datatype(str(spec["dtype"])),
                    shape=tuple(int(size) for size in spec["shape"]),
                )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PackagingError(f"{folder / _MLMODEL}: signature: got an unreadable one ({error}); log it again") from None


def _datatype(name: str) -> str:
    """Give the protocol's name of a numpy type; text of any length is BYTES, as MLflow writes `str` and `object`."""
    dtype = np.dtype(name)
    return "BYTES" if dtype.kind in "OSU" else DATATYPES.get(dtype, name)
