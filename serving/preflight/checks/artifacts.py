"""Whether what the endpoints would fetch is there: images, archives and the registry's approvals."""

from __future__ import annotations

from collections.abc import Iterator

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import Unread
from serving.preflight.stage_facts import digest_of


def images(at: Comparison) -> Iterator[Finding]:
    """Every container image exists in its repository."""
    for image in at.planned.images:
        found = at.live.images.get(image, Unread("nobody asked"))
        if isinstance(found, Unread):
            fix = f"try aws ecr describe-images yourself, or deploy dev first: {image}"
            yield unverified("image", image, found.why, fix=fix)
        elif not found:
            yield Finding(
                level="error",
                check="image",
                what=image,
                got="no such repository or tag",
                allowed="an image of the Deep Learning Containers, or your own",
                fix=f"name another tag under image_tags of {at.facts.file}",
                source="Deep Learning Containers, available images",
            )


def archives(at: Comparison) -> Iterator[Finding]:
    """Every archive lies in the registry, with the bytes that its place is named by."""
    for archive in at.planned.archives:
        found = at.live.archives.get(archive, Unread("nobody asked"))
        told, digest = at.facts.told(archive), digest_of(archive)
        if isinstance(found, Unread):
            yield unverified("archive", told, found.why, fix=f"allow s3:GetObject and s3:ListBucket on {archive}")
        elif found is None:
            yield Finding(
                level="error",
                check="archive",
                what=told,
                got=f"nothing at {archive}",
                allowed="an archive in the registry of this stage",
                fix="streamhub package and streamhub registry push it; in a new stage deploy the registry's stack "
                "first (docs/deploy.md)",
            )
        elif found.sha256 is not None and digest is not None and found.sha256 != digest:
            yield Finding(
                level="error",
                check="archive",
                what=told,
                got=f"bytes of sha256 {found.sha256[:12]}… at {archive}",
                allowed="those that the place is named by",
                fix="somebody wrote past the registry: find out who, delete the object and push the version again",
            )


def approvals(at: Comparison) -> Iterator[Finding]:
    """Every version that the registry wants approved is."""
    for archive in at.planned.archives:
        found = at.live.approvals.get(archive)
        told = at.facts.told(archive)
        if isinstance(found, Unread):
            yield unverified("approval", told, found.why, fix="allow s3:GetObject on the registry")
        elif found is False:
            name, _, version = told.partition(" ")
            yield Finding(
                level="error",
                check="approval",
                what=told,
                got="not approved",
                allowed="a version that somebody else approved",
                fix=f"streamhub registry approve {name} {version}",
                source="docs/registry.md",
            )


def freshness(at: Comparison) -> Iterator[Finding]:
    """The templates hold what the stage file says now."""
    for (name, slot), digest in sorted(at.facts.slots.items()):
        endpoint = at.planned.endpoint(name)
        variant = endpoint.variant(slot) if endpoint is not None else None
        if variant is not None and variant.archive is not None and digest_of(variant.archive) != digest:
            yield Finding(
                level="error",
                check="stale",
                what=f"{name} slot {slot}",
                got=f"{at.facts.told(variant.archive)} in the templates",
                allowed=f"{at.facts.versions.get(digest, digest)}, which {at.facts.file} names",
                fix=f"make synth STAGE={at.planned.stage}",
            )
