"""Bytes on their way: parts and their checksums, faults, other writers, and what is read back."""

from __future__ import annotations

import base64
import hashlib
import io
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from serving.aws.registry import S3ModelRegistry, Transfer
from serving.aws.registry.content import open_slice, read_content
from serving.errors import IntegrityError, RegistryError
from tests.fakes.registry import (
    TRANSFER,
    S3Server,
    client_at,
    packed_archive,
    packed_prefix,
    read_manifest,
    registry_at,
)

SIZE = 600_000
BYTES = random.Random(1).randbytes(SIZE)  # noqa: S311 - seeded on purpose
PARTS = 5  # 600,000 bytes in parts of 131,072
FILES = {"config.json": b"{}", "a/weights.safetensors": BYTES, "empty.txt": b""}


def blob(bucket: str, data: bytes = BYTES) -> dict[str, str]:
    return {"Bucket": bucket, "Key": f"models/toy/blobs/sha256/{hashlib.sha256(data).hexdigest()}/model.tar.gz"}


def pushed(s3: S3Server, bucket: str, folder: Path) -> None:
    path, beside = packed_archive(folder, "toy", "1.0.0", BYTES)
    registry_at(s3.url, bucket).push(path, read_manifest(beside), actor="ann")


def test_s3_holds_the_digest_of_the_parts_digests_and_ours_of_the_whole(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    pushed(s3, bucket, tmp_path)
    cut = [BYTES[at : at + TRANSFER.part_bytes] for at in range(0, SIZE, TRANSFER.part_bytes)]
    of_parts = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in cut)).digest()
    head = s3.client.head_object(**blob(bucket), ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == f"{base64.b64encode(of_parts).decode()}-{PARTS}"
    assert head["Metadata"] == {"sha256": hashlib.sha256(BYTES).hexdigest()}
    assert s3.client.get_object(**blob(bucket))["Body"].read() == BYTES


def test_progress_counts_every_byte_once(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    path, beside = packed_prefix(tmp_path, "toy", "1.0.0", FILES)
    seen: list[tuple[int, int]] = []
    registry_at(s3.url, bucket).push(path, read_manifest(beside), actor="ann", progress=lambda *done: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == (SIZE + 2, SIZE + 2)


def test_requests_that_s3_refuses_for_a_moment_are_sent_again(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    s3.fault("refuse", times=3)
    pushed(s3, bucket, tmp_path)
    registry_at(s3.url, bucket).verify("toy", "1.0.0")
    assert s3.client.get_object(**blob(bucket))["Body"].read() == BYTES


@pytest.mark.parametrize("after", range(1, 14))
def test_a_push_survives_that_any_one_answer_is_lost(s3: S3Server, bucket: str, tmp_path: Path, after: int) -> None:
    s3.fault("break", after=after)
    pushed(s3, bucket, tmp_path)
    registry_at(s3.url, bucket).verify("toy", "1.0.0")
    assert s3.client.get_object(**blob(bucket))["Body"].read() == BYTES


def test_parts_of_other_bytes_are_not_taken_for_ours(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    upload = s3.client.create_multipart_upload(**blob(bucket), ChecksumAlgorithm="SHA256")["UploadId"]
    for number, data in ((1, BYTES[: TRANSFER.part_bytes]), (2, b"x" * TRANSFER.part_bytes), (9, b"beyond")):
        s3.client.upload_part(**blob(bucket), UploadId=upload, PartNumber=number, Body=data, ChecksumAlgorithm="SHA256")
    s3.fault("reset")
    pushed(s3, bucket, tmp_path)
    assert s3.counts()["blob_bytes"] == SIZE - TRANSFER.part_bytes
    assert s3.client.get_object(**blob(bucket))["Body"].read() == BYTES


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"])
def test_two_who_push_the_same_bytes_share_parts_and_both_succeed(
    s3: S3Server, bucket: str, tmp_path: Path, operation: str
) -> None:
    path, beside = packed_archive(tmp_path, "toy", "1.0.0", BYTES)
    client, manifest = client_at(s3.url), read_manifest(beside)
    armed = [True]

    def whole_push_of_another(**_: object) -> None:
        if armed[0]:
            armed[0] = False
            registry_at(s3.url, bucket).push(path, manifest, actor="bob")

    client.meta.events.register(f"provide-client-params.s3.{operation}", whole_push_of_another)
    mine = S3ModelRegistry(
        bucket, client, clock=lambda: datetime.now(UTC), transfer=replace(TRANSFER, parallel=1)
    ).push(path, manifest, actor="ann")
    assert mine.created_by == "bob"
    registry_at(s3.url, bucket).verify("toy", "1.0.0")
    assert s3.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_an_object_that_another_tool_sent_in_other_parts_is_read_to_be_believed(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    s3.client.put_object(**blob(bucket), Body=BYTES)
    s3.fault("reset")
    pushed(s3, bucket, tmp_path)
    assert s3.counts()["blob_bytes"] == 0


def test_a_file_that_changes_between_reading_and_sending_is_refused_by_s3(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    path, beside = packed_archive(tmp_path, "toy", "1.0.0", BYTES)
    once = S3ModelRegistry(
        bucket, client_at(s3.url, attempts=1), clock=lambda: datetime.now(UTC), transfer=replace(TRANSFER, parallel=1)
    )

    def change(_done: int, _total: int) -> None:
        with path.open("r+b") as file:
            file.seek(-1, io.SEEK_END)
            file.write(bytes([BYTES[-1] ^ 1]))

    with pytest.raises(RegistryError, match="BadDigest"):
        once.push(path, read_manifest(beside), actor="ann", progress=change)
    assert list(once.versions()) == []


def test_a_file_that_becomes_shorter_while_it_is_sent_ends_the_request(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BYTES)
    with open_slice(path, 0, SIZE) as body:
        path.write_bytes(b"")
        with pytest.raises(OSError, match="shorter"):
            body.read()


@pytest.mark.parametrize("size", [0, 1, 64 << 10, (64 << 10) + 1, 128 << 10, (128 << 10) + 1, 256 << 10])
def test_every_size_around_the_thresholds_comes_back_as_it_was(
    s3: S3Server, bucket: str, tmp_path: Path, size: int
) -> None:
    path, beside = packed_archive(tmp_path, "toy", "1.0.0", BYTES[:size])
    registry = registry_at(s3.url, bucket)
    registry.push(path, read_manifest(beside), actor="ann")
    assert registry.pull("toy", "1.0.0", tmp_path / "out").read_bytes() == BYTES[:size]


def test_parts_grow_with_the_file_so_that_ten_thousand_are_enough() -> None:
    transfer = Transfer()
    for size in (1, 5 * 10**9, 5 * 2**40):
        assert -(-size // transfer.part_size(size)) <= 10_000
        assert transfer.part_size(size) >= 5 << 20


def test_what_is_read_of_a_file_does_not_depend_on_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BYTES)
    for part_bytes in (70_000, SIZE - 1, SIZE):
        content = read_content(path, Transfer(single_put_bytes=10, part_bytes=part_bytes))
        assert content.sha256 == hashlib.sha256(BYTES).hexdigest()
        assert sum(part.size_bytes for part in content.parts) == SIZE


def test_a_prefix_is_its_files_as_they_are_and_comes_back_whole(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    path, beside = packed_prefix(tmp_path, "toy", "1.0.0", FILES)
    manifest, registry = read_manifest(beside), registry_at(s3.url, bucket)
    registered = registry.push(path, manifest, actor="ann")
    prefix = f"models/toy/blobs/sha256/{manifest.archive_sha256}/files/"
    assert registered.s3_uri == f"s3://{bucket}/{prefix}"
    for relative, data in FILES.items():
        assert s3.client.get_object(Bucket=bucket, Key=prefix + relative)["Body"].read() == data
    pulled = registry.pull("toy", "1.0.0", tmp_path / "out")
    assert {each.relative_to(pulled).as_posix(): each.read_bytes() for each in pulled.rglob("*") if each.is_file()} == (
        FILES
    )
    again = registry_at(s3.url, bucket).push(
        pulled, read_manifest(tmp_path / "out" / "toy-1.0.0.manifest.json"), actor="bob"
    )
    assert again == registered


def test_a_folder_with_a_file_too_many_too_few_or_changed_is_refused_before_anything_is_stored(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    path, beside = packed_prefix(tmp_path, "toy", "1.0.0", FILES)
    (path / "extra.bin").write_bytes(b"x")
    (path / "empty.txt").unlink()
    (path / "config.json").write_bytes(b"{ }")
    with pytest.raises(RegistryError) as caught:
        registry_at(s3.url, bucket).push(path, read_manifest(beside), actor="ann")
    for name in ("extra.bin", "empty.txt", "config.json"):
        assert name in str(caught.value)
    assert s3.client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_strange_object_below_a_prefix_is_never_given_to_a_container(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    path, beside = packed_prefix(tmp_path, "toy", "1.0.0", FILES)
    manifest, registry = read_manifest(beside), registry_at(s3.url, bucket)
    key = f"models/toy/blobs/sha256/{manifest.archive_sha256}/files/code/evil.py"
    s3.client.put_object(Bucket=bucket, Key=key, Body=b"evil")
    with pytest.raises(RegistryError, match=r"evil\.py"):
        registry.push(path, manifest, actor="ann")
    s3.client.delete_object(Bucket=bucket, Key=key)
    registry.push(path, manifest, actor="ann")
    s3.client.put_object(Bucket=bucket, Key=key, Body=b"evil")
    with pytest.raises(IntegrityError, match=r"evil\.py"):
        registry.verify("toy", "1.0.0")


@pytest.mark.parametrize("damage", [BYTES[:-1] + b"?", BYTES[:-1], b""])
def test_changed_bytes_in_the_bucket_are_named_and_never_get_their_final_name(
    s3: S3Server, bucket: str, tmp_path: Path, damage: bytes
) -> None:
    pushed(s3, bucket, tmp_path)
    s3.client.put_object(**blob(bucket), Body=damage)
    registry, out = registry_at(s3.url, bucket), tmp_path / "out"
    with pytest.raises(IntegrityError, match=r"model\.tar\.gz"):
        registry.verify("toy", "1.0.0")
    with pytest.raises(IntegrityError, match=r"model\.tar\.gz"):
        registry.pull("toy", "1.0.0", out)
    assert not (out / "toy-1.0.0.model.tar.gz").exists()


def test_a_pull_goes_on_where_the_last_one_stopped(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    pushed(s3, bucket, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    (out / "toy-1.0.0.model.tar.gz.part").write_bytes(BYTES[:400_000])
    seen: list[tuple[int, int]] = []
    path = registry_at(s3.url, bucket).pull("toy", "1.0.0", out, progress=lambda *done: seen.append(done))
    assert path.read_bytes() == BYTES
    assert seen[-1] == (SIZE, SIZE)


@pytest.mark.parametrize("left", [b"wrong", BYTES + b"more"])
def test_a_wrong_start_of_a_pull_is_refused_once_and_then_forgotten(
    s3: S3Server, bucket: str, tmp_path: Path, left: bytes
) -> None:
    pushed(s3, bucket, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    (out / "toy-1.0.0.model.tar.gz.part").write_bytes(left)
    registry = registry_at(s3.url, bucket)
    if not left.startswith(BYTES):
        with pytest.raises(IntegrityError):
            registry.pull("toy", "1.0.0", out)
    assert registry.pull("toy", "1.0.0", out).read_bytes() == BYTES


@pytest.mark.parametrize("pack", ["archive", "prefix"])
def test_a_second_pull_beside_the_first_is_refused_and_harms_nothing(
    s3: S3Server, bucket: str, tmp_path: Path, pack: str
) -> None:
    files = {"model.bin": BYTES}
    path, beside = (
        packed_archive(tmp_path, "toy", "1.0.0", BYTES)
        if pack == "archive"
        else packed_prefix(tmp_path, "toy", "1.0.0", files)
    )
    registry, out = registry_at(s3.url, bucket), tmp_path / "out"
    registry.push(path, read_manifest(beside), actor="ann")
    refusals: list[str] = []

    def in_the_middle(_done: int, _total: int) -> None:
        with pytest.raises(RegistryError, match="a pull that writes there") as caught:
            registry_at(s3.url, bucket).pull("toy", "1.0.0", out)
        refusals.append(str(caught.value))

    pulled = registry.pull("toy", "1.0.0", out, progress=in_the_middle)
    assert refusals
    assert (pulled / "model.bin" if pack == "prefix" else pulled).read_bytes() == BYTES


def test_the_same_pull_again_fetches_nothing_and_other_bytes_of_that_name_are_left_alone(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    pushed(s3, bucket, tmp_path)
    registry, out = registry_at(s3.url, bucket), tmp_path / "out"
    first = registry.pull("toy", "1.0.0", out)
    (out / "toy-1.0.0.manifest.json").unlink()
    assert registry.pull("toy", "1.0.0", out, progress=lambda *_: pytest.fail("fetched again")) == first
    assert read_manifest(out / "toy-1.0.0.manifest.json").version == "1.0.0"
    first.write_bytes(b"mine")
    with pytest.raises(RegistryError, match="taken by other bytes"):
        registry.pull("toy", "1.0.0", out)
    assert first.read_bytes() == b"mine"


def test_what_an_unfinished_pull_of_other_files_left_does_not_come_into_the_folder(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    path, beside = packed_prefix(tmp_path, "toy", "1.0.0", FILES)
    registry, left = registry_at(s3.url, bucket), tmp_path / "out" / "toy-1.0.0.model.part"
    registry.push(path, read_manifest(beside), actor="ann")
    (left / "code").mkdir(parents=True)
    (left / "code" / "evil.py").write_bytes(b"evil")
    (left / "a").symlink_to(tmp_path)
    pulled = registry.pull("toy", "1.0.0", tmp_path / "out")
    found = {each.relative_to(pulled).as_posix() for each in pulled.rglob("*") if not each.is_dir()}
    assert found == set(FILES)
    assert not (tmp_path / "weights.safetensors").exists()


def test_a_push_mends_bytes_that_were_lost(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    pushed(s3, bucket, tmp_path)
    s3.client.delete_object(**blob(bucket))
    with pytest.raises(IntegrityError, match="no object"):
        registry_at(s3.url, bucket).verify("toy", "1.0.0")
    pushed(s3, bucket, tmp_path)
    registry_at(s3.url, bucket).verify("toy", "1.0.0")
