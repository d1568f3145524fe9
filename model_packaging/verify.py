"""A package, opened and tried as its container would: every finding at once."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from model_packaging import pytorch_script, triton, vllm
from model_packaging.archive import Member, checked
from model_packaging.build import layout_of
from model_packaging.manifest_file import manifest_path, read_manifest
from model_packaging.pickle_scan import pickle_problems
from model_packaging.trial import answer_problems, sample_problems
from serving.errors import ArchiveError, PackagingError
from serving.protocol.archive import SAMPLE, ModelFolder, open_folder, rearranged
from serving.protocol.extraction import extract
from serving.protocol.served import ServedModel
from serving.spec.manifest import FileEntry, PackageManifest, tree_sha256
from serving.spec.runtime import TritonRuntime, VllmRuntime
from serving.spec.tensors import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What an archive holds, and everything that is wrong with it; `served` is None when it cannot even be opened."""

    archive: Path
    sha256: str
    size_bytes: int
    served: ServedModel | None
    files: tuple[FileEntry, ...]
    manifest: Path | None
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether its container would serve it."""
        return not self.findings


def verify(package: Path) -> Verification:
    """Open an archive, or the folder of a prefix, and try it; a manifest beside it is held against it.

    Members that may not be unpacked are named and left out; what else there is goes into a temporary folder that is
    gone when this returns, and is looked at all the same. No pickle is loaded.

    Raises:
        ArchiveError: there is no such file.

    """
    if not package.is_dir() and not package.is_file():
        got = "no plain file" if package.exists() else "no such file"
        raise ArchiveError(f"{package}: got {got}; allowed a model.tar.gz or a .model folder; check the path")
    try:
        return _verify_prefix(package) if package.is_dir() else _verify_archive(package)
    except OSError as error:
        return _unreadable(package, error)


def _unreadable(package: Path, error: OSError) -> Verification:
    where = f" at {error.filename}" if error.filename and Path(error.filename) != package else ""
    finding = (
        f"{package.name}: got {error.strerror or error}{where}; allowed what this user may read, and room for it; "
        f"check permissions and space"
    )
    return Verification(
        archive=package, sha256="", size_bytes=0, served=None, files=(), manifest=None, findings=(finding,)
    )


def _verify_archive(archive: Path) -> Verification:
    sha256 = digest_of(archive)
    beside = manifest_path(archive)
    manifest, findings = _manifest(beside)
    served: ServedModel | None = None
    with tempfile.TemporaryDirectory(prefix="streamhub-verify-") as temporary:
        root = Path(temporary)
        extraction = extract(archive, root)
        findings += extraction.findings
        files = _entries(root) if extraction.whole else ()
        for entry in files:
            findings += pickle_problems(root / entry.path, entry.path)
        if extraction.whole:
            served, problems = _tried(root, archive.name, rearrange=True)
            findings += problems
        if manifest is not None:
            findings += _against(manifest, sha256, served, files)
    return Verification(
        archive=archive,
        sha256=sha256,
        size_bytes=archive.stat().st_size,
        served=served,
        files=files,
        manifest=beside if manifest is not None else None,
        findings=tuple(findings),
    )


def _verify_prefix(folder: Path) -> Verification:
    """Look at the files where they are: the container gets them as they are."""
    beside = manifest_path(folder)
    manifest, findings = _manifest(beside)
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    try:
        checked(Member(path.relative_to(folder).as_posix(), path) for path in paths)
    except PackagingError as error:
        findings += str(error).splitlines()
    files = _entries(folder)
    for entry in files:
        findings += pickle_problems(folder / entry.path, entry.path)
    served, problems = _tried(folder, folder.name, rearrange=False)
    if served is not None and layout_of(served.runtime) != "prefix":
        problems.append("streamhub.json: got a model that is packaged as an archive; allowed layout = 'prefix'")
    findings += problems
    sha256 = tree_sha256(files)
    if manifest is not None:
        findings += _against(manifest, sha256, served, files)
    return Verification(
        archive=folder,
        sha256=sha256,
        size_bytes=sum(entry.size_bytes for entry in files),
        served=served,
        files=files,
        manifest=beside if manifest is not None else None,
        findings=tuple(findings),
    )


def _tried(root: Path, named: str, *, rearrange: bool) -> tuple[ServedModel | None, list[str]]:
    """Open a folder and check its model; one that its container would refuse is looked into as far as it goes."""
    findings: list[str] = []
    try:
        folder = open_folder(root, named=named)
    except ArchiveError as error:
        findings.append(str(error))
        found = rearranged(root) if rearrange else None
        if found is None:
            return None, findings
        folder = found
    findings += CHECKS[folder.served.runtime.kind](folder)
    return folder.served, findings


def digest_of(path: Path) -> str:
    """Give the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(path: Path) -> tuple[PackageManifest | None, list[str]]:
    if not path.is_file():
        return None, []
    try:
        return read_manifest(path), []
    except PackagingError as error:
        return None, [str(error)]


