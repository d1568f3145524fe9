"""Reading a version back: every byte is checked against the manifest before anything has its final name."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from serving.aws.registry.content import MIB, Progress, Transfer
from serving.aws.registry.layout import archive_key, check_files, file_key, files_prefix
from serving.aws.registry.push import local_contents
from serving.aws.registry.store import Store
from serving.aws.registry.versions import Versions
from serving.errors import IntegrityError, RegistryError
from serving.spec import codec
from serving.spec.manifest import FileEntry, PackageManifest, RegisteredModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One object of a version: its key, and what its bytes must be."""

    key: str
    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Pulls:
    """Reads packages of one bucket."""

    store: Store
    versions: Versions

    def pull(self, name: str, version: str, out: Path, *, progress: Progress) -> Path:
        """Write a version's archive, or the folder of its files, and its manifest beside it; give the first's path.

        What an interrupted pull left is taken up again. The path appears at the end, whole; where it is there already
        with the same bytes, nothing is fetched.

        Raises:
            ModelNotFoundError: no such version.
            IntegrityError: the bucket holds other bytes than were pushed; nothing of that name appears.
            RegistryError: the bucket cannot be read, the folder not written, its name is taken by other bytes, or
                another pull writes there.

        """
        manifest = self.versions.get(name, version).manifest
        target = out / f"{name}-{version}.{'model.tar.gz' if manifest.layout == 'archive' else 'model'}"
        try:
            if target.exists():
                _refuse_other(target, manifest)
                _write_manifest(manifest, target)
            else:
                self._complete(manifest, target, progress)
        except OSError as error:
            raise RegistryError(
                f"{error.filename or target}: got {error.strerror}; allowed a folder to write to; check path and space"
            ) from error
        return target

    def _complete(self, manifest: PackageManifest, target: Path, progress: Progress) -> None:
        wanted = stored_files(manifest)
        folder = manifest.layout == "prefix"
        partial = target.with_name(f"{target.name}.part")
        with _alone(partial, folder=folder):
            if folder:
                _remove_strangers(partial, wanted)
            counted = _Counted(progress, manifest.size_bytes)
            for stored in wanted:
                self._fetch(stored, partial / stored.path if folder else partial, counted)
            _write_manifest(manifest, target)
            partial.rename(target)

    def verify(self, name: str, version: str, *, progress: Progress) -> RegisteredModel:
        """Read every byte of a version in the bucket and compare it with the manifest.

        Raises:
            ModelNotFoundError: no such version.
            IntegrityError: names every file that is missing, changed, or one too many.

        """
        found = self.versions.get(name, version)
        counted = _Counted(progress, found.manifest.size_bytes)
        wanted = stored_files(found.manifest)
        problems = [problem for stored in wanted if (problem := self._problem(stored, counted))]
        if found.manifest.layout == "prefix":
            prefix = files_prefix(name, found.registered.sha256)
            strangers = sorted(set(self.store.keys(prefix)) - {stored.key for stored in wanted})
            problems += [f"{self.store.uri(key)}: got an object that was never pushed" for key in strangers]
        if problems:
            raise IntegrityError(
                f"{name} {version}: {'; '.join(problems)}; allowed the bytes of the manifest; push the package again"
            )
        return found.registered

    def _problem(self, stored: Stored, counted: _Counted) -> str:
        head = self.store.head(stored.key)
        if head is None:
            return f"{self.store.uri(stored.key)}: got no object"
        digest = hashlib.sha256()
        for chunk in self.store.stream(stored.key, chunk_bytes=MIB, etag=head.etag):
            digest.update(chunk)
            counted.add(len(chunk))
        same = (head.size_bytes, digest.hexdigest()) == (stored.size_bytes, stored.sha256)
        return "" if same else f"{self.store.uri(stored.key)}: got sha256 {digest.hexdigest()}, not {stored.sha256}"

    def _fetch(self, stored: Stored, path: Path, counted: _Counted) -> None:
        """Bring one object to a path, from where the bytes there end; wrong ones are removed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        head = self.store.head(stored.key)
        if head is None or head.size_bytes != stored.size_bytes:
            got = "no object" if head is None else f"{head.size_bytes} bytes"
            raise IntegrityError(
                f"{self.store.uri(stored.key)}: got {got}; allowed {stored.size_bytes} bytes; push the package again"
            )
        digest = hashlib.sha256()
        with path.open("a+b") as file:
            file.seek(0)
            for chunk in _chunks(file, limit=stored.size_bytes):
                digest.update(chunk)
                counted.add(len(chunk))
            file.truncate(start := file.tell())
            if start < stored.size_bytes:
                for chunk in self.store.stream(stored.key, chunk_bytes=MIB, start=start, etag=head.etag):
                    file.write(chunk)
                    digest.update(chunk)
                    counted.add(len(chunk))
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != stored.sha256:
            path.unlink()
            raise IntegrityError(
                f"{self.store.uri(stored.key)}: got sha256 {digest.hexdigest()}; allowed {stored.sha256}; pull again; "
                f"if it stays: streamhub registry verify"
            )


def stored_files(manifest: PackageManifest) -> list[Stored]:
    """Give the objects of a version.

    Raises:
        RegistryError: the manifest names paths that are none.

    """
    name, digest = manifest.name, manifest.archive_sha256
    if manifest.layout == "archive":
        return [Stored(key=archive_key(name, digest), path="", size_bytes=manifest.size_bytes, sha256=digest)]
    check_files(name, digest, manifest.files)
    return [_stored(name, digest, entry) for entry in manifest.files]


def _stored(name: str, digest: str, entry: FileEntry) -> Stored:
    key = file_key(name, digest, entry.path)
    return Stored(key=key, path=entry.path, size_bytes=entry.size_bytes, sha256=entry.sha256)


def _chunks(file: BinaryIO, *, limit: int) -> Iterator[bytes]:
    while (left := limit - file.tell()) > 0 and (chunk := file.read(min(MIB, left))):
        yield chunk


def _refuse_other(target: Path, manifest: PackageManifest) -> None:
    try:
        local_contents(target, manifest, Transfer())
    except RegistryError:
        raise RegistryError(
            f"{target}: got a name that is taken by other bytes; allowed a new one; move it away or give --out"
        ) from None


@contextmanager
def _alone(partial: Path, *, folder: bool) -> Iterator[None]:
    """Hold a lock on an unfinished package: two that append to one file would each see the right bytes go by."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        partial.mkdir(exist_ok=True)
    handle = os.open(partial, os.O_RDONLY | (0 if folder else os.O_CREAT), 0o644)
    try:
        if not _locked(handle, partial):
            raise RegistryError(f"{partial}: got a pull that writes there; wait until it ends, or give --out")
        yield
    finally:
        os.close(handle)


def _locked(handle: int, path: Path) -> bool:
    """Lock an open file; who held the lock before may have given it its final name since it was opened."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _remove_strangers(partial: Path, wanted: Sequence[Stored]) -> None:
    """Remove what another registry's version of that name left: the folder is to hold the manifest's files alone."""
    known = {partial / stored.path for stored in wanted}
    for path in partial.rglob("*"):
        if path not in known and (path.is_symlink() or not path.is_dir()):
            path.unlink()


def _write_manifest(manifest: PackageManifest, target: Path) -> None:
    path = target.with_name(target.name.removesuffix(".tar.gz").removesuffix(".model") + ".manifest.json")
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(codec.to_json(manifest) + b"\n")
    partial.replace(path)


class _Counted:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._done, self._total = 0, total

    def add(self, size_bytes: int) -> None:
        self._done += size_bytes
        self._progress(self._done, self._total)
