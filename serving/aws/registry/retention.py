"""Object Lock: the bucket locks what is new for its default time; what must be kept longer is locked again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from serving.aws.registry.layout import approvals_prefix, version_key
from serving.aws.registry.pull import stored_files
from serving.aws.registry.store import Store
from serving.aws.registry.versions import Versions
from serving.errors import RegistryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """How many objects of a version were locked anew; the others were locked for longer already."""

    name: str
    version: str
    until: datetime
    mode: str
    locked: int
    objects: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Locks of one bucket."""

    store: Store
    versions: Versions

    def retain(self, name: str, version: str, *, until: datetime) -> Retained:
        """Lock a version's entry, bytes and approvals until a date; nothing is ever shortened.

        Raises:
            ModelNotFoundError: no such version.
            RegistryError: the bucket was made without Object Lock, or an object is missing.

        """
        found = self.versions.get(name, version)
        mode = self.store.lock_mode()
        if mode is None:
            raise RegistryError(
                f"s3://{self.store.bucket}: got a bucket without Object Lock; allowed one that was made with it: a "
                f'stage with removal = "retain"'
            )
        keys = [version_key(name, version), *(stored.key for stored in stored_files(found.manifest))]
        keys += self.store.keys(approvals_prefix(name, found.registered.sha256))
        locked = sum(self._lock(key, mode=mode, until=until) for key in keys)
        return Retained(name=name, version=version, until=until, mode=mode, locked=locked, objects=len(keys))

    def _lock(self, key: str, *, mode: str, until: datetime) -> bool:
        head = self.store.head(key)
        if head is None:
            raise RegistryError(f"{self.store.uri(key)}: got no object; allowed a whole version; push it again")
        if head.locked_until is not None and head.locked_until >= until:
            return False
        self.store.retain(key, mode=mode, until=until)
        return True
