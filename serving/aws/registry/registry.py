"""`serving.ports.ModelRegistry` on one bucket, and what only people and their commands ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from serving.aws.registry import lineage
from serving.aws.registry.aliases import Aliases
from serving.aws.registry.approval import Approvals
from serving.aws.registry.claims import Claims
from serving.aws.registry.content import Progress, Transfer
from serving.aws.registry.gc import Collector
from serving.aws.registry.pull import Pulls
from serving.aws.registry.push import Pushes
from serving.aws.registry.retention import Retention
from serving.aws.registry.store import Store
from serving.aws.registry.versions import Versions
from serving.aws.session import client
from serving.ports import Clock
from serving.spec.manifest import AliasRecord, PackageManifest, RegisteredModel

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_UPLOAD_TIMEOUT_S = 300.0
_ATTEMPTS = 8
"""A push of many parts meets more faults than a call: botocore waits 1, 2, 4 … 20 s, each times a random share."""


def connect(bucket: str) -> S3ModelRegistry:
    """Give the registry of a bucket, with region, credentials and endpoint of the environment."""
    s3 = client("s3", read_timeout_s=_UPLOAD_TIMEOUT_S, attempts=_ATTEMPTS)
    return S3ModelRegistry(bucket, s3, clock=lambda: datetime.now(UTC))


def _silent(_done: int, _total: int) -> None:
    """Tell nobody."""


class S3ModelRegistry:
    """One bucket: versions that never change, aliases that move by compare-and-set.

    Attributes:
        approvals: decisions about digests, and protected aliases.
        collector: mark and sweep of what nothing names.
        retention: Object Lock beyond the bucket's default.

    """

    def __init__(self, bucket: str, client: S3Client, *, clock: Clock, transfer: Transfer | None = None) -> None:
        store = Store(bucket, client)
        claims = Claims(store, clock=clock)
        self._versions = Versions(store)
        self.approvals = Approvals(store, self._versions, clock=clock)
        self.collector = Collector(store, self._versions, claims, clock)
        self.retention = Retention(store, self._versions)
        self._aliases = Aliases(store, self._versions, self.approvals, clock=clock)
        self._pushes = Pushes(store, self._versions, claims, clock, transfer or Transfer())
        self._pulls = Pulls(store, self._versions)

    def push(
        self, path: Path, manifest: PackageManifest, *, actor: str, progress: Progress = _silent
    ) -> RegisteredModel:
        """Store an archive, or a folder of files, and its manifest; the same digest again is a no-op.

        An interrupted push leaves bytes at most, which the next one finds and uses.

        Raises:
            VersionConflictError: other bytes stand under that version; says whose.
            RegistryError: the package is not what its manifest says, or the bucket refuses.

        """
        return self._pushes.push(path, manifest, actor=actor, progress=progress)

    def pull(self, name: str, version: str, out: Path, *, progress: Progress = _silent) -> Path:
        """Write a version and its manifest to a folder, every byte checked; give the path.

        Raises:
            ModelNotFoundError: no such version.
            IntegrityError: the bucket holds other bytes than were pushed.
            RegistryError: the bucket cannot be read, or the folder not written.

        """
        return self._pulls.pull(name, version, out, progress=progress)

    def verify(self, name: str, version: str, *, progress: Progress = _silent) -> RegisteredModel:
        """Read every byte of a version and compare it with the manifest.

        Raises:
            ModelNotFoundError: no such version.
            IntegrityError: names every file that is missing, changed, or one too many.

        """
        return self._pulls.verify(name, version, progress=progress)

    def versions(self, name: str | None = None) -> Sequence[RegisteredModel]:
        """List all versions, of one model or of all, by name and semantic version."""
        return [version.registered for version in self._versions.all(name)]

    def registered(self, name: str, version: str) -> RegisteredModel:
        """Read one version's entry, or raise ModelNotFoundError."""
        return self._versions.get(name, version).registered

    def manifest(self, name: str, version: str) -> PackageManifest:
        """Read one version's manifest, or raise ModelNotFoundError."""
        return self._versions.get(name, version).manifest

    def alias(self, name: str, alias: str) -> AliasRecord | None:
        """Read where an alias points."""
        return self._aliases.get(name, alias)

    def aliases(self, name: str) -> Sequence[AliasRecord]:
        """Read all aliases of a model, by name."""
        return self._aliases.all(name)

    def move_alias(self, name: str, alias: str, version: str, *, actor: str, reason: str) -> AliasRecord:
        """Point an alias at a version by compare-and-set; where it points there already, nothing changes.

        Raises:
            ModelNotFoundError: no such version.
            ApprovalError: the alias is protected, and the version's digest is not approved.
            AliasConflictError: somebody else moved it between the read and the write; says who.

        """
        return self._aliases.move(name, alias, version, actor=actor, reason=reason)

    def refuse_unapproved(self, name: str, alias: str, version: str) -> None:
        """Say before a release begins what would stop its alias at the end.

        Raises:
            ModelNotFoundError: no such version.
            ApprovalError: the alias is protected, and the version's digest is not approved.

        """
        if self.approvals.protected(name, alias):
            self.approvals.check(self.registered(name, version), alias)

    def roll_back_alias(
        self, name: str, alias: str, *, actor: str, reason: str, bad_version: str | None = None
    ) -> AliasRecord:
        """Point an alias at the version it pointed at before; with `bad_version` only if it points there now.

        Raises:
            ModelNotFoundError: no such alias, or it never moved.
            ApprovalError, AliasConflictError: as for `move_alias`; or it does not point at `bad_version`.

        """
        return self._aliases.roll_back(name, alias, actor=actor, reason=reason, bad_version=bad_version)

    def history(self, name: str) -> Sequence[AliasRecord]:
        """Give every move of every alias of a model, oldest first."""
        return self._aliases.history(name)

    def tenures(self, name: str) -> Sequence[lineage.Tenure]:
        """Give what every alias of a model pointed at, and when."""
        return lineage.tenures(self._aliases.history(name))

    def uses(self, sources: lineage.Sources, *, name: str | None = None) -> Sequence[lineage.Use]:
        """Give the versions, of one model or of all, that came of given sources, and where aliases held them."""
        found = [(version.registered, version.manifest) for version in self._versions.all(name)]
        fitting = sorted({registered.name for registered, manifest in found if sources.fit(manifest)})
        return lineage.uses(found, sources, [tenure for each in fitting for tenure in self.tenures(each)])
