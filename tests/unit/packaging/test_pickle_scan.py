"""Pickles are found by their opcodes; PyTorch's own archives may name what it rebuilds tensors with."""

from __future__ import annotations

import collections
import io
import os
import pickle
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_packaging import pickle_scan
from model_packaging.pickle_scan import pickle_problems, stream_problems

STATE_DICT = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02."
TORCHSCRIPT = b"\x80\x02c__torch__.torch.nn.modules.linear\nLinear\nq\x00)\x81."


class Evil:
    """What a pickle does with `__reduce__`: any call."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("true",)


def problems(data: bytes, name: str) -> list[str]:
    return list(stream_problems(io.BytesIO(data), name))


def zipped(members: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("name", ["m.pkl", "m.pt", "m.pth", "m.bin", "m.ckpt", "m.joblib", "m.onnx", "notes.txt", "m"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_under_any_name_with_the_global_it_calls(name: str, protocol: int) -> None:
    (found,) = problems(pickle.dumps(Evil(), protocol=protocol), name)
    assert found.startswith(f"{name}: got a pickle: ")
    assert f"{os.system.__module__}.system at byte " in found


def test_the_offset_is_that_of_the_opcode() -> None:
    assert (
        "GLOBAL posix.system at byte 12;" in problems(b"\x80\x02X\x03\x00\x00\x00abcq\x00cposix\nsystem\n.", "m.pkl")[0]
    )


@pytest.mark.parametrize("suffix", [*pickle_scan.PICKLE_SUFFIXES, ".bin"])
def test_text_pickles_have_no_magic_and_are_known_by_their_suffix(suffix: str) -> None:
    assert "GLOBAL posix.system at byte 0" in problems(b"cposix\nsystem\n(S'id'\ntR.", f"m{suffix}")[0]
    assert (
        "INST posix.system at byte 4"
        in problems(b"(S''\nposix\nsystem\n.".replace(b"S''\n", b"I1\ni"), f"m{suffix}")[0]
    )


def test_a_pickle_that_breaks_off_would_have_run_until_there() -> None:
    assert "GLOBAL posix.system" in problems(b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R\xff\xff", "m.pkl")[0]


def test_a_pickle_of_plain_data_is_one_too() -> None:
    assert problems(pickle.dumps({"a": [1, 2]}), "m.pkl") == [
        "m.pkl: got a pickle: PROTO at byte 0; allowed no pickle; save weights as ONNX or safetensors"
    ]


@pytest.mark.parametrize("extension", [b"\x82\x07", b"\x83\x07\x00", b"\x84\x07\x00\x00\x00"])
def test_registered_extensions_are_imports(extension: bytes) -> None:
    assert "extension 7 at byte 2" in problems(b"\x80\x02" + extension + b".", "m.pkl")[0]


def test_a_name_computed_behind_the_scanners_back_is_refused_in_pytorchs_archives() -> None:
    harmless = b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict"
    assert problems(zipped({"m/data.pkl": harmless + b"\x93."}), "m.pt") == []
    swapped = harmless + b"\x8c\x05posix\x8c\x06system00" + b"00" + b"\x8c\x05posix\x8c\x06system" + b"\x93."
    assert "posix.system" in problems(zipped({"m/data.pkl": swapped}), "m.pt")[0]
    popped = b"\x80\x04\x8c\x05posix\x8c\x06system" + b"\x8c\x0bOrderedDict0" + b"\x93."
    assert "STACK_GLOBAL of a computed name" in problems(zipped({"m/data.pkl": popped}), "m.pt")[0]
    memoed = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x9400\x8c\x0bcollections\x8c\x0bOrderedDict00h\x00h\x01\x93."
    assert "STACK_GLOBAL posix.system" in problems(zipped({"m/data.pkl": memoed}), "m.pt")[0]


GETPID = b"cposix\ngetpid\n)R."
"""Calls os.getpid: a witness that harms nobody."""

HIDERS = {
    "a memo written twice": b"\x80\x04\x8c\x05posixq\x02q\x020\x8c\x0bcollections\x940h\x02\x8c\x06getpid\x93)R.",
    "a line in another encoding": b"S'\xc3\xa9'\n0" + GETPID,
    "a number in hexadecimal": b"I0x10\n0" + GETPID,
    "a long number in hexadecimal": b"L0x10L\n0" + GETPID,
    "a line longer than any": b"V" + b"x" * (1 << 17) + b"\n0" + GETPID,
    "an argument larger than any": b"\x8e" + (65 << 20).to_bytes(8, "little") + bytes(65 << 20) + b"0" + GETPID,
}


@pytest.mark.parametrize("hider", HIDERS)
def test_what_hides_an_import_from_one_reader_hides_it_from_no_other(hider: str) -> None:
    data = HIDERS[hider]
    assert pickle.loads(data, encoding="utf-8") == os.getpid()  # noqa: S301 - the witness: the import does run
    found = problems(zipped({"m/data.pkl": data}), "m.pt")
    assert any("posix.getpid" in line or "of a computed name" in line for line in found), found
    assert "got a pickle" in problems(data, "m.bin")[0]


def test_pickles_behind_the_first_one_are_read_too() -> None:
    """PyTorch's format before zip: a magic number, a version and the state dict, each a pickle of its own."""
    row = b"L119547037146038801333356L\n.I1001\n." + GETPID
    stream = io.BytesIO(row)
    assert [pickle.load(stream) for _ in range(3)][-1] == os.getpid()  # noqa: S301 - the witness
    assert "GLOBAL posix.getpid" in problems(row, "m.bin")[0]


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_what_numpy_would_unpickle_for_want_of_a_magic_number_is_refused(suffix: str) -> None:
    assert np.load(io.BytesIO(GETPID), allow_pickle=True) == os.getpid()
    assert "GLOBAL posix.getpid at byte 0" in problems(GETPID, f"m{suffix}")[0]


