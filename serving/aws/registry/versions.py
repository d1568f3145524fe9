"""Versions: what was pushed, entered once and never changed."""

from __future__ import annotations

from dataclasses import dataclass

from serving.aws.registry import records
from serving.aws.registry.layout import MODELS, check_name, check_version, version_key, versions_prefix
from serving.aws.registry.store import Store
from serving.errors import IntegrityError, ModelNotFoundError, VersionConflictError
from serving.spec import codec
from serving.spec.manifest import PackageManifest, RegisteredModel
from serving.spec.versions import order


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What `versions/<version>.json` holds."""

    registered: RegisteredModel
    manifest: PackageManifest


class Versions:
    """The entries of a bucket."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def names(self) -> list[str]:
        """Give the models that have anything in the registry."""
        return sorted(self._store.folders(MODELS))

    def all(self, name: str | None = None) -> list[Version]:
        """Read every entry, of one model or of all, by name and semantic version.

        Raises:
            RegistryError: one cannot be read.

        """
        if name is not None:
            check_name(name)
        found = [
            version
            for each in ([name] if name is not None else self.names())
            for version in records.read_all(self._store, versions_prefix(each), Version)
        ]
        return sorted(found, key=lambda each: (each.registered.name, order(each.registered.version)))

    def find(self, name: str, version: str) -> Version | None:
        """Read one entry; None when there is none.

        Raises:
            IntegrityError: what stands there is not that version's.

        """
        check_version(name, version)
        key = version_key(name, version)
        found = records.read(self._store, key, Version)
        if found is None:
            return None
        registered, manifest = found.value.registered, found.value.manifest
        says = {(each.name, each.version) for each in (registered, manifest)}
        if says != {(name, version)} or registered.sha256 != manifest.archive_sha256:
            raise IntegrityError(
                f"{self._store.uri(key)}: got an entry of another version, or of two digests; allowed what a push "
                f"writes; somebody wrote there by hand: bring the former object version back"
            )
        return found.value

    def get(self, name: str, version: str) -> Version:
        """Read one entry.

        Raises:
            ModelNotFoundError: there is none; says which there are.

        """
        found = self.find(name, version)
        if found is None:
            have = ", ".join(each.registered.version for each in self.all(name)) or "none"
            raise ModelNotFoundError(
                f"{name}: version: got {version!r}, which is not in the registry; it has {have}; push it first"
            )
        return found

    def enter(self, version: Version) -> Version | None:
        """Write a new entry, and give the one that stands: this one, or the first writer's; None while S3 is undecided.

        Raises:
            VersionConflictError: other bytes stand under that version; says whose.

        """
        name, number = version.registered.name, version.registered.version
        if self._store.put_new(version_key(name, number), codec.to_json(version)):
            return version
        winner = self.find(name, number)
        if winner is not None:
            refuse_other_bytes(winner, version.manifest)
        return winner


def refuse_other_bytes(known: Version, manifest: PackageManifest) -> None:
    """Refuse a manifest whose bytes are not those of the version that stands.

    Raises:
        VersionConflictError: says who pushed what stands, and when.

    """
    stands = known.registered
    if stands.sha256 != manifest.archive_sha256:
        raise VersionConflictError(
            f"{manifest.name} {manifest.version}: got sha256 {manifest.archive_sha256}; the registry holds "
            f"{stands.sha256}, pushed by {stands.created_by} at {stands.created_at.isoformat()}, and a version's bytes "
            f"never change; choose a new version"
        )
