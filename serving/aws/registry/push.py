"""A push: the bytes first, whole and checked; the version last.

Whenever it is killed, the registry shows no version, or all of it. What is in S3 by then is found by the next push.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from serving.aws.registry.claims import CLAIM_LIFE, Claims
from serving.aws.registry.content import MIB, Content, Progress, Transfer, read_content
from serving.aws.registry.layout import (
    archive_key,
    check_digest,
    check_files,
    check_version,
    file_key,
    files_prefix,
)
from serving.aws.registry.store import Store
from serving.aws.registry.upload import Sent, Upload
from serving.aws.registry.versions import Version, Versions, refuse_other_bytes
from serving.errors import RegistryError
from serving.ports import Clock
from serving.spec.manifest import PackageManifest, RegisteredModel, tree_sha256


@dataclass(frozen=True, slots=True)
class Pushes:
    """Stores packages in one bucket."""

    store: Store
    versions: Versions
    claims: Claims
    clock: Clock
    transfer: Transfer

    def push(self, path: Path, manifest: PackageManifest, *, actor: str, progress: Progress) -> RegisteredModel:
        """Store a package and enter its version; the same again is a no-op that mends what was lost of its bytes.

        Raises:
            VersionConflictError: other bytes stand under that version.
            RegistryError: the package is not what its manifest says, or the bucket refuses.

        """
        contents = local_contents(path, manifest, self.transfer)  # first: a damaged copy is no success
        if (known := self.versions.find(manifest.name, manifest.version)) is not None:
            refuse_other_bytes(known, manifest)
            if all(self.store.head(key) is not None for key in contents):
                return known.registered
        with self.claims.claimed(manifest.name, manifest.archive_sha256, actor=actor) as claim:
            self._store_all(contents, progress)
            self._refuse_strangers(manifest, contents)
            if not self.claims.still_held(claim):
                raise RegistryError(
                    f"{manifest.name} {manifest.version}: got a push that began at {claim.claimed_at.isoformat()}; "
                    f"allowed {CLAIM_LIFE / 2}; push it again: what is there already is not sent twice"
                )
            entered = self.versions.enter(Version(registered=self._registered(manifest, actor), manifest=manifest))
        if entered is None:
            raise RegistryError(f"{manifest.name} {manifest.version}: another writer is at it; push it again")
        return entered.registered

    def _registered(self, manifest: PackageManifest, actor: str) -> RegisteredModel:
        digest = manifest.archive_sha256
        place = archive_key if manifest.layout == "archive" else files_prefix
        return RegisteredModel(
            name=manifest.name,
            version=manifest.version,
            sha256=digest,
            s3_uri=self.store.uri(place(manifest.name, digest)),
            created_at=self.clock(),
            created_by=actor,
        )

    def _store_all(self, contents: Mapping[str, Content], progress: Progress) -> None:
        """Send small files side by side, and large ones one after the other, each in parallel parts."""
        sent = _counted(progress, sum(content.size_bytes for content in contents.values()))
        small = [key for key, content in contents.items() if not content.parts]
        with ThreadPoolExecutor(max_workers=self.transfer.parallel, thread_name_prefix="file") as pool:
            list(pool.map(lambda key: self._store_one(key, contents[key], sent), small))
        for key, content in contents.items():
            if content.parts:
                self._store_one(key, content, sent)

    def _store_one(self, key: str, content: Content, sent: Sent) -> None:
        if (found := self.store.head(key)) is None:
            if Upload(self.store, key, content, transfer=self.transfer, sent=sent).run():
                return
            found = self.store.head(key)
            if found is None:
                raise RegistryError(f"{self.store.uri(key)}: another writer is at it; push it again")
        if found.size_bytes != content.size_bytes or not self._same(key, found.checksum, content):
            raise RegistryError(
                f"{self.store.uri(key)}: got other bytes than its name promises (sha256 {content.sha256}, "
                f"{content.size_bytes} bytes); somebody wrote there by hand: remove that object and push again"
            )
        sent(content.size_bytes)

    def _same(self, key: str, checksum: str | None, content: Content) -> bool:
        """Say whether stored bytes are the file's: by what S3 checked, or else by reading them."""
        if checksum == content.checksum:
            return True
        digest = hashlib.sha256()
        for chunk in self.store.stream(key, chunk_bytes=MIB):
            digest.update(chunk)
        return digest.hexdigest() == content.sha256

    def _refuse_strangers(self, manifest: PackageManifest, contents: Mapping[str, Content]) -> None:
        """SageMaker hands the container whatever lies below a prefix."""
        if manifest.layout == "prefix":
            prefix = files_prefix(manifest.name, manifest.archive_sha256)
            if strangers := sorted(set(self.store.keys(prefix)) - contents.keys()):
                raise RegistryError(
                    f"{self.store.uri(prefix)}: got {', '.join(strangers)}; allowed the manifest's files alone; "
                    f"remove those objects and push again"
                )