def test_an_archive_with_two_directories_is_refused() -> None:
    """Python reads the one in front of the end, PyTorch the one that the end names."""
    evil, good = (zipped({"m/data.pkl": data}) for data in (GETPID, STATE_DICT))
    at = good.index(b"PK\x01\x02")
    end = good[-22:-6] + evil.index(b"PK\x01\x02").to_bytes(4, "little") + b"\0\0"
    both = evil[:-22] + good[:at] + good[at:-22] + end
    assert "a directory at byte" in problems(both, "m.pt")[0]
    assert "bytes behind the zip's end" in problems(good[:-2] + b"\x04\0" + b"note", "m.pt")[0]


def test_large_zips_end_as_pytorch_ends_all_of_its_own() -> None:
    """A zip64 end and its locator (APPNOTE.TXT 4.3.14, 4.3.15) before the plain one, written whatever the size."""
    plain = zipped({"m/data.pkl": STATE_DICT})
    size, offset = struct.unpack("<2L", plain[-10:-2])
    end_64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 798, 45, 0, 0, 1, 1, size, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(plain) - 22, 1)
    assert problems(plain[:-22] + end_64 + locator + plain[-22:], "m.pt") == []
    elsewhere = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    assert "a directory at byte" in problems(plain[:-22] + end_64 + elsewhere + plain[-22:], "m.pt")[0]


@pytest.mark.parametrize("head", [b"\x82\x07", b"\x93", b"\x84\x00\x00\x00\x00", b"X\xff\xff", b"c\xc3\n\n"])
def test_raw_numbers_that_read_like_an_opcode_are_no_pickle(head: bytes) -> None:
    assert problems(head + b"\x00" * 64, "m.bin") == []


