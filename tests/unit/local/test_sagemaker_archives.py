from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.response import StreamingBody

from local.sagemaker import archives as archives_module
from local.sagemaker.archives import Archive, Archives, archive_uri
from local.sagemaker.servers import server_key
from serving.errors import EndpointError

URI = "s3://registry/models/ranker/model.tar.gz"


class Bucket:
    """One object of S3; counts what was read of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.breaks_after: int | None = None
        self.asked: list[tuple[str, str]] = []

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        self.asked.append((Bucket, Key))
        raw = io.BytesIO(self.content[: self.breaks_after])
        length = len(self.content)
        return {"ETag": hashlib.md5(self.content).hexdigest(), "Body": StreamingBody(raw, length)}  # noqa: S324 - S3's


def test_an_archive_is_named_by_the_digest_of_its_bytes(tmp_path: Path) -> None:
    bucket = Bucket(b"archive" * 1000)
    archive = Archives(bucket, tmp_path).fetch(URI)
    assert archive.sha256 == hashlib.sha256(bucket.content).hexdigest()
    assert archive.path.read_bytes() == bucket.content
    assert bucket.asked == [("registry", "models/ranker/model.tar.gz")]


def test_new_bytes_under_an_old_key_are_another_archive(tmp_path: Path) -> None:
    bucket = Bucket(b"one")
    archives = Archives(bucket, tmp_path)
    first = archives.fetch(URI)
    assert archives.fetch(URI) is first
    bucket.content = b"two"
    assert archives.fetch(URI).sha256 != first.sha256


def test_a_broken_download_leaves_nothing_behind(tmp_path: Path) -> None:
    bucket = Bucket(b"archive" * 1000)
    bucket.breaks_after = 100
    with pytest.raises(EndpointError, match="Failed to download model data"):
        Archives(bucket, tmp_path).fetch(URI)
    assert list(tmp_path.iterdir()) == []


def test_half_an_archive_that_a_killed_service_left_is_gone_and_whole_ones_stay(tmp_path: Path) -> None:
    whole = Archives(Bucket(b"one"), tmp_path).fetch(URI)
    (tmp_path / ".0123.part").write_bytes(b"half")
    Archives(Bucket(b"one"), tmp_path)
    assert list(tmp_path.iterdir()) == [whole.path]


def test_an_archive_that_is_no_longer_remembered_is_the_same_when_it_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives_module, "_MOST_KNOWN", 1)
    archives = Archives(Bucket(b"one"), tmp_path)
    first = archives.fetch(URI)
    archives.fetch("s3://registry/models/other/model.tar.gz")
    again = archives.fetch(URI)
    assert again == first
    assert again is not first


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "NoSuchKey", "Message": "x"}}, "GetObject"),
        EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
    ],
)
def test_an_s3_that_refuses_or_is_away_is_sagemakers_reason(tmp_path: Path, error: Exception) -> None:
    class Broken:
        def get_object(self, **_: str) -> dict[str, Any]:
            raise error

    with pytest.raises(EndpointError, match=r'from URL: "s3://registry/models/ranker/model\.tar\.gz"'):
        Archives(Broken(), tmp_path).fetch(URI)


def source(kind: str = "S3Object", compression: str = "Gzip") -> dict[str, Any]:
    return {"ModelDataSource": {"S3DataSource": {"S3Uri": URI, "S3DataType": kind, "CompressionType": compression}}}


def test_either_form_of_model_data_names_the_archive() -> None:
    assert archive_uri({"ModelDataUrl": URI}) == archive_uri(source()) == URI


@pytest.mark.parametrize(
    "container", [{}, source(kind="S3Prefix"), source(compression="None")], ids=["none", "prefix", "uncompressed"]
)
def test_a_container_that_cannot_be_served_is_refused_with_the_fix(container: dict[str, Any]) -> None:
    with pytest.raises(EndpointError, match=r"give it ModelDataUrl|package the model as model\.tar\.gz"):
        archive_uri(container)


def test_an_address_that_is_no_s3_uri_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="give the archive's S3 URI"):
        Archives(Bucket(b""), tmp_path).fetch("https://bucket.s3.amazonaws.com/key")


def test_a_process_is_shared_by_the_same_bytes_and_environment_only() -> None:
    one, two = Archive(Path("1"), "a" * 64), Archive(Path("2"), "b" * 64)
    same = Archive(Path("elsewhere"), "a" * 64)
    assert server_key(one, {"X": "1", "Y": "2"}) == server_key(same, {"Y": "2", "X": "1"})
    assert len({server_key(one, {}), server_key(two, {}), server_key(one, {"X": "1"})}) == 3
