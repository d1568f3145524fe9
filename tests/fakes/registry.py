"""Packages that are quick to make, a registry on an S3 that answers on loopback, and its faults."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from serving.aws.registry import S3ModelRegistry, Transfer
from serving.spec import codec
from serving.spec.manifest import FileEntry, PackageManifest, tree_sha256

TRANSFER = Transfer(single_put_bytes=64 << 10, part_bytes=128 << 10, parallel=4)
"""Small parts: the S3 of the local stack has no least size."""


def client_at(url: str, *, connections: int = 16, attempts: int = 4) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - the server checks none
        config=Config(
            s3={"addressing_style": "path"},
            max_pool_connections=connections,
            retries={"mode": "standard", "total_max_attempts": attempts},
        ),
    )


def registry_at(url: str, bucket: str, *, connections: int = 16, transfer: Transfer = TRANSFER) -> S3ModelRegistry:
    client = client_at(url, connections=connections)
    return S3ModelRegistry(bucket, client, clock=lambda: datetime.now(UTC), transfer=transfer)


def read_manifest(path: Path) -> PackageManifest:
    return codec.from_json(path.read_bytes(), PackageManifest)


class S3Server:
    """The server, its faults, and a plain client as an independent witness."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = client_at(url)

    def fault(self, command: str, **query: object) -> None:
        words = "&".join(f"{key}={value}" for key, value in query.items())
        request = urllib.request.Request(f"{self.url}/_test/{command}?{words}", method="POST")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310 - loopback

    def counts(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/_test/counts") as answer:  # noqa: S310 - loopback
            return dict(json.load(answer))

    def stored_bytes(self, bucket: str, prefix: str) -> int:
        """Count what S3 holds below a prefix, in objects and in parts of uploads under way."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        total = sum(entry["Size"] for page in pages for entry in page.get("Contents", ()))
        uploads = self.client.list_multipart_uploads(Bucket=bucket, Prefix=prefix).get("Uploads", ())
        for upload in uploads:
            parts = self.client.list_parts(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
            total += sum(part["Size"] for part in parts.get("Parts", ()))
        return int(total)


def manifest_of(name: str, version: str, **fields: Any) -> PackageManifest:
    usual: dict[str, Any] = {
        "spec_sha256": "0" * 64,
        "runtime": "triton",
        "image": "sagemaker-tritonserver:x",
        "licence": "Apache-2.0",
        "inputs": (),
        "outputs": (),
        "labels": (),
        "thresholds": {},
        "metrics": {},
        "training_commit": "",
        "data_sha256": "",
        "baseline": {},
        "toolchain": {},
    }
    return PackageManifest(name=name, version=version, **(usual | fields))


def packed_archive(
    folder: Path, name: str, version: str, data: bytes, *, stem: str = "", **fields: Any
) -> tuple[Path, Path]:
    stem = stem or f"{name}-{version}"
    path, beside = folder / f"{stem}.model.tar.gz", folder / f"{stem}.manifest.json"
    path.write_bytes(data)
    given = {"archive_sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data), "files": (), **fields}
    manifest = manifest_of(name, version, **given)
    beside.write_bytes(codec.to_json(manifest))
    return path, beside


def packed_prefix(folder: Path, name: str, version: str, files: dict[str, bytes]) -> tuple[Path, Path]:
    path, beside = folder / f"{name}-{version}.model", folder / f"{name}-{version}.manifest.json"
    for relative, data in files.items():
        (path / relative).parent.mkdir(parents=True, exist_ok=True)
        (path / relative).write_bytes(data)
    entries = tuple(
        FileEntry(path=relative, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        for relative, data in sorted(files.items())
    )
    manifest = manifest_of(
        name,
        version,
        archive_sha256=tree_sha256(entries),
        size_bytes=sum(map(len, files.values())),
        files=entries,
        layout="prefix",
    )
    beside.write_bytes(codec.to_json(manifest))
    return path, beside
