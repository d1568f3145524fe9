"""A push that is killed leaves no version or all of it, and the next one sends only what is missing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.registry import S3Server, packed_archive, packed_prefix, read_manifest, registry_at

SEED = 20261202
POINTS = 20


def package(folder: Path, layout: str, name: str) -> tuple[Path, Path]:
    noise = random.Random(name)  # noqa: S311 - bytes that differ by name
    if layout == "archive":
        return packed_archive(folder, name, "1.0.0", noise.randbytes(1_500_000))
    return packed_prefix(
        folder,
        name,
        "1.0.0",
        {
            "config.json": b"{}",
            "code/serving.properties": noise.randbytes(2_000),
            "model-1.safetensors": noise.randbytes(700_000),
            "model-2.safetensors": noise.randbytes(500_000),
        },
    )


def events_of_a_push(s3: S3Server, bucket: str, folder: Path, layout: str) -> int:
    path, beside = package(folder, layout, "whole")
    s3.fault("reset")
    registry_at(s3.url, bucket).push(path, read_manifest(beside), actor="ann")
    return s3.counts()["events"]


@pytest.mark.parametrize("layout", ["archive", "prefix"])
def test_a_push_killed_anywhere_shows_no_version_or_all_of_it_and_is_resumed(
    s3: S3Server, bucket: str, pusher: Any, tmp_path: Path, layout: str
) -> None:
    last = events_of_a_push(s3, bucket, tmp_path, layout)
    points = sorted(random.Random(SEED).sample(range(1, last + 1), POINTS))  # noqa: S311 - seeded on purpose
    mine = registry_at(s3.url, bucket)
    shown = resumed = 0
    for point in points:
        name = f"killed_{point}"
        path, beside = package(tmp_path, layout, name)
        job = {"job": "push", "endpoint_url": s3.url, "bucket": bucket, "path": str(path), "manifest": str(beside)}
        assert pusher([{**job, "at": point}]) == [-9], point
        s3.fault("reset")
        if mine.versions(name):
            shown += 1
            mine.verify(name, "1.0.0")
        manifest = read_manifest(beside)
        stored = s3.stored_bytes(bucket, f"models/{name}/blobs/")
        s3.fault("reset")
        mine.push(path, manifest, actor="bob")
        assert s3.counts()["blob_bytes"] == manifest.size_bytes - stored, point
        resumed += stored > 0
        mine.verify(name, "1.0.0")
    assert shown < POINTS
    assert resumed > POINTS // 2
