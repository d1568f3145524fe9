"""A folder of archives that are each broken in one way: the real command names each fault in one line."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from model_packaging.archive import Member, write_archive
from model_packaging.build import package
from model_packaging.verify import verify
from serving.protocol.served import ServedModel
from serving.spec.model import ModelSpec
from tests.unit.packaging.conftest import SPEC, network, sample

Files = dict[str, bytes]
Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    return info, data


def tar(files: Files, extra: Iterable[Entry] = (), *, encoding: str = "utf-8") -> bytes:
    raw = io.BytesIO()
    style = tarfile.PAX_FORMAT if encoding == "utf-8" else tarfile.USTAR_FORMAT  # PAX names are UTF-8 by definition
    with tarfile.open(fileobj=raw, mode="w", format=style, encoding=encoding) as out:
        for info, data in [*(entry(name, data) for name, data in files.items()), *extra]:
            out.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def packed(files: Files, *extra: Entry) -> bytes:
    return gzip.compress(tar(files, extra), mtime=0)


def saved(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def request(data: list[object], *, datatype: str = "FP32", shape: tuple[int, ...] = (1, 2)) -> bytes:
    return orjson.dumps({"inputs": [{"name": "x", "shape": shape, "datatype": datatype, "data": data}]})


def answering_nan(network: onnx.ModelProto) -> bytes:
    network.graph.node[1].op_type = "Log"  # of a negative number
    return network.SerializeToString()


def structure(good: Files) -> Iterator[tuple[str, bytes, str]]:
    """What stands at the wrong place, or not at all."""
    at_top = {name.removeprefix("toy/"): data for name, data in good.items()}
    without = {name: {key: data for key, data in good.items() if key != f"toy/{name}"} for name in LEFT_OUT}
    yield "config-at-root", packed(at_top), "got a triton model at the top"
    yield "only-config-at-root", packed({**good, "config.pbtxt": b""}), "config.pbtxt at the top"
    yield "two-model-folders", packed({**good, "other/config.pbtxt": b""}), "got other/ beside toy/"
    yield "wrong-name", packed({key.replace("toy/", "yot/"): data for key, data in good.items()}), "in folder yot/"
    yield "no-version-folder", packed(without["1/model.onnx"]), "got no toy/1/model.onnx"
    yield "no-config", packed(without["config.pbtxt"]), "got no toy/config.pbtxt"
    yield "no-document", packed(without["streamhub.json"]), "and no streamhub.json"
    yield "no-sample", packed(without["samples/request.json"]), "got no samples/request.json"
    yield "broken-document", packed({**good, "toy/streamhub.json": b"{"}), "streamhub.json: "
    yield "empty-archive", packed({}), "got nothing at the top"


LEFT_OUT = ("1/model.onnx", "config.pbtxt", "streamhub.json", "samples/request.json")


def damage(good: Files) -> Iterator[tuple[str, bytes, str]]:
    """Bytes that are no whole tar.gz, or far too many."""
    whole = packed(good)
    flipped = bytearray(whole)
    flipped[-6] ^= 1
    big = tar(good)
    yield "empty-file", b"", "an empty file"
    yield "no-gzip", b"GIF89a" * 200, "no gzip"
    yield "no-tar", gzip.compress(b"text " * 400), "no tar"
    yield "tar-without-gzip", big, "a tar that is not compressed"
    yield "truncated", whole[: len(whole) // 2], "truncated gzip"
    yield "truncated-tar", gzip.compress(big[: len(big) // 2]), "truncated tar"
    yield (
        "no-end-of-tar",
        gzip.compress(big.rstrip(b"\0").ljust(-(-len(big.rstrip(b"\0")) // 512) * 512, b"\0")),
        "its end is missing",
    )
    yield "corrupt-gzip", bytes(flipped), "corrupt gzip"
    yield "bytes-behind-gzip", whole + b"garbage", "bytes behind the gzip"
    yield "second-tar-behind", gzip.compress(big + tar({"toy/late": b"1"})), "bytes behind the end of the tar"
    yield "bomb", packed(good, entry("toy/zeros", bytes(80 << 20))), "got a bomb at 'toy/zeros'"
    yield "header-bomb", gzip.compress(big[:-10240] + bytes(4 << 20)), "bytes that belong to no file"
    yield "too-many-files", packed({**good, **{f"toy/more/{n}": b"" for n in range(4097)}}), "allowed 4096 files"
    lying = entry("toy/huge")[0]
    lying.size = 65 << 30
    yield (
        "too-large",
        gzip.compress(big[:-10240].rstrip(b"\0").ljust(len(big), b"\0")[:0] + lying.tobuf()),
        "68719476736 bytes unpacked",
    )


def members(good: Files, outside: Path) -> Iterator[tuple[str, bytes, str]]:
    """Members that no reader may follow."""
    yield "parent-path", packed(good, entry("toy/../../evil", b"x")), "'toy/../../evil': a parent path"
    yield "absolute-path", packed(good, entry(f"{outside}/evil", b"x")), "an absolute path"
    yield "symlink", packed(good, entry("toy/l", kind=tarfile.SYMTYPE, link="/etc/passwd")), "a symbolic link to '/etc/"
    through = (entry("toy/d", kind=tarfile.SYMTYPE, link=str(outside)), entry("toy/d/evil", b"x"))
    yield "write-through-symlink", packed(good, *through), "'toy/d': a symbolic link"
    yield "hard-link", packed(good, entry("toy/h", kind=tarfile.LNKTYPE, link="toy/config.pbtxt")), "a hard link to"
    yield "device", packed(good, entry("toy/null", kind=tarfile.CHRTYPE)), "a character device"
    yield "pipe", packed(good, entry("toy/pipe", kind=tarfile.FIFOTYPE)), "a named pipe"
    yield "duplicated", packed(good, entry("toy/config.pbtxt", b"again")), "'toy/config.pbtxt': twice"
    yield "case-collision", packed(good, entry("toy/CONFIG.pbtxt", b"")), "only in case or Unicode normalisation"
    latin = gzip.compress(tar(good, [entry("toy/caf\u00e9", b"")], encoding="latin-1"))
    yield "name-not-utf8", latin, "a name that is not UTF-8"
    yield "control-characters", packed(good, entry("toy/a\nb", b"")), "a name with control characters"
    yield "long-name", packed(good, entry("toy/" + "n" * 201, b"")), "a name that is too long"


def contents(good: Files, make_network: Callable[..., onnx.ModelProto]) -> Iterator[tuple[str, bytes, str]]:
    """Files that say something else than `streamhub.json` does, or that would run code."""

    def model(network: onnx.ModelProto) -> bytes:
        return packed({**good, "toy/1/model.onnx": network.SerializeToString()})

    def config(old: str, new: str) -> bytes:
        assert old in text
        return packed({**good, "toy/config.pbtxt": text.replace(old, new).encode()})

    text = good["toy/config.pbtxt"].decode()
    wide = make_network()
    wide.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    yield "wrong-dims", model(wide), "input 'x': shape"
    yield "wrong-dtype", model(make_network(elem=TensorProto.DOUBLE)), "input 'x': dtype"
    yield "wrong-output", model(make_network(out="z")), "output 'y': model.toml has it, the graph does not"
    yield "no-onnx", packed({**good, "toy/1/model.onnx": b"\xff" * 99}), "no ONNX model"
    nan = {**good, "toy/1/model.onnx": answering_nan(make_network()), "toy/samples/request.json": request([0, 1])}
    yield "nan-output", packed(nan), "values that are not finite"
    yield "name-in-config", config('"toy"', '"other"'), "config.pbtxt: name"
    yield "max-batch-mismatch", config("max_batch_size: 8", "max_batch_size: 4"), "config.pbtxt: max_batch_size"
    yield "other-backend", config('"onnxruntime"', '"python"'), "config.pbtxt: backend"
    yield "sample-too-wide", packed({**good, "toy/samples/request.json": request([1, 2, 3], shape=(1, 3))}), "got shape"
    wrong = request([1, 2], datatype="INT64")
    yield "sample-of-other-dtype", packed({**good, "toy/samples/request.json": wrong}), "got INT64; allowed FP32"
    yield "sample-no-json", packed({**good, "toy/samples/request.json": b"{]"}), "samples/request.json: "
    yield (
        "pickle",
        packed({**good, "toy/1/m.pkl": pickle.dumps(print)}),
        "m.pkl: got a pickle: STACK_GLOBAL builtins.print",
    )
    yield (
        "hidden-pickle",
        packed({**good, "toy/notes.txt": b"\x80\x02cposix\nsystem\n."}),
        "GLOBAL posix.system at byte 2",
    )
    objects = saved(np.array([{}], dtype=object))
    yield "object-array", packed({**good, "toy/data.npy": objects}), "data.npy: got an array of objects"


@pytest.fixture(name="corpus")
def corpus_fixture(
    spec: ModelSpec, model_dir: Path, hf_spec: ModelSpec, make_network: Callable[..., onnx.ModelProto], tmp_path: Path
) -> tuple[Path, dict[str, str]]:
    """Give the folder of archives, and the words that the finding of each must have."""
    package(spec, "1.0.0", model_dir=model_dir, out_dir=tmp_path / "good", image="x")
    archive, manifest = (tmp_path / "good" / f"toy-1.0.0.{end}" for end in ("model.tar.gz", "manifest.json"))
    good = read_members(archive)
    (tmp_path / "outside").mkdir()
    folder = tmp_path / "corpus"
    folder.mkdir()
    words: dict[str, str] = {}
    for name, data, expected in (
        *structure(good),
        *damage(good),
        *members(good, tmp_path / "outside"),
        *contents(good, make_network),
        ("digest-of-manifest", packed({**good, "toy/warmup/x": b""}), "sha256: got"),
        ("extra-file", packed({**good, "toy/extra": b"1"}), "toy/extra: got"),
        *vllm_archives(hf_spec),
    ):
        (folder / f"{name}.model.tar.gz").write_bytes(data)
        words[f"{name}.model.tar.gz"] = expected
    for name in ("digest-of-manifest", "extra-file"):
        (folder / f"{name}.manifest.json").write_bytes(manifest.read_bytes())
    return folder, words


def vllm_archives(hf_spec: ModelSpec) -> Iterator[tuple[str, bytes, str]]:
    good = {
        "streamhub.json": ServedModel.of(hf_spec, version="1.0.0").to_json(),
        "config.json": b"{}",
        "tokenizer.json": b"{}",
    }
    weights = pickle.dumps({"w": [1.0]}, protocol=2)
    yield "vllm-bin", packed({**good, "pytorch_model.bin": weights}), "pytorch_model.bin: got a pickle: PROTO"
    yield "vllm-no-weights", packed(good), "got no *.safetensors"
    yield "vllm-half-weights", packed({**good, "model.safetensors": b"\x10" + bytes(9)}), "no whole safetensors file"


def read_members(archive: Path) -> Files:
    with tarfile.open(archive) as source:
        return {info.name: source.extractfile(info).read() for info in source if info.isfile()}  # type: ignore[union-attr]


def verify_by_command(folder: Path, scratch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    scratch.mkdir(exist_ok=True)
    (scratch / "cwd").mkdir(exist_ok=True)
    (scratch / "tmp").mkdir(exist_ok=True)
    return subprocess.run(
        [Path(sys.executable).with_name("streamhub"), "verify", folder, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=scratch / "cwd",
        env={**os.environ, "TMPDIR": str(scratch / "tmp")},
    )


def test_each_of_many_broken_archives_is_named_in_one_line_and_nothing_leaves_the_temporary_folder(
    corpus: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, words = corpus
    assert len(words) >= 25
    before = sorted(tmp_path.rglob("*"))
    done = verify_by_command(folder, tmp_path / "scratch")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streamhub: ")
    lines = done.stderr.removeprefix("streamhub: ").splitlines()
    for name, expected in words.items():
        named = [line for line in lines if line.startswith(f"{name}: ")]
        assert sum(expected in line for line in named) == 1, f"{name}: {expected!r} is not in one line of {named}"
    assert {line.split(": ")[0] for line in lines} == words.keys()
    assert "Traceback" not in done.stderr
    after = {path for path in tmp_path.rglob("*") if path.relative_to(tmp_path).parts[0] != "scratch"}
    assert sorted(after) == before
    left = {path.name for path in (tmp_path / "scratch").rglob("*")}
    assert left == {"cwd", "tmp"}


def test_two_faults_of_one_archive_are_both_named(
    spec: ModelSpec, model_dir: Path, make_network: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    package(spec, "1.0.0", model_dir=model_dir, out_dir=tmp_path, image="x")
    archive = tmp_path / "toy-1.0.0.model.tar.gz"
    good = read_members(archive)
    good["toy/1/model.onnx"] = make_network(elem=TensorProto.DOUBLE).SerializeToString()
    good["toy/x.pkl"] = b"cposix\nsystem\n."
    archive.write_bytes(packed(good, entry("../up", b"x"), entry("toy/l", kind=tarfile.SYMTYPE, link="/")))
    done = verify_by_command(archive, tmp_path / "scratch", "--json")
    (found,) = orjson.loads(done.stdout)["archives"]
    text = "\n".join(found["findings"])
    for words in ("sha256: got", "a parent path", "a symbolic link", "dtype", "GLOBAL posix.system at byte 0"):
        assert words in text


@pytest.mark.parametrize("place", ["", "yot/", "toy/deep/"])
def test_faults_behind_a_wrong_place_are_named_too(
    spec: ModelSpec, model_dir: Path, make_network: Callable[..., onnx.ModelProto], tmp_path: Path, place: str
) -> None:
    package(spec, "1.0.0", model_dir=model_dir, out_dir=tmp_path, image="x")
    good = read_members(tmp_path / "toy-1.0.0.model.tar.gz")
    good["toy/1/model.onnx"] = make_network(elem=TensorProto.DOUBLE).SerializeToString()
    good["toy/samples/request.json"] = b"{]"
    moved = tmp_path / "moved.model.tar.gz"
    moved.write_bytes(packed({key.replace("toy/", place, 1): data for key, data in good.items()}))
    text = "\n".join(verify(moved).findings)
    assert "moved.model.tar.gz: got" in text
    named = place != "toy/deep/"  # nobody looks for the document that deep
    assert ("dtype: model.toml says FP32" in text, "samples/request.json: " in text) == (named, named)


@pytest.mark.parametrize("name", ["../../evil", "/evil", "..", ".", "", "a/b", "e\u0301"])
def test_a_document_cannot_have_files_moved_out_of_the_temporary_folder(
    spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scratch = tmp_path / "scratch" / "tmp"
    scratch.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    document = ServedModel.of(replace(spec, name=name), version="1.0.0").to_json()
    for place in ("streamhub.json", "toy/streamhub.json"):
        archive = tmp_path / "a.model.tar.gz"
        archive.write_bytes(packed({place: document, "toy/1/model.onnx": b"x"}))
        assert verify(archive).findings
    assert {*tmp_path.iterdir()} == {tmp_path / "scratch", archive}
    assert list(scratch.iterdir()) == []
    assert not Path("/evil").exists()


HOSTILE = {
    "names that are no UTF-8": ("toy/1/model.onnx", b"\n\x01x", b"\n\x01\xff"),
    "numbers beyond the schema": (
        "toy/streamhub.json",
        b'"max_queue_size":64',
        b'"max_queue_size":18446744073709551616',
    ),
    "numbers below it": ("toy/streamhub.json", b'"max_queue_delay_ms":2.5', b'"max_queue_delay_ms":-1'),
}


@pytest.fixture(name="good", scope="module")
def good_fixture(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("good")
    (folder / "weights").mkdir()
    (folder / "samples").mkdir()
    (folder / "weights/1.0.0.onnx").write_bytes(network().SerializeToString())
    (folder / "samples/request.json").write_bytes(sample([1.0, 0.5]))
    package(SPEC, "1.0.0", model_dir=folder, out_dir=folder, image="x")
    return read_members(folder / "toy-1.0.0.model.tar.gz")


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_values_are_findings(good: Files, tmp_path: Path, case: str) -> None:
    name, old, new = HOSTILE[case]
    assert old in good[name]
    archive = tmp_path / "a.model.tar.gz"
    archive.write_bytes(packed({**good, name: good[name].replace(old, new)}))
    assert verify(archive).findings


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_a_file_makes_verify_fail(good: Files, tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed, cut or doubled, values swapped in JSON, files moved below others: told, or taken."""
    name = data.draw(st.sampled_from(sorted(good)))
    whole, at = good[name], data.draw(st.integers(0, max(0, len(good[name]) - 1)))
    token = data.draw(st.sampled_from([b"", b"\xff", b"null", b"-1", b"1e400", b'"x"', b"[]", b"{}", b"[" * 5000]))
    end = at + data.draw(st.integers(0, 12))
    moved = name + data.draw(st.sampled_from(["", "", "", "/x", ".pkl", ".py"]))
    changed = {**{key: kept for key, kept in good.items() if key != name}, moved: whole[:at] + token + whole[end:]}
    archive = tmp_path / "a.model.tar.gz"
    archive.write_bytes(packed(changed))
    assert all(isinstance(finding, str) for finding in verify(archive).findings)


def test_good_archives_beside_bad_ones_are_told_apart(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    package(spec, "1.0.0", model_dir=model_dir, out_dir=tmp_path / "both", image="x")
    (tmp_path / "both" / "bad.model.tar.gz").write_bytes(b"")
    done = verify_by_command(tmp_path / "both", tmp_path / "scratch")
    assert done.returncode == 1
    assert done.stdout.startswith("ok: toy 1.0.0; ")
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_without_an_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = verify_by_command(tmp_path / "none", tmp_path / "scratch")
    assert (done.returncode, done.stdout) == (1, "")
    assert "got no *.tar.gz" in done.stderr


def test_what_the_writer_writes_the_reader_takes(tmp_path: Path) -> None:
    names = ["a", "b/c", "\u00fc/" + "n" * 200, "/".join(["d" * 100] * 10)]
    write_archive([Member(name, name.encode()) for name in names], tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as source:
        assert sorted(info.name for info in source if info.isfile()) == sorted(names)
