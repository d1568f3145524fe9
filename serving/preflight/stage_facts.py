"""What stage file and locks say beside the templates: which version a digest is, and which a slot shall hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from serving.spec import SLOTS, endpoint_name

if TYPE_CHECKING:  # a function reads archives through this module, and has no rules
    from serving.spec.load import Project

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """`models` gives a model by its endpoint, `versions` a version by its digest, `slots` the digest of each slot."""

    file: str
    models: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    slots: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def told(self, archive: str | None) -> str:
        """Give an archive in a reader's words: its version, else the beginning of its digest, else its place."""
        digest = digest_of(archive)
        if digest is None:
            return archive or "nothing"
        return self.versions.get(digest, f"sha256 {digest[:12]}…")

    def model_of(self, endpoint: str) -> str:
        """Give the model of an endpoint, its batch and shadow ones included; another name stays as it is."""
        own = endpoint.removesuffix("-batch").removesuffix("-shadow")
        return self.models.get(own, endpoint)


def digest_of(archive: str | None) -> str | None:
    """Give the digest that names an archive's place in the registry."""
    found = _DIGEST.search(archive or "")
    return found[0] if found is not None else None


def facts_of(project: Project, stage: str) -> StageFacts:
    """Take the facts of a stage from the project's files.

    Raises:
        ModelNotFoundError: no such stage.

    """
    spec = project.stage(stage)
    endpoints = {name: endpoint_name(stage, project.model(name).slug) for name in spec.models}
    return StageFacts(
        file=f"stages/{stage}.toml",
        models={endpoint: name for name, endpoint in endpoints.items()},
        versions={
            locked.sha256: f"{name} {version}"
            for name, locks in project.locks.items()
            for version, locked in locks.items()
        },
        slots={
            (endpoints[name], slot): project.locks[name][getattr(entry.versions, slot)].sha256
            for name, entry in spec.models.items()
            for slot in SLOTS
        },
    )
