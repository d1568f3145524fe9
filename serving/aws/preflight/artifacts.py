"""Images in their repositories and archives in the registry."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from serving.aws.preflight.asking import Clients, ask, find
from serving.aws.registry import S3ModelRegistry
from serving.preflight.live import StoredArchive, Unread
from serving.preflight.planned import Planned
from serving.preflight.stage_facts import StageFacts

_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<repository>[^:@]+)"
    r"(:(?P<tag>[^@]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_PRODUCTION = "production"
_NO_IMAGE = ("ImageNotFoundException", "RepositoryNotFoundException")
_NO_OBJECT = ("404", "NoSuchKey", "NotFound", "NoSuchBucket")


def images_of(clients: Clients, planned: Planned) -> dict[str, bool | Unread]:
    """Say which images exist."""
    return {image: ask(partial(_has_image, clients, image)) for image in planned.images}


def _has_image(clients: Clients, uri: str) -> bool:
    parts = _IMAGE.fullmatch(uri)
    if parts is None:
        return False
    wanted = {"imageDigest": parts["digest"]} if parts["digest"] else {"imageTag": parts["tag"] or "latest"}
    ecr = clients("ecr")
    found: Any = find(
        lambda: ecr.batch_get_image(registryId=parts["account"], repositoryName=parts["repository"], imageIds=[wanted]),
        absent=_NO_IMAGE,
    )
    return bool(found and found["images"])


def archives_of(clients: Clients, planned: Planned) -> dict[str, StoredArchive | Unread | None]:
    """Give what lies where each archive should."""
    return {archive: ask(partial(_stored, clients, archive)) for archive in planned.archives}


def _stored(clients: Clients, uri: str) -> StoredArchive | None:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3 = clients("s3")
    if key.endswith("/"):
        page: Any = find(lambda: s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1), absent=_NO_OBJECT)
        return StoredArchive(objects=page["KeyCount"]) if page and page["KeyCount"] else None
    head: Mapping[str, Any] | None = find(
        lambda: s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED"), absent=_NO_OBJECT
    )
    return StoredArchive(objects=1, sha256=_whole(head.get("ChecksumSHA256"))) if head is not None else None


def approvals_of(
    clients: Clients, facts: StageFacts, archives: Mapping[str, StoredArchive | Unread | None]
) -> dict[str, bool | Unread]:
    """Say which archives are approved, of models whose production alias asks for it; those of others are left out."""
    found = {
        archive: ask(partial(_approved, clients, archive, facts))
        for archive, stored in archives.items()
        if isinstance(stored, StoredArchive)
    }
    return {archive: approved for archive, approved in found.items() if approved is not None}


def _approved(clients: Clients, archive: str, facts: StageFacts) -> bool | None:
    name, _, version = facts.told(archive).partition(" ")
    if name not in facts.models.values():
        return None
    bucket = archive.removeprefix("s3://").partition("/")[0]
    approvals = S3ModelRegistry(bucket, clients("s3"), clock=lambda: datetime.now(UTC)).approvals
    if not approvals.protected(name, _PRODUCTION):
        return None
    last = approvals.of(name, version)
    return last is not None and last.decision == "approved"


def _whole(checksum: str | None) -> str | None:
    """Give the digest of a whole object; of one uploaded in parts S3 keeps a digest of digests, `…-<parts>`."""
    return base64.b64decode(checksum).hex() if checksum and "-" not in checksum else None
