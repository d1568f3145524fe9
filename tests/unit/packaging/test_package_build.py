from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import orjson
import pytest
from onnx import TensorProto, helper

from model_packaging.build import archive_path, package, read_lock, write_lock
from model_packaging.manifest_file import manifest_path, read_manifest
from serving.errors import PackagingError
from serving.protocol.archive import unpack
from serving.protocol.served import ServedModel
from serving.spec.manifest import LockedVersion, PackageManifest
from serving.spec.model import ModelSpec, VersionSpec
from serving.spec.tensors import DType, TensorSpec

IMAGE = "sagemaker-tritonserver:test"
Network = Callable[..., onnx.ModelProto]


def build(spec: ModelSpec, model_dir: Path, out: Path, version: str = "1.0.0", **more: Path) -> PackageManifest:
    return package(spec, version, model_dir=model_dir, out_dir=out, image=IMAGE, **more)


def test_twice_in_different_folders_gives_the_same_bytes(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "deeper"
    shutil.copytree(model_dir, moved, copy_function=shutil.copyfile)
    first, second = build(spec, model_dir, tmp_path / "a"), build(spec, moved, tmp_path / "b" / "c")
    assert first == second
    paths = [archive_path(tmp_path / out, "toy", "1.0.0") for out in ("a", "b/c")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert manifest_path(paths[0]).read_bytes() == manifest_path(paths[1]).read_bytes()


def test_the_archive_unpacks_to_what_its_container_needs(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    build(spec, model_dir, tmp_path)
    folder = unpack(tmp_path / "toy-1.0.0.model.tar.gz", tmp_path / "opt-ml-model")
    assert folder.served == ServedModel.of(spec, version="1.0.0")
    assert folder.model.read_bytes() == (model_dir / "weights" / "1.0.0.onnx").read_bytes()
    assert sorted(path.name for path in (tmp_path / "opt-ml-model").iterdir()) == ["toy"]


def test_the_manifest_says_what_was_packed(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    manifest = build(spec, model_dir, tmp_path)
    data = (tmp_path / "toy-1.0.0.model.tar.gz").read_bytes()
    assert (manifest.archive_sha256, manifest.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert manifest.image == IMAGE
    assert manifest.thresholds == {"block": {"bad": 0.9}, "review": {}}
    weights = {entry.path: entry.sha256 for entry in manifest.files}["toy/1/model.onnx"]
    assert weights == hashlib.sha256((model_dir / "weights" / "1.0.0.onnx").read_bytes()).hexdigest()
    assert read_manifest(tmp_path / "toy-1.0.0.manifest.json") == manifest


def test_metrics_commit_and_baseline_travel_with_the_version(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    record = {"metrics": {"auc": 0.75}, "training_commit": "abc", "data_sha256": "d" * 64, "seed": 7}
    feature = {"name": "x", "edges": [0.0, 1.0], "counts": [0, 3, 0], "missing": 1}
    baseline = {"rows": 4, "features": [feature]}
    for kind, document in (("metrics", record), ("baseline", baseline)):
        (model_dir / "weights" / f"1.0.0.{kind}.json").write_bytes(orjson.dumps(document))
    version = VersionSpec(
        weights="weights/1.0.0.onnx", metrics="weights/1.0.0.metrics.json", baseline="weights/1.0.0.baseline.json"
    )
    manifest = build(replace(spec, versions={"1.0.0": version}), model_dir, tmp_path)
    assert (manifest.metrics, manifest.training_commit, manifest.data_sha256) == ({"auc": 0.75}, "abc", "d" * 64)
    assert orjson.loads(orjson.dumps(manifest.baseline)) == baseline


def test_other_weights_take_their_own_metrics_and_never_those_of_the_spec(
    spec: ModelSpec, model_dir: Path, tmp_path: Path, make_network: Network
) -> None:
    mine = tmp_path / "mine.onnx"
    network = make_network()
    network.producer_name = "team"
    mine.write_bytes(network.SerializeToString())
    manifest = build(spec, model_dir, tmp_path, "7.1.0", weights=mine)
    assert (manifest.version, manifest.metrics) == ("7.1.0", {})
    (tmp_path / "mine.metrics.json").write_bytes(orjson.dumps({"metrics": {"auc": 0.5}}))
    assert build(spec, model_dir, tmp_path, "7.1.0", weights=mine).metrics == {"auc": 0.5}
    with pytest.raises(PackagingError, match="semantic version"):
        build(spec, model_dir, tmp_path, "latest", weights=mine)


def test_an_unknown_version_names_those_there_are(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(PackagingError, match=r"allowed 1\.0\.0, 10\.0\.0"):
        build(spec, model_dir, tmp_path, "2.0.0")


def test_every_mismatch_between_spec_and_graph_is_told_at_once(
    spec: ModelSpec, model_dir: Path, tmp_path: Path, make_network: Network
) -> None:
    (model_dir / "weights" / "1.0.0.onnx").write_bytes(
        make_network(elem=TensorProto.DOUBLE, batch=4, out="score").SerializeToString()
    )
    with pytest.raises(PackagingError) as caught:
        build(spec, model_dir, tmp_path / "out")
    text = str(caught.value)
    assert "input 'x': dtype: model.toml says FP32, the graph FP64" in text
    assert "input 'x': shape: model.toml needs [-1, 2] with the batch first, the graph has [4, 2]" in text
    assert "output 'score': the graph has it, model.toml does not" in text
    assert "output 'y': model.toml has it, the graph does not (it has score)" in text
    assert not (tmp_path / "out").exists()


def test_a_graph_too_new_for_the_container_is_refused(
    spec: ModelSpec, model_dir: Path, tmp_path: Path, make_network: Network
) -> None:
    (model_dir / "weights" / "1.0.0.onnx").write_bytes(make_network(ir=11, opset=22).SerializeToString())
    with pytest.raises(PackagingError, match=r"ir_version: got 11(.|\n)*opset: got 22"):
        build(spec, model_dir, tmp_path)


def test_a_graph_the_checker_refuses_is_refused(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", 2), ("y", 1))]
    graph = helper.make_graph([helper.make_node("NoSuchOperator", ["x"], ["y"])], "toy", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (model_dir / "weights" / "1.0.0.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(PackagingError, match=r"onnx\.checker"):
        build(spec, model_dir, tmp_path)


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x80\x04pickle"])
def test_bytes_that_are_no_model_are_refused(spec: ModelSpec, model_dir: Path, tmp_path: Path, data: bytes) -> None:
    (model_dir / "weights" / "1.0.0.onnx").write_bytes(data)
    with pytest.raises(PackagingError, match=r"1\.0\.0\.onnx"):
        build(spec, model_dir, tmp_path)


def test_an_answer_outside_its_range_is_refused(spec: ModelSpec, model_dir: Path, tmp_path: Path) -> None:
    narrow = TensorSpec(name="y", dtype=DType.FP32, shape=(1,), range=(0.4, 0.6))
    with pytest.raises(PackagingError, match=r"output 'y': got values from 0\.\d+ to 0\.\d+; allowed 0\.4 to 0\.6"):
        build(replace(spec, outputs=(narrow,)), model_dir, tmp_path)


def test_a_sample_that_is_no_request_of_the_model_is_refused(
    spec: ModelSpec, model_dir: Path, tmp_path: Path, make_sample: Callable[..., bytes]
) -> None:
    path = model_dir / "samples" / "request.json"
    path.write_bytes(make_sample([1.0, 2.0], name="other"))
    with pytest.raises(PackagingError, match=r"samples/request\.json"):
        build(spec, model_dir, tmp_path)
    path.unlink()
    with pytest.raises(PackagingError, match=r"request\.json"):
        build(spec, model_dir, tmp_path)


def test_a_lock_names_digests_from_oldest_to_newest_and_keeps_what_it_should(
    spec: ModelSpec, model_dir: Path, tmp_path: Path
) -> None:
    old = build(spec, model_dir, tmp_path)
    new = build(spec, model_dir, tmp_path, "10.0.0")
    write_lock(model_dir, [new], keep={"9.0.0": LockedVersion(sha256="f" * 64, size_bytes=3)})
    write_lock(model_dir, [old], keep=read_lock(model_dir))
    assert list(read_lock(model_dir)) == ["1.0.0", "9.0.0", "10.0.0"]
    assert read_lock(model_dir)["1.0.0"] == LockedVersion(sha256=old.archive_sha256, size_bytes=old.size_bytes)


@pytest.mark.parametrize("place", ["initializer", "node"])
def test_weights_in_files_beside_the_graph_are_refused(
    spec: ModelSpec, model_dir: Path, tmp_path: Path, make_network: Network, place: str
) -> None:
    network = make_network()
    tensor = network.graph.initializer[0]
    if place == "node":
        node = helper.make_node("Constant", [], ["unused"], value=tensor)
        network.graph.node.insert(0, node)
        tensor = network.graph.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    (model_dir / "weights" / "1.0.0.onnx").write_bytes(network.SerializeToString())
    with pytest.raises(PackagingError, match="weights in files beside it"):
        build(spec, model_dir, tmp_path)