def local_contents(path: Path, manifest: PackageManifest, transfer: Transfer) -> dict[str, Content]:
    """Read a package, and give the key of each of its files with what must come to lie there.

    Raises:
        RegistryError: a file is not what the manifest says, is missing, or is one too many; names them all.

    """
    check_version(manifest.name, manifest.version)
    check_digest(manifest.archive_sha256)
    if manifest.layout == "archive":
        content = read_content(path, transfer)
        if (content.sha256, content.size_bytes) != (manifest.archive_sha256, manifest.size_bytes):
            raise RegistryError(
                f"{path}: got sha256 {content.sha256} of {content.size_bytes} bytes; allowed {manifest.archive_sha256} "
                f"of {manifest.size_bytes} bytes, of its manifest; package it again"
            )
        return {archive_key(manifest.name, manifest.archive_sha256): content}
    check_files(manifest.name, manifest.archive_sha256, manifest.files)
    if problems := list(_folder_problems(path, manifest)):
        raise RegistryError(f"{path}: {'; '.join(problems)}; package it again")
    contents = {entry.path: read_content(path / entry.path, transfer) for entry in manifest.files}
    if wrong := sorted(entry.path for entry in manifest.files if contents[entry.path].sha256 != entry.sha256):
        raise RegistryError(f"{path}: {', '.join(wrong)}: got other bytes than the manifest's; package it again")
    return {file_key(manifest.name, manifest.archive_sha256, each): content for each, content in contents.items()}


def _folder_problems(folder: Path, manifest: PackageManifest) -> Iterator[str]:
    """Compare names, sizes and the tree digest, before any byte is read."""
    if not folder.is_dir():
        yield "got no folder; allowed the one that its manifest describes"
        return
    wanted = {entry.path: entry.size_bytes for entry in manifest.files}
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    for name in sorted(wanted.keys() - found.keys()):
        yield f"{name}: got no such file"
    for name in sorted(found.keys() - wanted.keys()):
        yield f"{name}: got a file that is not in the manifest"
    for name in sorted(wanted.keys() & found.keys()):
        if found[name].is_symlink() or not found[name].is_file():
            yield f"{name}: got no regular file"
        elif found[name].stat().st_size != wanted[name]:
            yield f"{name}: got {found[name].stat().st_size} bytes; allowed {wanted[name]}"
    if (tree := tree_sha256(manifest.files)) != manifest.archive_sha256:
        yield f"manifest: got digest {manifest.archive_sha256}; allowed {tree}, that of its files"
    if (total := sum(wanted.values())) != manifest.size_bytes:
        yield f"manifest: got {manifest.size_bytes} bytes; allowed {total}, those of its files"


def _counted(progress: Progress, total: int) -> Sent:
    done, lock = 0, threading.Lock()

    def sent(size_bytes: int) -> None:
        nonlocal done
        with lock:
            done = min(done + size_bytes, total)  # an upload that began again counts its parts again
            progress(done, total)

    return sent