def _entries(root: Path) -> tuple[FileEntry, ...]:
    paths = sorted(
        (path for path in root.rglob("*") if path.is_file() and not path.is_symlink()),
        key=lambda path: path.relative_to(root),
    )
    return tuple(
        FileEntry(path=path.relative_to(root).as_posix(), size_bytes=path.stat().st_size, sha256=digest_of(path))
        for path in paths
    )


def _against(
    manifest: PackageManifest, sha256: str, served: ServedModel | None, files: tuple[FileEntry, ...]
) -> Iterator[str]:
    if manifest.archive_sha256 != sha256:
        yield f"sha256: got {sha256}; allowed {manifest.archive_sha256} of its manifest; fetch or package it again"
    if not files:
        return  # it could not be read at all: that finding says it better
    if served is not None and (served.name, served.version) != (manifest.name, manifest.version):
        yield (
            f"streamhub.json: got {served.name} {served.version}; allowed {manifest.name} {manifest.version} "
            f"of its manifest; package it again"
        )
    found = {entry.path: entry.sha256 for entry in files}
    listed = {entry.path: entry.sha256 for entry in manifest.files}
    for path in sorted(found.keys() | listed.keys()):
        if found.get(path) != listed.get(path):
            got = found.get(path, "no such file")
            yield f"{path}: got {got}; allowed {listed.get(path, 'no such file')} of its manifest; package it again"


def _triton(folder: ModelFolder) -> Iterator[str]:
    served, runtime = folder.served, folder.served.runtime
    if not isinstance(runtime, TritonRuntime):
        return
    batched = runtime.max_batch_size > 0
    broken = list(triton.repository_problems(folder.root, served))
    yield from broken
    if any(tensor.dtype is DType.BF16 for tensor in (*served.inputs, *served.outputs)):
        return  # it has no form in JSON, so there is no sample
    if folder.sample is None:
        yield f"got no {SAMPLE}; allowed one, so that the archive can be tried; package it with `streamhub package`"
        return
    tensors, problems = sample_problems(folder.sample.read_bytes(), served.inputs, batched=batched)
    yield from problems
    if runtime.backend == "onnxruntime" and not broken and not problems:
        yield from answer_problems(
            folder.model,
            tensors,
            served.outputs,
            batched=batched,
            ragged=[tensor.name for tensor in served.inputs if tensor.ragged],
            computed=runtime.batch_inputs,
        )


def _vllm(folder: ModelFolder) -> Iterator[str]:
    if isinstance(folder.served.runtime, VllmRuntime):
        yield from vllm.packaged_problems(folder.root, folder.served.runtime)


def _pytorch(folder: ModelFolder) -> Iterator[str]:
    yield from pytorch_script.folder_problems(folder.root)


CHECKS: Mapping[str, Callable[[ModelFolder], Iterator[str]]] = {
    "triton": _triton,
    "vllm": _vllm,
    "pytorch": _pytorch,
}
"""What is looked at beyond the layout, by the kind of runtime."""
