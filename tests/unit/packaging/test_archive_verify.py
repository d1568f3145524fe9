from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from model_packaging.archive import Member, write_archive
from model_packaging.build import package
from model_packaging.verify import verify
from serving.errors import ArchiveError
from serving.protocol.archive import unpack
from serving.spec.model import ModelSpec

Rebuild = Callable[[dict[str, bytes | None]], Path]


@pytest.fixture(name="archive")
def archive_fixture(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> Path:
    package(spec, "1.0.0", model_dir=model_dir, out_dir=tmp_path, image="x")
    return tmp_path / "toy-1.0.0.model.tar.gz"


@pytest.fixture(name="rebuild")
def rebuild_fixture(archive: Path, tmp_path: Path) -> Rebuild:
    """Give a function that packs the archive again with other bytes for some files, None to leave one out."""

    def rebuild(changes: dict[str, bytes | None]) -> Path:
        folder = tmp_path / "unpacked"
        unpack(archive, folder)
        files: dict[str, bytes | None] = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
        out = tmp_path / "changed.model.tar.gz"
        write_archive([Member(name, data) for name, data in {**files, **changes}.items() if data is not None], out)
        return out

    return rebuild


def test_a_good_archive_has_no_finding_with_or_without_its_manifest(archive: Path) -> None:
    found = verify(archive)
    assert found.ok
    assert found.served is not None
    assert (found.served.name, found.served.version) == ("toy", "1.0.0")
    manifest = archive.with_name("toy-1.0.0.manifest.json")
    assert found.manifest == manifest
    manifest.unlink()
    assert verify(archive).ok


def test_an_archive_that_cannot_be_read_does_not_hide_the_next_one(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("model_packaging.verify.digest_of", refused)
    (finding,) = verify(archive).findings
    assert finding.startswith("toy-1.0.0.model.tar.gz: got Permission denied; allowed")


def test_an_archive_that_is_not_its_manifests_is_found_file_by_file(archive: Path, rebuild: Rebuild) -> None:
    changed = rebuild({"toy/config.pbtxt": b'name: "toy"\nmax_batch_size: 8\n', "toy/warmup/x": None, "toy/extra": b""})
    changed.replace(archive)
    findings = "\n".join(verify(archive).findings)
    assert "sha256: got" in findings
    for path in ("toy/config.pbtxt", "toy/warmup/x", "toy/extra"):
        assert f"{path}: got" in findings
    assert "toy/1/model.onnx" not in findings


def test_all_findings_come_at_once(rebuild: Rebuild, make_network: Callable[..., onnx.ModelProto]) -> None:
    wrong = make_network(elem=TensorProto.DOUBLE).SerializeToString()
    found = verify(
        rebuild(
            {
                "toy/config.pbtxt": b'name: "other"\nmax_batch_size: 4\n',
                "toy/1/model.onnx": wrong,
                "toy/samples/request.json": b"{}",
            }
        )
    )
    text = "\n".join(found.findings)
    assert not found.ok
    assert 'config.pbtxt: name: got "other"; allowed "toy"' in text
    assert "config.pbtxt: max_batch_size: got 4; allowed 8" in text
    assert "1/model.onnx: input 'x': dtype" in text
    assert "samples/request.json: inputs" in text


def test_a_model_that_answers_outside_its_range_is_found(
    rebuild: Rebuild, make_sample: Callable[..., bytes], make_network: Callable[..., onnx.ModelProto]
) -> None:
    network = make_network()
    network.graph.node[1].op_type = "Identity"
    found = verify(
        rebuild(
            {
                "toy/1/model.onnx": network.SerializeToString(),
                "toy/samples/request.json": make_sample([5.0, 0.0]),
            }
        )
    )
    assert list(found.findings) == ["output 'y': got values from 5 to 5; allowed 0 to 1; mend it"]


def test_an_archive_without_a_sample_cannot_be_tried(rebuild: Rebuild) -> None:
    assert "got no samples/request.json" in verify(rebuild({"toy/samples/request.json": None})).findings[0]


def test_what_cannot_be_opened_is_one_finding(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-20])
    found = verify(archive)
    assert found.served is None
    assert any("no whole tar.gz" in finding for finding in found.findings)
    assert any("sha256: got" in finding for finding in found.findings)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no such file"):
        verify(tmp_path / "none.model.tar.gz")
