"""Semantic versions `X.Y.Z` (semver.org §2), ordered as numbers: 10.0.0 comes after 9.0.0."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEMANTIC = re.compile(r"(0|[1-9]\d{0,8})(\.(0|[1-9]\d{0,8})){2}", re.ASCII)
"""Nine digits a number: semver.org has no limit, S3's keys and Python's integers from text do."""


def is_semantic(version: str) -> bool:
    """Say whether a text is a version."""
    return _SEMANTIC.fullmatch(version) is not None


def order(version: str) -> tuple[int, ...]:
    """Give the key that sorts versions.

    Raises:
        ValueError: the text is no version.

    """
    if not is_semantic(version):
        raise ValueError(f"version: got {version!r}; allowed X.Y.Z; correct it")
    return tuple(map(int, version.split(".")))


def sorted_versions(versions: Iterable[str]) -> list[str]:
    """Give versions from oldest to newest."""
    return sorted(versions, key=order)


def newest(versions: Iterable[str]) -> str:
    """Give the highest of at least one version."""
    return max(versions, key=order)