@given(st.integers(0, 400), st.integers(1, 255), st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
def test_a_byte_of_a_compressed_member_that_changed_is_a_finding_or_nothing(at: int, change: int, method: int) -> None:
    whole = bytearray(zipped({"m/data.pkl": STATE_DICT * 3, "m/x.npy": os.urandom(40)}, method=method))
    whole[at % len(whole)] ^= change
    assert all(line.startswith("m.pt") for line in problems(bytes(whole), "m.pt"))


@pytest.mark.parametrize("data", [STATE_DICT, TORCHSCRIPT, pickle.dumps(collections.OrderedDict(a=1))])
@pytest.mark.parametrize("name", ["m.pt", "m.pt2", "M.PTH"])
def test_pytorchs_archives_may_rebuild_tensors_and_their_own_modules(data: bytes, name: str) -> None:
    archive = {"m/data.pkl": data, "m/data/0": os.urandom(64), "m/version": b"3\n"}
    assert problems(zipped(archive), name) == []


@pytest.mark.parametrize(
    "named",
    ["posix system", "builtins eval", "torch.nn.modules.linear Linear", "__torch__ ", "torch.hub load", "os path"],
)
def test_pytorchs_archives_may_name_nothing_else(named: str) -> None:
    data = b"\x80\x02c" + named.replace(" ", "\n").encode() + b"\n."
    for inner in ("m/data.pkl", "m/code/x.debug_pkl", "m/.hidden"):
        (found,) = problems(zipped({inner: data}), "m.pt")
        assert found.startswith(f"m.pt!{inner}: got a pickle: GLOBAL {named.replace(' ', '.')} at byte 2")


def test_archives_in_archives_and_compressed_members_are_looked_into() -> None:
    inner = zipped({"w/data.pkl": pickle.dumps(Evil(), protocol=2)}, method=zipfile.ZIP_DEFLATED)
    outer = zipped({"e/data/sample_inputs/model.pt": inner})
    assert ".system at byte 2" in problems(outer, "e.pt2")[0]
    nest = inner
    for _ in range(4):
        nest = zipped({"m.pt": nest})
    assert "archives within archives" in problems(nest, "m.pt")[0]


def test_a_zip_under_another_name_may_hold_no_pickle_at_all() -> None:
    assert "PROTO at byte 0" in problems(zipped({"data.pkl": pickle.dumps(1)}), "m.zip")[0]
    assert "GLOBAL" in problems(zipped({"x": STATE_DICT}), "notes.txt")[0]
    assert problems(zipped({"x": b"text"}), "notes.txt") == []


def test_a_file_that_is_a_pickle_in_front_and_a_zip_behind_is_both() -> None:
    both = b"\x80\x02cposix\nsystem\n." + zipped({"m/data.pkl": STATE_DICT})
    assert any("GLOBAL posix.system at byte 2" in line for line in problems(both, "m.pt"))


def test_a_damaged_zip_is_refused() -> None:
    whole = zipped({"m/data.pkl": STATE_DICT})
    assert "cannot be read" in problems(whole[: len(whole) // 2], "m.pt")[0]


def test_arrays_of_objects_are_pickles_and_arrays_of_numbers_are_not() -> None:
    def saved(array: np.ndarray) -> bytes:
        out = io.BytesIO()
        np.save(out, array, allow_pickle=True)
        return out.getvalue()

    numbers, objects = saved(np.zeros((3, 2), np.float32)), saved(np.array([{}, None], dtype=object))
    fields = saved(np.zeros(2, dtype=[("a", "<f4"), ("O", "O")]))
    assert problems(numbers, "a.npy") == []
    assert problems(saved(np.zeros(1, dtype=[("O", "<f4")])), "a.npy") == []
    for data in (objects, fields):
        assert "a.npy: got an array of objects, a pickle" in problems(data, "a.npy")[0]
        assert "z.npz!b.npy: got an array of objects" in problems(zipped({"a.npy": numbers, "b.npy": data}), "z.npz")[0]
    assert problems(zipped({"a.npy": numbers}), "z.npz") == []


def test_files_that_are_no_pickle_are_left_alone() -> None:
    for length in (640, 896, 1152, 1408):  # a safetensors file whose header has that length starts like PROTO 2 to 5
        head = length.to_bytes(8, "little")
        assert head[0] == 0x80
        assert problems(head + b"{}".ljust(length), "model.safetensors") == []
    assert problems(b"\x08\x08\x12\x04test", "model.onnx") == []
    assert problems(b"", "empty.bin") == []


@given(st.binary(max_size=200), st.sampled_from(["m.onnx", "x.bin", "m.pt", "a.npy", "z.npz", "m.pkl"]))
def test_no_bytes_make_the_scan_fail(data: bytes, name: str) -> None:
    for head in (b"", b"\x80\x04", b"\x93NUMPY\x01\x00", b"PK\x03\x04"):
        assert all(line.startswith(name) for line in problems(head + data, name))


def test_nothing_is_loaded_and_an_argument_of_any_length_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.pkl"
    with path.open("wb") as file:
        file.write(b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little"))
        file.truncate(1 << 40)  # a hole: no disk is used
    assert "by its name is unpickled" in next(pickle_problems(path, "m.pkl"))
    marker = tmp_path / "ran"
    path.write_bytes(pickle.dumps(_Touch(str(marker))))
    assert "got a pickle" in next(pickle_problems(path, "m.pkl"))
    assert not marker.exists()


class _Touch:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return subprocess.check_call, (["touch", self.path],)
