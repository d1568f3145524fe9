"""From a spec and weights to an archive and its manifest; twice the same inputs give twice the same bytes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as installed
from pathlib import Path
from typing import Literal, TypeVar

import orjson

from model_packaging import pytorch_script, triton, vllm
from model_packaging.archive import Member, Progress, WrittenArchive, compressor, write_archive
from model_packaging.convert import converted
from model_packaging.manifest_file import manifest_path
from model_packaging.prefix import write_prefix
from model_packaging.trial import answer_problems, first_rows, sample_problems
from serving.errors import PackagingError
from serving.protocol.archive import SAMPLE
from serving.protocol.served import ServedModel
from serving.spec import codec
from serving.spec.evidence import Conversion, Origin, Parity
from serving.spec.manifest import LockedVersion, PackageManifest
from serving.spec.model import ModelSpec, VersionSpec
from serving.spec.runtime import PyTorchRuntime, Runtime, TritonRuntime, VllmRuntime
from serving.spec.tensors import DType
from serving.spec.versions import is_semantic, sorted_versions
from serving.telemetry.baseline import Baseline

T = TypeVar("T")

LOCK = "model.lock.json"

TOOLS = {
    "triton": ("deflate", "onnx", "onnxruntime", "protobuf", "tritonclient"),
    "vllm": ("deflate",),
    "pytorch": ("deflate",),
}
"""Whose releases an archive's bytes, or the checks it passed, depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """What a training script writes beside its weights."""

    metrics: dict[str, float] = field(default_factory=dict)
    training_commit: str = ""
    data_sha256: str = ""
    seed: int = 0
    parity: Parity | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files one version is made of; metrics and baseline may be missing."""

    trained: VersionSpec
    weights: Path
    metrics: Path | None
    baseline: Path | None


def archive_path(out_dir: Path, name: str, version: str) -> Path:
    """Where the archive of a version lies."""
    return out_dir / f"{name}-{version}.model.tar.gz"


def package_path(out_dir: Path, spec: ModelSpec, version: str) -> Path:
    """Where the package of a version lies: an archive, or the folder of a prefix."""
    archive = archive_path(out_dir, spec.name, version)
    return archive if layout_of(spec.runtime) == "archive" else archive.with_name(archive.name.removesuffix(".tar.gz"))


def layout_of(runtime: Runtime) -> Literal["archive", "prefix"]:
    """How packages of a runtime are laid out."""
    return runtime.layout if isinstance(runtime, VllmRuntime) else "archive"


def package(
    spec: ModelSpec,
    version: str,
    *,
    model_dir: Path,
    out_dir: Path,
    image: str,
    weights: Path | None = None,
    progress: Progress | None = None,
) -> PackageManifest:
    """Check one version and write `<name>-<version>.model.tar.gz` (or the folder `.model/`) and `.manifest.json`.

    Args:
        spec: the model.
        version: one of the spec's versions, or any semantic version when `weights` are given.
        model_dir: `models/<name>`.
        out_dir: where the two files go.
        image: the container image the archive is made for, `repository:tag`.
        weights: other weights than the spec names, packaged as they are; their metrics and baseline are the files of
            the same stem.
        progress: told how many bytes are packed.

    Raises:
        PackagingError: the files are not what spec and container need; all reasons, a line each.

    """
    sources = _sources(spec, version, model_dir, weights)
    served = ServedModel.of(spec, version=version)
    record = _read(sources.metrics, TrainingRecord) if sources.metrics else TrainingRecord()
    baseline = _read(sources.baseline, Baseline).to_dict() if sources.baseline else {}
    out = package_path(out_dir, spec, version)
    write = write_archive if layout_of(spec.runtime) == "archive" else write_prefix
    with tempfile.TemporaryDirectory(prefix="streamhub-convert-") as scratch:
        packed, conversion = converted(
            spec, sources.trained, weights=sources.weights, model_dir=model_dir, scratch=Path(scratch)
        )
        members = _members(spec, served, packed, model_dir / SAMPLE)
        written = write(members, out, progress=progress)
    manifest = _manifest(spec, served, written, image=image, record=record, baseline=baseline, conversion=conversion)
    _write_whole(manifest_path(out), codec.to_json(manifest) + b"\n")
    return manifest


def _sources(spec: ModelSpec, version: str, model_dir: Path, weights: Path | None) -> Sources:
    if weights is not None:
        if not is_semantic(version):
            raise PackagingError(f"version: got {version!r}; allowed a semantic version such as 3.0.0; correct it")
        beside = [weights.with_name(f"{weights.stem}.{kind}.json") for kind in ("metrics", "baseline")]
        metrics, baseline = (path if path.is_file() else None for path in beside)
        trained = VersionSpec(weights=str(weights))
        return Sources(trained=trained, weights=weights, metrics=metrics, baseline=baseline)
    if version not in spec.versions:
        allowed = ", ".join(sorted(spec.versions)) or "none"
        raise PackagingError(
            f"{spec.name}: version: got {version!r}; allowed {allowed}; "
            f'add [versions."{version}"] to model.toml or give --weights'
        )
    named = spec.versions[version]
    return Sources(
        trained=named,
        weights=model_dir / named.weights,
        metrics=model_dir / named.metrics if named.metrics else None,
        baseline=model_dir / named.baseline if named.baseline else None,
    )


def _members(spec: ModelSpec, served: ServedModel, weights: Path, sample_path: Path) -> list[Member]:
    match spec.runtime:
        case TritonRuntime() as runtime:
            return _triton_members(spec, served, runtime, weights, sample_path)
        case VllmRuntime() as runtime:
            return vllm.layout(served, runtime=runtime, folder=weights, sample=_optional(sample_path))
        case PyTorchRuntime():
            return pytorch_script.layout(served, folder=weights, sample=_optional(sample_path))


def _triton_members(
    spec: ModelSpec, served: ServedModel, runtime: TritonRuntime, weights: Path, sample_path: Path
) -> list[Member]:
    """Check the files, then the sample, then both together (ONNX): a later check would only repeat an earlier fault."""
    if problems := list(triton.weights_problems(served, weights)):
        raise PackagingError("\n".join(problems))
    batched = runtime.max_batch_size > 0
    if any(tensor.dtype is DType.BF16 for tensor in (*spec.inputs, *spec.outputs)):
        return triton.layout(served, weights=weights, sample=None, first_row=())  # BF16 has no form in JSON
    sample = _sample(sample_path)
    tensors, problems = sample_problems(sample, spec.inputs, batched=batched)
    if not problems and runtime.backend == "onnxruntime":
        problems = answer_problems(
            weights,
            tensors,
            spec.outputs,
            batched=batched,
            ragged=[tensor.name for tensor in spec.inputs if tensor.ragged],
            computed=runtime.batch_inputs,
        )
    if problems:
        raise PackagingError("\n".join(f"{spec.name}: {problem}" for problem in problems))
    return triton.layout(served, weights=weights, sample=sample, first_row=first_rows(tensors, batched=batched))


def _optional(path: Path) -> bytes | None:
    return _sample(path) if path.is_file() else None


def _sample(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PackagingError(
            f"{path}: got no readable file ({error.strerror}); allowed a request in Open Inference Protocol JSON; "
            f"every archive carries one, so that it can be tried"
        ) from None


def _read(path: Path, cls: type[T]) -> T:
    try:
        return codec.from_json(path.read_bytes(), cls)
    except (OSError, ValueError) as error:
        raise PackagingError(
            f"{path}: got an unusable file ({error}); allowed what the model's train.py writes; run it again"
        ) from None


def _manifest(
    spec: ModelSpec,
    served: ServedModel,
    written: WrittenArchive,
    *,
    image: str,
    record: TrainingRecord,
    baseline: dict[str, object],
    conversion: Conversion | None,
) -> PackageManifest:
    return PackageManifest(
        name=spec.name,
        version=served.version,
        archive_sha256=written.sha256,
        size_bytes=written.size_bytes,
        files=written.files,
        spec_sha256=hashlib.sha256(codec.to_json(spec)).hexdigest(),
        runtime=spec.runtime.kind,
        image=image,
        licence=spec.licence,
        inputs=spec.inputs,
        outputs=spec.outputs,
        labels=served.labels,
        thresholds={"block": served.thresholds.block_above, "review": served.thresholds.review_above},
        metrics=record.metrics,
        training_commit=record.training_commit,
        data_sha256=record.data_sha256,
        baseline=baseline,
        toolchain={
            **{tool: installed(tool) for tool in TOOLS[spec.runtime.kind]},
            **(compressor() if layout_of(spec.runtime) == "archive" else {}),
        },
        layout=layout_of(spec.runtime),
        parity=record.parity,
        conversion=conversion,
        origin=record.origin,
    )


def write_lock(model_dir: Path, manifests: Sequence[PackageManifest], *, keep: Mapping[str, LockedVersion]) -> Path:
    """Write `model.lock.json` beside the spec: version → digest and size; `keep` are entries that stay."""
    locked = {made.version: LockedVersion(sha256=made.archive_sha256, size_bytes=made.size_bytes) for made in manifests}
    table = {**keep, **locked}
    document = {version: asdict(table[version]) for version in sorted_versions(table)}
    path = model_dir / LOCK
    _write_whole(path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def read_lock(model_dir: Path) -> dict[str, LockedVersion]:
    """Read `model.lock.json`; empty when there is none.

    Raises:
        PackagingError: the file is no lock.

    """
    path = model_dir / LOCK
    return _read(path, dict[str, LockedVersion]) if path.is_file() else {}


def _write_whole(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
