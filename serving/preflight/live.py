"""The account as it is: what was asked for, what was answered, and what nobody could read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from serving.release.state import ReleaseRecord


@dataclass(frozen=True, slots=True)
class Unread:
    """What AWS said instead of an answer: a refusal, or that it has no such service."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStack:
    """A stack as CloudFormation holds it; `physical` gives names by logical id."""

    name: str
    status: str
    reason: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)
    physical: Mapping[str, str] = field(default_factory=dict)
    protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveVariant:
    """A variant that serves: `weight` and `count` now, the `desired_` ones as asked last; None is what no answer says.

    `archive` is the S3 URI of what it holds, `image` its container.
    """

    name: str
    instance_type: str | None = None
    weight: float = 0.0
    desired_weight: float = 0.0
    count: int = 0
    desired_count: int = 0
    image: str | None = None
    archive: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEndpoint:
    """An endpoint in SageMaker's words; `components` are its inference components by slot, without weights."""

    name: str
    status: str
    config: str
    reason: str = ""
    variants: tuple[LiveVariant, ...] = ()
    components: tuple[LiveVariant, ...] = ()

    def variant(self, name: str) -> LiveVariant | None:
        """Give a variant by name."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def slot(self, name: str) -> LiveVariant | None:
        """Give what serves a slot: a component where there are any, else a variant."""
        return next((held for held in self.components or self.variants if held.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTarget:
    """A scalable target's bounds."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArchive:
    """An object, or the objects under a prefix: `sha256` (hex) where S3 checked one of the whole object."""

    objects: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Lambda executions at once: what the account may have in the region, and what no function has reserved."""

    limit: int
    unreserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One look at an account and region; a key that is absent from a mapping is a thing that is not there.

    `quotas` are instances by type, `elsewhere` instances of endpoints that are none of the stage's, `owners` who has
    a name that the stage wants (by type and name: a stack, or "" for nobody's stack).
    """

    account: str | Unread
    region: str
    bootstrap: int | Unread | None
    stacks: Mapping[str, LiveStack] | Unread
    endpoints: Mapping[str, LiveEndpoint | Unread] = field(default_factory=dict)
    targets: Mapping[str, LiveTarget] | Unread = field(default_factory=dict)
    releases: Mapping[str, ReleaseRecord | Unread] = field(default_factory=dict)
    quotas: Mapping[str, int] | Unread = field(default_factory=dict)
    elsewhere: Mapping[str, int] | Unread = field(default_factory=dict)
    concurrency: Concurrency | Unread | None = None
    images: Mapping[str, bool | Unread] = field(default_factory=dict)
    archives: Mapping[str, StoredArchive | Unread | None] = field(default_factory=dict)
    approvals: Mapping[str, bool | Unread] = field(default_factory=dict)
    owners: Mapping[tuple[str, str], str | Unread] = field(default_factory=dict)
    permissions: Mapping[str, bool] | Unread = field(default_factory=dict)

    def stack(self, name: str) -> LiveStack | None:
        """Give a live stack; None when it is not there, or stacks could not be read."""
        return None if isinstance(self.stacks, Unread) else self.stacks.get(name)

    def endpoint(self, name: str) -> LiveEndpoint | None:
        """Give a live endpoint; None when it is not there or could not be read."""
        found = self.endpoints.get(name)
        return found if isinstance(found, LiveEndpoint) else None

    def target(self, resource: str) -> LiveTarget | None:
        """Give a live scalable target by its resource id."""
        return None if isinstance(self.targets, Unread) else self.targets.get(resource)

    def release(self, endpoint: str) -> ReleaseRecord | None:
        """Give an endpoint's release record."""
        found = self.releases.get(endpoint)
        return found if isinstance(found, ReleaseRecord) else None
