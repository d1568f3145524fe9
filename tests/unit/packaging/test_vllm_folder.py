from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import orjson
import pytest

from model_packaging.build import package
from model_packaging.verify import verify
from model_packaging.vllm import folder_problems
from serving.errors import PackagingError
from serving.spec.manifest import PackageManifest
from serving.spec.model import ModelSpec


def build(spec: ModelSpec, folder: Path, out: Path) -> PackageManifest:
    return package(spec, "1.0.0", model_dir=out / "none", out_dir=out, image="vllm:test", weights=folder)


def test_a_hugging_face_folder_lies_at_the_top(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path) -> None:
    (hf_folder / "LICENSE").write_text("Apache-2.0")
    build(hf_spec, hf_folder, tmp_path)
    with tarfile.open(tmp_path / "toy-1.0.0.model.tar.gz") as tar:
        names = tar.getnames()
    assert names == ["LICENSE", "config.json", "model.safetensors", "streamhub.json", "tokenizer.json"]
    assert verify(tmp_path / "toy-1.0.0.model.tar.gz").findings == ()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "weights.pkl", "modeling.py", "model.ckpt"])
def test_files_that_may_hold_code_are_refused_by_name(
    hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path, name: str
) -> None:
    (hf_folder / name).write_bytes(b"x")
    with pytest.raises(PackagingError, match=f"{name}.*code or pickled"):
        build(hf_spec, hf_folder, tmp_path)


@pytest.mark.parametrize("data", [pickle.dumps({"w": 1}), b"PK\x03\x04torch"])
def test_a_pickle_under_an_innocent_name_is_refused_by_content(
    hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path, data: bytes
) -> None:
    (hf_folder / "vocab.txt").write_bytes(data)
    with pytest.raises(PackagingError, match=r"vocab\.txt: got pickled or zipped"):
        build(hf_spec, hf_folder, tmp_path)


@pytest.mark.parametrize("damage", ["cut", "longer", "pickle", "empty", "huge header"])
def test_damaged_safetensors_are_refused(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path, damage: str) -> None:
    path = hf_folder / "model.safetensors"
    whole = path.read_bytes()
    data = {
        "cut": whole[:-1],
        "longer": whole + b"x",
        "pickle": pickle.dumps({"w": 1}),
        "empty": b"",
        "huge header": b"\xff" * 8 + whole[8:],
    }[damage]
    path.write_bytes(data)
    with pytest.raises(PackagingError, match=r"model\.safetensors: got no whole safetensors"):
        build(hf_spec, hf_folder, tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8.0]},
        {"dtype": "F32", "shape": [2], "data_offsets": [False, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 16]},
        {"dtype": "OBJECT", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]},
        {"dtype": "F32", "data_offsets": [0, 8]},
        [],
    ],
)
def test_a_header_that_no_loader_takes_is_refused(
    hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path, entry: object
) -> None:
    header = orjson.dumps({"w": entry})
    (hf_folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(PackagingError, match=r"model\.safetensors: got no whole safetensors"):
        build(hf_spec, hf_folder, tmp_path)


def test_tensors_of_every_type_and_without_elements_are_whole(hf_folder: Path) -> None:
    """Sizes by the format's own table (safetensors README, *Format*)."""
    sizes = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2}
    sizes |= {"I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8}
    table: dict[str, object] = {"none": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}}
    end = 0
    for dtype, size in sizes.items():
        table[dtype] = {"dtype": dtype, "shape": [2, 3], "data_offsets": [end, end + 6 * size]}
        end += 6 * size
    header = orjson.dumps({**table, "__metadata__": {"format": "pt"}})
    (hf_folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(end))
    assert list(folder_problems(hf_folder)) == []


@pytest.mark.parametrize("name", ["requirements.txt", "deep/requirements.txt"])
def test_a_list_of_packages_to_install_at_start_is_refused(
    hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path, name: str
) -> None:
    (hf_folder / "deep").mkdir()
    (hf_folder / name).write_text("evil")
    with pytest.raises(PackagingError, match=r"requirements\.txt: got a list that LMI would install"):
        build(hf_spec, hf_folder, tmp_path)


def test_links_of_a_cache_are_refused_with_the_way_out(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path) -> None:
    (hf_folder / "tokenizer_config.json").symlink_to("config.json")
    with pytest.raises(PackagingError, match="cp -rL"):
        build(hf_spec, hf_folder, tmp_path)


def test_everything_that_is_missing_is_told_at_once(hf_spec: ModelSpec, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(PackagingError, match=r"config\.json(.|\n)*safetensors(.|\n)*tokenizer"):
        build(hf_spec, empty, tmp_path)
    with pytest.raises(PackagingError, match="no folder"):
        build(hf_spec, tmp_path / "nowhere", tmp_path)


def test_a_file_under_the_name_of_our_own_is_refused(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path) -> None:
    (hf_folder / "streamhub.json").write_text("{}")
    with pytest.raises(PackagingError, match=r"streamhub\.json: got a name that packaging writes"):
        build(hf_spec, hf_folder, tmp_path)


def test_a_sample_that_is_no_json_is_refused(hf_spec: ModelSpec, hf_folder: Path, model_dir: Path) -> None:
    (model_dir / "samples" / "request.json").write_bytes(b"{")
    with pytest.raises(PackagingError, match=r"samples/request\.json: got no JSON"):
        package(hf_spec, "1.0.0", model_dir=model_dir, out_dir=model_dir, image="vllm:test", weights=hf_folder)
