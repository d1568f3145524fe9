"""How a push and a collection of garbage keep out of each other's way (docs/adr/0018).

A push claims a digest, then looks whether it is condemned. A collection condemns a digest, then looks whether it is
claimed. S3 is strongly consistent, so of two that meet at least one sees the other, and gives way.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from serving.aws.registry import records
from serving.aws.registry.layout import claims_prefix, condemned_key
from serving.aws.registry.store import Store
from serving.errors import RegistryError
from serving.ports import Clock
from serving.spec import codec

CLAIM_LIFE = timedelta(days=7)
"""A claim of a killed push is honoured so long; a push that lasted half of it does not enter its version."""

CONDEMNED_LIFE = timedelta(hours=1)
"""A condemnation of a killed collection is taken over after it; a collection deletes for half of it at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A push under way: these bytes are about to have a version."""

    name: str
    sha256: str
    actor: str
    claimed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Condemned:
    """A collection under way: these bytes are about to go."""

    name: str
    sha256: str
    run: str
    condemned_at: datetime


class Claims:
    """The two notes that pushes and collections leave for each other."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @contextmanager
    def claimed(self, name: str, digest: str, *, actor: str) -> Iterator[Claim]:
        """Hold a claim on a digest.

        Raises:
            RegistryError: a collection is removing it.

        """
        claim = Claim(name=name, sha256=digest, actor=actor, claimed_at=self._clock())
        key = f"{claims_prefix(name, digest)}{uuid.uuid4().hex}.json"
        self._store.put_new(key, codec.to_json(claim))
        try:
            if (condemned := records.read(self._store, condemned_key(name, digest), Condemned)) is not None:
                raise RegistryError(
                    f"{name}: got sha256 {digest}, which a collection removes since "
                    f"{condemned.value.condemned_at.isoformat()}; push again in a moment; "
                    f"if it was killed: streamhub registry gc"
                )
            yield claim
        finally:
            # a claim that stays behind keeps garbage for a while, and nothing else
            with suppress(RegistryError):
                self._store.delete(key)

    def still_held(self, claim: Claim) -> bool:
        """Say whether a claim is young enough for its push to enter the version."""
        return self._clock() - claim.claimed_at < CLAIM_LIFE / 2

    def standing(self, name: str, digest: str) -> Claim | None:
        """Give a claim on a digest that is honoured; None when there is none."""
        claims = records.read_present(self._store, claims_prefix(name, digest), Claim)
        return next((claim for claim in claims if self._clock() - claim.claimed_at < CLAIM_LIFE), None)

    def condemn(self, name: str, digest: str, *, run: str) -> Condemned | None:
        """Condemn a digest for a run of the collection; None while another run is at it."""
        mine = Condemned(name=name, sha256=digest, run=run, condemned_at=self._clock())
        key, data = condemned_key(name, digest), codec.to_json(mine)
        if self._store.put_new(key, data):
            return mine
        found = records.read(self._store, key, Condemned)
        if found is None or self._clock() - found.value.condemned_at < CONDEMNED_LIFE:
            return None
        return mine if self._store.replace(key, data, etag=found.etag) else None

    def may_delete(self, condemned: Condemned) -> bool:
        """Say whether a condemnation is young enough for its run to go on deleting."""
        return self._clock() - condemned.condemned_at < CONDEMNED_LIFE / 2

    def acquit(self, name: str, digest: str) -> None:
        """Take a condemnation back, after the bytes went or were spared."""
        self._store.delete(condemned_key(name, digest))
