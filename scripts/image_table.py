"""Write the table of AWS Deep Learning Containers: `python -m scripts.image_table`; `--fetch` only gets the SDK.

The SageMaker Python SDK keeps accounts, regions, repositories and tags as JSON in its wheel. The wheel is fetched
without its dependencies and read as the archive it is: nothing of it is installed or run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import orjson

SDK = "sagemaker-core==2.27.0"
WHEELS = Path(sys.prefix) / "wheels"
TABLE = Path(__file__).parent.parent / "serving/spec/data/images.json"

# Versions that are offered, newest first: the first is the default. Older ones stay where a region lacks the newest.
# `server-sagemaker-cuda-v2` moves with every release and is left out: a pin must not.
_TRITON = ("26.05", "25.09", "25.04", "24.09")
_VLLM = ("2.6", "2.5", "2.4", "2.3")
_LMI = ("0.38.0", "0.36.0", "0.35.0")
_PYTORCH = ("2.6.0", "2.5.1")

# The SDK says no CUDA version of Triton and PyTorch images. Triton 25.08 was the first on CUDA 13 (NVIDIA Triton
# release notes, *Driver Requirements*), PyTorch 2.5 and 2.6 images are on 12.4, vLLM's are on 13.0 since v2 (changelogs
# of aws/deep-learning-containers).
_FIRST_TRITON_ON_CUDA_13 = (25, 8)
_CUDA_12, _CUDA_13 = 12, 13

Tag = tuple[str, int | None, Mapping[str, str]]
"""Tag, major version of CUDA (None on a CPU), region → account."""


def wheel() -> Path | None:
    """Give the fetched wheel, if there is one."""
    return next(WHEELS.glob(f"{SDK.replace('-', '_').replace('==', '-')}-*.whl"), None)


def fetch() -> Path:
    """Fetch the wheel with pip, once; a package index is needed."""
    found = wheel()
    if found is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(WHEELS), SDK]
        subprocess.run(command, check=True)  # noqa: S603 # our own interpreter and constants
        found = wheel()
    if found is None:
        raise SystemExit(f"{SDK}: pip left no wheel in {WHEELS}")
    return found


def table(sdk: Path) -> dict[str, Any]:
    """Give registries (region → account) and images (key → repository and tags) of the partition `aws`."""
    with zipfile.ZipFile(sdk) as archive:
        triton, vllm, lmi = (_config(archive, name) for name in ("sagemaker-tritonserver", "vllm-server", "djl-lmi"))
        pytorch = _config(archive, "pytorch")["inference"]
    images = {
        "triton-cpu": ("sagemaker-tritonserver", list(_triton(triton, device="cpu"))),
        "triton-gpu": ("sagemaker-tritonserver", list(_triton(triton, device="gpu"))),
        "vllm": ("vllm", list(_vllm(vllm))),
        "lmi": ("djl-inference", list(_lmi(lmi))),
        "pytorch-cpu": ("pytorch-inference", list(_pytorch(pytorch, device="cpu"))),
        "pytorch-gpu": ("pytorch-inference", list(_pytorch(pytorch, device="gpu"))),
    }
    accounts: dict[str, str] = {}
    for _, tags in images.values():
        for _, _, registries in tags:
            if clash := {r for r in registries if accounts.setdefault(r, registries[r]) != registries[r]}:
                raise SystemExit(f"the SDK names two accounts for {', '.join(sorted(clash))}")
    kept = set(_aws_regions())
    return {
        "registries": {region: accounts[region] for region in sorted(kept & accounts.keys())},
        "images": {key: _family(repository, tags, kept) for key, (repository, tags) in images.items()},
    }


def render(made: Mapping[str, Any]) -> bytes:
    """Give the committed form."""
    return orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n"


def _family(repository: str, tags: list[Tag], kept: set[str]) -> dict[str, Any]:
    rows = ({"tag": tag, "cuda_major": cuda, "regions": sorted(kept & regions.keys())} for tag, cuda, regions in tags)
    return {"repository": repository, "tags": list(rows)}


def _aws_regions() -> list[str]:
    session = botocore.session.get_session()
    regions: list[str] = session.get_available_regions("ec2", partition_name="aws")
    return regions


def _config(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    config: dict[str, Any] = orjson.loads(archive.read(f"sagemaker/core/image_uri_config/{name}.json"))
    return config


def _triton(config: Mapping[str, Any], *, device: str) -> Iterator[Tag]:
    """A GPU tag has no suffix, a CPU tag has one (SDK, image_retriever_utils.py)."""
    for version in _TRITON:
        found = config["versions"][version]
        year, month = map(int, version.split("."))
        cuda = _CUDA_13 if (year, month) >= _FIRST_TRITON_ON_CUDA_13 else _CUDA_12
        if device == "cpu":
            yield f"{found['tag_prefix']}-cpu", None, found["registries"]
        else:
            yield found["tag_prefix"], cuda, found["registries"]


def _vllm(config: Mapping[str, Any]) -> Iterator[Tag]:
    for version in _VLLM:
        found = config["versions"][version]
        yield f"{found['tag_prefix']}-{found['container_version']['gpu']}", _CUDA_13, found["registries"]


def _lmi(config: Mapping[str, Any]) -> Iterator[Tag]:
    for version in _LMI:
        found = config["versions"][version]
        tag = found["tag_prefix"]
        yield tag, int(tag.rpartition("-cu")[2][:2]), found["registries"]


def _pytorch(config: Mapping[str, Any], *, device: str) -> Iterator[Tag]:
    for version in _PYTORCH:
        found = config["versions"][version]
        python = found["py_versions"][-1]
        yield f"{version}-{device}-{python}", _CUDA_12 if device == "gpu" else None, found["registries"]


def main() -> None:
    """Fetch the SDK, and write the table unless only the SDK was asked for."""
    parser = argparse.ArgumentParser(description="Write serving/spec/data/images.json from the SageMaker Python SDK.")
    parser.add_argument("--fetch", action="store_true", help="only fetch the SDK's wheel, for the test that compares")
    arguments = parser.parse_args()
    sdk = fetch()
    if not arguments.fetch:
        TABLE.write_bytes(render(table(sdk)))


if __name__ == "__main__":
    main()
