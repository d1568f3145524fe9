from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tracemalloc
from importlib.metadata import version
from pathlib import Path

import pytest

from model_packaging.archive import Member, write_archive
from model_packaging.build import package
from model_packaging.pieces import PIECE_BYTES, Pieces, thread_count
from serving.errors import PackagingError
from serving.spec.model import ModelSpec


def read_back(archive: Path) -> dict[str, bytes]:
    """Read with the standard library, which knows nothing of how it was written."""
    found: dict[str, bytes] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for info in tar:
            source = tar.extractfile(info)
            if source is not None:
                found[info.name] = source.read()
    return found


def test_what_goes_in_comes_out_with_its_digests(tmp_path: Path) -> None:
    big = os.urandom(PIECE_BYTES + 12345)
    (tmp_path / "big.bin").write_bytes(big)
    files = {"a/empty": b"", "a/b/c.txt": b"text", "z": b"1" * 512, "ü/täxt": "ü".encode()}
    members = [*(Member(name, data) for name, data in files.items()), Member("big", tmp_path / "big.bin")]
    written = write_archive(members, tmp_path / "out.tar.gz")
    assert read_back(tmp_path / "out.tar.gz") == {**files, "big": big}
    data = (tmp_path / "out.tar.gz").read_bytes()
    assert (written.sha256, written.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert {entry.path: (entry.size_bytes, entry.sha256) for entry in written.files} == {
        name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in {**files, "big": big}.items()
    }


def test_order_times_modes_and_folders_of_the_machine_leave_no_trace(tmp_path: Path) -> None:
    archives = []
    for number, mode in enumerate((0o600, 0o777)):
        folder = tmp_path / f"place-{number}"
        folder.mkdir()
        for name in ("one", "two"):
            (folder / name).write_bytes(name.encode())
            (folder / name).chmod(mode)
            os.utime(folder / name, (number * 1e9, number * 1e9))
        members = [Member(f"m/{name}", folder / name) for name in ("one", "two")]
        write_archive(reversed(members) if number else members, folder / "out.tar.gz")
        archives.append((folder / "out.tar.gz").read_bytes())
    assert archives[0] == archives[1]


def test_headers_are_plain_ustar_owned_by_nobody(tmp_path: Path) -> None:
    write_archive([Member("m/one", b"1")], tmp_path / "out.tar.gz")
    data = (tmp_path / "out.tar.gz").read_bytes()
    assert data[4:8] == b"\0\0\0\0"  # RFC 1952: MTIME
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        infos = {info.name: info for info in tar}
    assert (infos["m"].mode, infos["m/one"].mode) == (0o755, 0o644)
    for info in infos.values():
        assert (info.mtime, info.uid, info.gid, info.uname, info.gname) == (0, 0, 0, "", "")
    assert len(gzip.decompress(data)) % tarfile.RECORDSIZE == 0


def test_memory_stays_small_whatever_the_size(tmp_path: Path) -> None:
    large = tmp_path / "large"
    block = os.urandom(PIECE_BYTES)
    with large.open("wb") as file:
        for _ in range(30):
            file.write(block)
    tracemalloc.start()
    try:
        write_archive([Member("large", large)], tmp_path / "out.tar.gz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # two pieces a thread wait, plain or packed; one more each is being packed, and one is being filled
    assert peak < (2 * 2 * thread_count() + 4) * PIECE_BYTES


def test_the_number_of_threads_leaves_no_trace() -> None:
    data = os.urandom(PIECE_BYTES) + b"text " * PIECE_BYTES + b"end"
    packed = []
    for threads in (1, 2, 7):
        out = io.BytesIO()
        with Pieces(out, threads=threads) as pieces:
            for start in range(0, len(data), 1 << 20):
                pieces.write(data[start : start + (1 << 20)])
            pieces.finish()
        assert (pieces.plain_bytes, pieces.size_bytes) == (len(data), len(out.getvalue()))
        assert pieces.sha256 == hashlib.sha256(out.getvalue()).hexdigest()
        packed.append(out.getvalue())
    assert packed[0] == packed[1] == packed[2]
    assert gzip.decompress(packed[0]) == data


def test_what_a_reader_takes_for_a_bomb_is_not_written(tmp_path: Path) -> None:
    zeros = tmp_path / "zeros"
    with zeros.open("wb") as file:
        file.truncate(80 << 20)
    with pytest.raises(PackagingError, match="takes it for a bomb"):
        write_archive([Member("zeros", zeros)], tmp_path / "out.tar.gz")
    assert list(tmp_path.iterdir()) == [zeros]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("Model/a", "model/b"), "differ only in case"),
        (("caf\u00e9", "cafe\u0301"), "Unicode normalisation"),
        (("stra\u00dfe", "STRASSE"), "differ only in case"),
        (("a", "a/b"), "'a/b' below the file 'a'"),
        (("n" * 201,), "too long"),
        (("/".join(["n" * 100] * 11),), "too long"),
        (("a\udcff",), "not UTF-8"),
    ],
)
def test_names_that_some_file_system_cannot_keep_are_refused(
    tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    with pytest.raises(PackagingError, match=words):
        write_archive([Member(name, b"1") for name in names], tmp_path / "out.tar.gz")


def test_hard_links_are_packed_as_the_files_they_are(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"same")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    write_archive([Member(name, tmp_path / name) for name in ("one", "two")], tmp_path / "out.tar.gz")
    with tarfile.open(tmp_path / "out.tar.gz") as tar:
        assert [info.type for info in tar] == [tarfile.REGTYPE, tarfile.REGTYPE]


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_archive(
        [Member("a", b"12345"), Member("b", b"123")],
        tmp_path / "out.tar.gz",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(5, 8), (8, 8)]


def test_an_error_leaves_the_old_archive_and_nothing_else(tmp_path: Path) -> None:
    def broken(done: int, total: int) -> None:
        raise RuntimeError(f"{done} of {total}")

    out = tmp_path / "out.tar.gz"
    write_archive([Member("a", b"old")], out)
    before = out.read_bytes()
    with pytest.raises(RuntimeError, match="3 of 3"):
        write_archive([Member("a", b"new")], out, progress=broken)
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(PackagingError, match="cp -rL"):
            write_archive([Member("a", tmp_path / name)], tmp_path / "out.tar.gz")


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../b", "a//b", "./a", "a\\b", "a\nb", ""])
def test_names_outside_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackagingError, match="allowed a path below"):
        write_archive([Member(name, b"1")], tmp_path / "out.tar.gz")


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackagingError, match="twice"):
        write_archive([Member("a", b"1"), Member("a", b"2")], tmp_path / "out.tar.gz")


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    growing.write_bytes(b"12345")

    def grow(done: int, total: int) -> None:
        with growing.open("ab") as file:
            file.write(b"6" * (done + total))

    with pytest.raises(PackagingError, match="another size"):
        write_archive([Member("a", growing)], tmp_path / "out.tar.gz", progress=grow)


def test_more_files_than_a_reader_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PackagingError, match="4096 files"):
        write_archive([Member(str(number), b"") for number in range(4097)], tmp_path / "out.tar.gz")


def test_the_manifest_names_the_compressor_that_archives_are_written_with(
    spec: ModelSpec, model_dir: Path, tmp_path: Path
) -> None:
    toolchain = package(spec, "1.0.0", model_dir=model_dir, out_dir=tmp_path, image="x").toolchain
    assert toolchain["deflate"] == version("deflate")
    assert toolchain["gzip"] == "level 6, pieces of 4 MiB"
