"""Packages that are no Triton archive: PyTorch scripts, uncompressed prefixes, LMI; and what each container is told."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.build import package, package_path
from model_packaging.manifest_file import manifest_path, read_manifest
from model_packaging.verify import verify
from serving.errors import PackagingError
from serving.protocol.archive import unpack
from serving.spec.container import environment_of
from serving.spec.model import ModelSpec
from serving.spec.runtime import PyTorchRuntime, TritonRuntime, VllmRuntime

HANDLERS = "def model_fn(model_dir): ...\ndef input_fn(body, content_type, context): ...\n"
HASH = "--hash=sha256:" + "0" * 64


@pytest.fixture(name="script")
def script_fixture(tmp_path: Path) -> Path:
    folder = tmp_path / "script"
    (folder / "code").mkdir(parents=True)
    (folder / "code/inference.py").write_text(HANDLERS)
    (folder / "weights.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    return folder


def packaged(spec: ModelSpec, weights: Path, out: Path) -> Path:
    package(spec, "1.0.0", model_dir=out / "none", out_dir=out, image="image:1", weights=weights)
    return package_path(out, spec, "1.0.0")


@pytest.fixture(name="script_spec")
def script_spec_fixture(spec: ModelSpec) -> ModelSpec:
    return replace(spec, runtime=PyTorchRuntime(device="cpu"))


def test_a_script_with_its_weights_is_packaged_and_verified(
    script: Path, script_spec: ModelSpec, tmp_path: Path
) -> None:
    (script / "code/requirements.txt").write_text(f"# pinned\nnumpy==2.4.0 \\\n    {HASH}\n")
    found = verify(packaged(script_spec, script, tmp_path / "out"))
    assert found.findings == ()
    assert {entry.path for entry in found.files} == {
        "streamhub.json",
        "code/inference.py",
        "code/requirements.txt",
        "weights.safetensors",
    }


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def predict_fn(data, model): ...\n", "no model_fn"),
        (HANDLERS + "def transform_fn(m, d, c, a): ...\n", "transform_fn beside input_fn"),
        (HANDLERS + "def predict_fn(data): ...\n", "predict_fn: got 1 to 1 arguments; allowed 2"),
        ("def model_fn(:\n", "line 1"),
    ],
)
def test_handlers_that_the_container_could_not_call_are_refused_without_running_them(
    script: Path, script_spec: ModelSpec, tmp_path: Path, *, source: str, words: str
) -> None:
    (script / "code/inference.py").write_text(
        "raise SystemExit('imported')\n" + source if "(:" not in source else source
    )
    with pytest.raises(PackagingError, match=words):
        packaged(script_spec, script, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("helper.py", "allowed it below code/"),
        ("lib/helper.py", "allowed it below code/"),
        ("code/helper.pyc", "compiled or packed Python"),
        ("code/lib/more.whl", "compiled or packed Python"),
    ],
)
def test_python_is_source_and_below_code(
    script: Path, script_spec: ModelSpec, tmp_path: Path, *, name: str, words: str
) -> None:
    (script / name).parent.mkdir(exist_ok=True)
    (script / name).write_text("")
    with pytest.raises(PackagingError, match=f"{name}: .*{words}"):
        packaged(script_spec, script, tmp_path / "out")


@pytest.mark.parametrize("source", ["-" * 100_000 + "1", "x = " + "(" * 50_000, "a" + ".b" * 50_000, "\0", "\xff"])
def test_source_that_python_cannot_read_is_a_finding(
    script: Path, script_spec: ModelSpec, tmp_path: Path, source: str
) -> None:
    (script / "code/inference.py").write_bytes(source.encode("latin-1"))
    with pytest.raises(PackagingError, match=r"code/inference\.py"):
        packaged(script_spec, script, tmp_path / "out")


@pytest.mark.parametrize(
    "line",
    ["numpy", "numpy>=2", "numpy==2.*", "numpy==2.4.0", "--index-url https://example.org", f"-r more.txt {HASH}"],
)
def test_requirements_without_release_and_digest_are_refused(
    script: Path, script_spec: ModelSpec, tmp_path: Path, line: str
) -> None:
    (script / "code/requirements.txt").write_text(line + "\n")
    with pytest.raises(PackagingError, match=r"requirements\.txt: got"):
        packaged(script_spec, script, tmp_path / "out")


def test_pickled_weights_are_refused(script: Path, script_spec: ModelSpec, tmp_path: Path) -> None:
    (script / "model.pt").write_bytes(b"\x80\x04cposix\nsystem\n.")
    with pytest.raises(PackagingError, match=r"model\.pt"):
        packaged(script_spec, script, tmp_path / "out")


def test_a_prefix_is_the_files_as_they_are_under_the_digest_of_their_list(
    hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path
) -> None:
    spec = replace(hf_spec, runtime=VllmRuntime(layout="prefix"))
    folders = [packaged(spec, hf_folder, tmp_path / out) for out in ("one", "two", "two")]
    assert folders[0].name == "toy-1.0.0.model"
    manifests = [read_manifest(manifest_path(folder)) for folder in folders]
    assert manifests[0] == manifests[1]
    assert manifests[0].layout == "prefix"
    lines = []
    for path in sorted(path for path in folders[0].rglob("*") if path.is_file()):
        name = path.relative_to(folders[0]).as_posix()
        lines.append((name, f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.stat().st_size}  {name}\n"))
    whole = "".join(line for _, line in sorted(lines))
    assert manifests[0].archive_sha256 == hashlib.sha256(whole.encode()).hexdigest()
    assert (folders[0] / "model.safetensors").read_bytes() == (hf_folder / "model.safetensors").read_bytes()


def test_a_link_is_refused_in_a_prefix_as_in_an_archive(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path) -> None:
    (hf_folder / "extra.json").symlink_to(hf_folder / "config.json")
    spec = replace(hf_spec, runtime=VllmRuntime(layout="prefix"))
    with pytest.raises(PackagingError, match=r"extra\.json"):
        packaged(spec, hf_folder, tmp_path / "out")
    assert not (tmp_path / "out/toy-1.0.0.model").exists()


def test_lmi_reads_its_options_beside_the_weights(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path) -> None:
    spec = replace(hf_spec, runtime=VllmRuntime(container="lmi", layout="prefix", tensor_parallel=4, max_num_seqs=8))
    text = (packaged(spec, hf_folder, tmp_path / "out") / "serving.properties").read_text()
    options = dict(line.split("=", 1) for line in text.splitlines())
    assert options["engine"] == "Python"
    assert (options["option.tensor_parallel_degree"], options["option.max_rolling_batch_size"]) == ("4", "8")
    assert environment_of(spec) == {}


def test_every_key_of_vllm_reaches_its_container(hf_spec: ModelSpec) -> None:
    runtime = VllmRuntime(
        tensor_parallel=2, max_model_len=8192, gpu_memory_utilization=0.85, max_num_seqs=64, dtype="bfloat16"
    )
    told = environment_of(replace(hf_spec, runtime=runtime))
    flags = {key.removeprefix("SM_VLLM_"): value for key, value in told.items() if key.startswith("SM_VLLM_")}
    assert flags == {
        "MODEL": "/opt/ml/model",
        "TENSOR_PARALLEL_SIZE": "2",
        "MAX_MODEL_LEN": "8192",
        "GPU_MEMORY_UTILIZATION": "0.85",
        "MAX_NUM_SEQS": "64",
        "DTYPE": "bfloat16",
    }


def test_triton_is_told_which_folder_is_the_model_and_pytorch_which_script(spec: ModelSpec) -> None:
    triton = environment_of(replace(spec, runtime=TritonRuntime(device="cpu", backend="ensemble")))
    assert triton["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"] == "toy"
    pytorch = environment_of(replace(spec, runtime=PyTorchRuntime(device="cpu", workers=3, max_batch_size=4)))
    assert pytorch["SAGEMAKER_PROGRAM"] == "inference.py"
    assert (pytorch["SAGEMAKER_MODEL_SERVER_WORKERS"], pytorch["SAGEMAKER_TS_BATCH_SIZE"]) == ("3", "4")
    assert pytorch["SAGEMAKER_TS_RESPONSE_TIMEOUT"] == "1"  # 50 ms, in whole seconds


@pytest.fixture(name="prefix")
def prefix_fixture(hf_spec: ModelSpec, hf_folder: Path, tmp_path: Path) -> Path:
    runtime = VllmRuntime(tensor_parallel=1, layout="prefix", container="lmi")
    return packaged(replace(hf_spec, runtime=runtime), hf_folder, tmp_path / "out")


def test_a_prefix_is_verified_where_it_is(prefix: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in prefix.parent.rglob("*")}
    found = verify(prefix)
    assert found.findings == ()
    assert found.served is not None
    assert found.manifest == manifest_path(prefix)
    assert (found.sha256, found.size_bytes) == (
        read_manifest(manifest_path(prefix)).archive_sha256,
        sum(path.stat().st_size for path in prefix.rglob("*") if path.is_file()),
    )
    assert {path: path.stat().st_mtime_ns for path in prefix.parent.rglob("*")} == before


def test_everything_that_is_wrong_with_a_prefix_is_said_at_once(prefix: Path) -> None:
    (prefix / "serving.properties").write_text("option.trust_remote_code=true\n")
    (prefix / "config.json").write_bytes(b"{")
    (prefix / "NOTICE").symlink_to("/etc/hostname")
    (prefix / "weights.bin").write_bytes(b"\x80\x02cposix\nsystem\n.")
    text = "\n".join(verify(prefix).findings)
    for words in (
        "serving.properties: got other options",
        "config.json: got no JSON",
        "NOTICE: got a link",
        "weights.bin: got a pickle: GLOBAL posix.system",
        "weights.bin: got a file that may hold code",
        "sha256: got",
    ):
        assert words in text, words


def test_an_archive_with_a_layout_of_its_own_is_no_prefix(script: Path, script_spec: ModelSpec, tmp_path: Path) -> None:
    folder = tmp_path / "toy-1.0.0.model"
    unpack(packaged(script_spec, script, tmp_path / "out"), folder)
    assert any("allowed layout = 'prefix'" in finding for finding in verify(folder).findings)
