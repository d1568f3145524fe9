"""JSON documents of frozen types in the bucket, and records that only grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from serving.aws.registry.layout import generation_key
from serving.aws.registry.store import Store
from serving.errors import RegistryError
from serving.spec import codec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A document, and the ETag that a compare-and-set names."""

    value: T
    etag: str


def read(store: Store, key: str, cls: type[T]) -> Found[T] | None:
    """Read a document; None when there is none.

    Raises:
        RegistryError: it is not of that type.

    """
    stored = store.read(key)
    if stored is None:
        return None
    try:
        return Found(codec.from_json(stored.data, cls), stored.etag)
    except ValueError as error:
        raise RegistryError(f"{key}: {error}; allowed what `streamhub registry` writes; restore that object") from None


def read_all(store: Store, prefix: str, cls: type[T]) -> Iterator[T]:
    """Read every document below a prefix, in the order of their keys.

    Raises:
        RegistryError: one is not of that type, or vanished.

    """
    for key in store.keys(prefix):
        found = read(store, key, cls)
        if found is None:
            raise RegistryError(f"{store.uri(key)}: it vanished while it was read; try again")
        yield found.value


def read_present(store: Store, prefix: str, cls: type[T]) -> Iterator[T]:
    """Read every document below a prefix that is still there: for those that come and go.

    Raises:
        RegistryError: one is not of that type.

    """
    for key in store.keys(prefix):
        if (found := read(store, key, cls)) is not None:
            yield found.value


class GrowingRecord(Generic[T]):
    """Documents numbered from 1 below a prefix, each written once; the last one holds."""

    def __init__(self, store: Store, prefix: str, cls: type[T]) -> None:
        self._store = store
        self._prefix = prefix
        self._cls = cls

    def entries(self) -> list[T]:
        """Read all, oldest first."""
        return list(read_all(self._store, self._prefix, self._cls))

    def last(self) -> tuple[int, T | None]:
        """Give the number of the last entry and the entry; 0 and None before the first."""
        key = max(self._store.keys(self._prefix), default=None)
        if key is None:
            return 0, None
        found = read(self._store, key, self._cls)
        return int(key.removeprefix(self._prefix).removesuffix(".json")), found.value if found is not None else None

    def append(self, number: int, value: T) -> T:
        """Write the entry of a number, if nobody did; give the entry that stands there now."""
        key = generation_key(self._prefix, number)
        if self._store.put_new(key, codec.to_json(value)):
            return value
        found = read(self._store, key, self._cls)
        if found is None:
            raise RegistryError(f"{self._store.uri(key)}: another writer is at it; try again")
        return found.value
