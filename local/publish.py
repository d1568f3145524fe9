"""Archives for the registry of a stage: built as `streamhub package` does, pushed as `registry push` does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import boto3
from botocore.config import Config

from model_packaging.build import package, package_path
from model_packaging.manifest_file import manifest_path, read_manifest
from serving.aws.registry import S3ModelRegistry
from serving.errors import LocalStackError
from serving.spec import StageSpec
from serving.spec.images import pinned_image
from serving.spec.load import Project

ACTOR = "local-stack"


def staged_versions(stage: StageSpec) -> Iterator[tuple[str, str]]:
    """Give each model and version that a slot of the stage holds, once."""
    for name, entry in sorted(stage.models.items()):
        for version in sorted({entry.versions.a, entry.versions.b}):
            yield name, version


def published_versions(project: Project, stage: StageSpec) -> Iterator[tuple[str, str]]:
    """Give what the registry of a stage is filled with: what its slots hold, and models that no slot can host yet."""
    yield from staged_versions(stage)
    for name, locks in sorted(project.locks.items()):
        if name not in stage.models:
            yield from ((name, version) for version in sorted(locks))


def package_all(project: Project, stage: StageSpec, *, out: Path, stopped: threading.Event) -> list[Path]:
    """Build the archives for the registry of a stage and hold them to the digests that git knows.

    Raises:
        PackagingError: files of a model are not what its container needs.
        LocalStackError: an archive has another digest than its lock.

    """
    archives = []
    for name, version in published_versions(project, stage):
        if stopped.is_set():
            raise LocalStackError("packaging: the stack is being stopped")
        spec = project.model(name)
        folder = project.root / "models" / name
        manifest = package(spec, version, model_dir=folder, out_dir=out, image=pinned_image(spec))
        locked = project.locks[name][version].sha256
        if manifest.archive_sha256 != locked:
            raise LocalStackError(
                f"{name} {version}: got an archive {manifest.archive_sha256[:12]}; allowed {locked[:12]}, "
                f"the digest in models/{name}/model.lock.json; run streamhub package {name} --lock"
            )
        archives.append(package_path(out, spec, version))
    return archives


def push_all(archives: list[Path], *, bucket: str, endpoint_url: str, region: str) -> None:
    """Put the archives into the registry of the local stack."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
        config=Config(s3={"addressing_style": "path"}),
    )
    registry = S3ModelRegistry(bucket, client, clock=lambda: datetime.now(UTC))
    for archive in archives:
        registry.push(archive, read_manifest(manifest_path(archive)), actor=ACTOR)
