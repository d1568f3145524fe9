from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from serving.errors import ArchiveError
from serving.protocol.archive import unpack
from serving.protocol.served import ServedModel
from serving.spec.runtime import TritonRuntime, VllmRuntime
from serving.spec.tensors import DType, TensorSpec

SERVED = ServedModel(
    name="toy",
    version="1.2.3",
    runtime=TritonRuntime(device="cpu"),
    inputs=(TensorSpec(name="x", dtype=DType.FP32, shape=(2,)),),
    outputs=(TensorSpec(name="y", dtype=DType.FP32, shape=(1,)),),
    p99_ms=10.0,
    deadline_ms=20.0,
)
TRITON = {
    "toy/streamhub.json": SERVED.to_json(),
    "toy/config.pbtxt": b'name: "toy"\n',
    "toy/1/model.onnx": b"weights",
    "toy/samples/request.json": b"{}",
}


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    return info, data


def packed(*members: tuple[tarfile.TarInfo, bytes], files: dict[str, bytes] = TRITON) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, data in [*(member(name, data) for name, data in files.items()), *members]:
            tar.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def refused(tmp_path: Path, data: bytes, **limits: int) -> str:
    archive = tmp_path / "toy.model.tar.gz"
    archive.write_bytes(data)
    with pytest.raises(ArchiveError) as caught:
        unpack(archive, tmp_path / "out", **limits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.model.tar.gz"], "something was left half-written"
    return str(caught.value)


def test_a_triton_archive_gives_its_graph_and_what_it_says_of_itself(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(packed()))
    folder = unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert folder.served == SERVED
    assert folder.model.read_bytes() == b"weights"
    assert folder.sample == tmp_path / "out/toy/samples/request.json"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "out"]


def test_a_vllm_archive_is_its_own_folder(tmp_path: Path) -> None:
    served = ServedModel(
        name="rag", version="1.0.0", runtime=VllmRuntime(), inputs=(), outputs=(), p99_ms=1.0, deadline_ms=2.0
    )
    data = packed(files={"streamhub.json": served.to_json(), "config.json": b"{}"})
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(data))
    folder = unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (folder.model, folder.sample) == (tmp_path / "out", None)


def test_an_archive_in_many_gzip_members_is_one_archive(tmp_path: Path) -> None:
    data = packed()
    parts = [data[at : at + 700] for at in range(0, len(data), 700)]
    (tmp_path / "a.tar.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    assert unpack(tmp_path / "a.tar.gz", tmp_path / "out").model.read_bytes() == b"weights"


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/evil", b"x"),
        member("../evil", b"x"),
        member("toy/../../evil", b"x"),
        member("toy\\..\\evil", b"x"),
        member("toy/line\nbreak", b"x"),
        member("toy/" + "n" * 201, b"x"),
        member("toy/link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
        member("toy/hard", kind=tarfile.LNKTYPE, link="toy/config.pbtxt"),
        member("toy/pipe", kind=tarfile.FIFOTYPE),
        member("toy/device", kind=tarfile.CHRTYPE),
        member("toy/config.pbtxt", b"again"),
        member("toy/config.pbtxt/below", b"x"),
        member("toy/config.pbtxt", kind=tarfile.DIRTYPE),
    ],
    ids=lambda bad: bad[0].name[:20],
)
def test_an_unsafe_member_is_refused_and_nothing_is_left(tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes]) -> None:
    text = refused(tmp_path, gzip.compress(packed(bad)))
    assert "got member" in text
    assert "allowed" in text


@pytest.mark.parametrize("cut", [0, 1, 10, 60, -9, -1])
def test_a_truncated_archive_is_refused(tmp_path: Path, cut: int) -> None:
    assert "no whole tar.gz" in refused(tmp_path, gzip.compress(packed())[:cut])


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip at all" * 99, packed(), gzip.compress(b"no tar" * 999)],
    ids=["nothing", "no gzip", "tar alone", "no tar"],
)
def test_what_is_no_tar_gz_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "no whole tar.gz" in refused(tmp_path, data)


def test_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(packed()))
    data[-6] ^= 1  # in the CRC
    assert "no whole tar.gz" in refused(tmp_path, bytes(data))


def test_too_many_files_and_too_many_bytes_are_refused_with_the_limit(tmp_path: Path) -> None:
    assert "allowed 3 files" in refused(tmp_path, gzip.compress(packed()), max_files=3)
    assert "100 bytes" in refused(tmp_path, gzip.compress(packed()), max_bytes=100)


def test_a_bomb_in_a_header_or_behind_the_end_is_refused(tmp_path: Path) -> None:
    header, _ = member("toy/pax", kind=tarfile.XHDTYPE)
    header.size = 64 << 20
    assert "belong to no file" in refused(tmp_path, gzip.compress(header.tobuf() + bytes(64 << 20), compresslevel=1))
    assert "belong to no file" in refused(tmp_path, gzip.compress(packed() + bytes(4 << 20)))


@pytest.mark.parametrize("missing", ["toy/streamhub.json", "toy/config.pbtxt", "toy/1/model.onnx"])
def test_an_archive_without_a_file_its_container_needs_is_refused(tmp_path: Path, missing: str) -> None:
    files = {name: data for name, data in TRITON.items() if name != missing}
    assert missing.rsplit("/", maxsplit=1)[-1] in refused(tmp_path, gzip.compress(packed(files=files)))


@pytest.mark.parametrize(
    "files",
    [
        {name.removeprefix("toy/"): data for name, data in TRITON.items()},
        {**TRITON, "config.pbtxt": b""},
        {**TRITON, "other/config.pbtxt": b""},
        {name.replace("toy", "yot"): data for name, data in TRITON.items()},
        {**TRITON, "toy/streamhub.json": b"{}"},
        {},
    ],
    ids=["at the top", "stray", "two", "renamed", "no document", "empty"],
)
def test_another_layout_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert "allowed" in refused(tmp_path, gzip.compress(packed(files=files)))


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(packed()))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("kept")
    with pytest.raises(ArchiveError, match="folder in use"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/mine").read_text() == "kept"


def test_no_such_archive_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no such file"):
        unpack(tmp_path / "none.tar.gz", tmp_path / "out")
