"""Garbage: bytes that nothing names and uploads that nobody ends; marked, condemned, looked at again, then deleted.

In a versioned bucket a deletion is a delete marker: the bytes go when the bucket's lifecycle rule says so, and can be
brought back until then. What Object Lock holds is left alone (docs/adr/0018).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from serving.aws.registry import records
from serving.aws.registry.claims import Claims, Condemned
from serving.aws.registry.layout import MODELS, aliases_prefix, approvals_root, blob_prefix, condemned_prefix, owner_of
from serving.aws.registry.store import Listed, Store
from serving.aws.registry.versions import Versions
from serving.ports import Clock
from serving.spec.manifest import AliasRecord

DEFAULT_GRACE = timedelta(days=14)
"""How long unnamed bytes are kept: an interrupted push has that long to be taken up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """All objects of one digest."""

    name: str
    sha256: str
    objects: tuple[Listed, ...]

    @property
    def size_bytes(self) -> int:
        """Their size together."""
        return sum(entry.size_bytes for entry in self.objects)

    @property
    def modified_at(self) -> datetime:
        """When the newest of them was written: a push that is taken up again makes all of them young."""
        return max(entry.modified_at for entry in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """Bytes that went, or would go."""

    name: str
    sha256: str
    objects: int
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Bytes that no version names and that stay all the same, and why."""

    name: str
    sha256: str
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedUpload:
    """A multipart upload that nobody ended; its parts cost as objects do."""

    key: str
    upload_id: str
    begun_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What a collection did, or with `dry_run` would do."""

    dry_run: bool
    removed: tuple[Garbage, ...]
    kept: tuple[Kept, ...]
    uploads: tuple[AbandonedUpload, ...]

    @property
    def freed_bytes(self) -> int:
        """What the removed objects held."""
        return sum(each.size_bytes for each in self.removed)


@dataclass(frozen=True, slots=True)
class Collector:
    """Mark and sweep over one bucket."""

    store: Store
    versions: Versions
    claims: Claims
    clock: Clock

    def collect(self, *, grace: timedelta = DEFAULT_GRACE, dry_run: bool = False) -> Collection:
        """Remove what nothing names and nobody touched for the grace period.

        Raises:
            RegistryError: an entry cannot be read: then nobody knows what it names, and nothing is removed any more.

        """
        before, run = self.clock() - grace, uuid.uuid4().hex
        removed: list[Garbage] = []
        kept: list[Kept] = []
        named = {name: self._named(name) for name in self.versions.names()}  # all of them, before anything goes
        for name, digests in named.items():
            for blob in self._blobs(name):
                if blob.sha256 in digests:
                    continue
                why = self._reason_to_keep(blob, before=before) or ("" if dry_run else self._remove(blob, run=run))
                if why:
                    kept.append(Kept(name=name, sha256=blob.sha256, size_bytes=blob.size_bytes, why=why))
                else:
                    removed.append(_garbage(blob))
            if not dry_run:
                self._finish_condemned(name, run=run)
        uploads = tuple(self._abandoned(before))
        if not dry_run:
            self._abort(uploads)
        return Collection(dry_run=dry_run, removed=tuple(removed), kept=tuple(kept), uploads=uploads)

    def _named(self, name: str) -> set[str]:
        """Give every digest that a version, an alias or an approval names."""
        digests = {version.registered.sha256 for version in self.versions.all(name)}
        digests |= {alias.sha256 for alias in records.read_all(self.store, aliases_prefix(name), AliasRecord)}
        return digests | set(self.store.folders(approvals_root(name)))

    def _blobs(self, name: str) -> Iterator[Blob]:
        prefix = blob_prefix(name)
        found: dict[str, list[Listed]] = {}
        for entry in self.store.list(prefix):
            found.setdefault(entry.key.removeprefix(prefix).split("/", 1)[0], []).append(entry)
        for digest, objects in found.items():
            yield Blob(name=name, sha256=digest, objects=tuple(objects))

    def _reason_to_keep(self, blob: Blob, *, before: datetime) -> str:
        if blob.modified_at > before:
            return f"written at {blob.modified_at.isoformat()}, within the grace period"
        if (claim := self.claims.standing(blob.name, blob.sha256)) is not None:
            return f"{claim.actor} pushes it since {claim.claimed_at.isoformat()}"
        now = self.clock()
        heads = (self.store.head(entry.key) for entry in blob.objects)
        locks = [head.locked_until for head in heads if head is not None and head.locked_until is not None]
        return f"locked until {max(locks).isoformat()}" if locks and max(locks) > now else ""

    def _remove(self, blob: Blob, *, run: str) -> str:
        """Condemn, look again, delete; say why not."""
        condemned = self.claims.condemn(blob.name, blob.sha256, run=run)
        if condemned is None:
            return "another collection is at it"
        why = self._spared(blob.name, blob.sha256) or self._delete(blob, condemned)
        self.claims.acquit(blob.name, blob.sha256)
        return why

    def _spared(self, name: str, digest: str) -> str:
        """Look at claims first: a push enters its version before it gives its claim up."""
        if (claim := self.claims.standing(name, digest)) is not None:
            return f"{claim.actor} pushes it since {claim.claimed_at.isoformat()}"
        return "a version names it since a moment ago" if digest in self._named(name) else ""

    def _delete(self, blob: Blob, condemned: Condemned) -> str:
        for entry in blob.objects:
            if not self.claims.may_delete(condemned):
                return "the collection took too long; the next one goes on"
            if not self.store.delete_exactly(entry.key, etag=entry.etag) and self.store.head(entry.key) is not None:
                return f"{entry.key} changed in this moment"
        return ""

    def _finish_condemned(self, name: str, *, run: str) -> None:
        """Take back what a killed collection condemned and nobody would look at again."""
        for condemned in records.read_present(self.store, condemned_prefix(name), Condemned):
            if self.claims.condemn(name, condemned.sha256, run=run) is not None:
                self.claims.acquit(name, condemned.sha256)

    def _abandoned(self, before: datetime) -> Iterator[AbandonedUpload]:
        with self.store.named(MODELS):
            pages = self.store.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.store.bucket, Prefix=MODELS
            )
            for page in pages:
                for entry in page.get("Uploads", ()):
                    if entry["Initiated"] <= before and not self._claimed(entry["Key"]):
                        yield AbandonedUpload(
                            key=entry["Key"], upload_id=entry["UploadId"], begun_at=entry["Initiated"]
                        )

    def _claimed(self, key: str) -> bool:
        """Say whether somebody pushes what an upload belongs to: it may be taken up again right now."""
        owner = owner_of(key)
        return owner is not None and self.claims.standing(*owner) is not None

    def _abort(self, uploads: Sequence[AbandonedUpload]) -> None:
        """A push that takes one up in this moment begins a new one: nothing but time is lost."""
        for upload in uploads:
            self.store.abort_upload(upload.key, upload.upload_id)


def _garbage(blob: Blob) -> Garbage:
    return Garbage(
        name=blob.name,
        sha256=blob.sha256,
        objects=len(blob.objects),
        size_bytes=blob.size_bytes,
        modified_at=blob.modified_at,
    )
