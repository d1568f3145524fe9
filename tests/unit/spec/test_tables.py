"""The committed tables are what their scripts write, and agree with sources that the scripts do not read."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from scripts import image_table, instance_table
from serving.spec import ImageOverride, StageSpec
from serving.spec.images import AMI_CUDA_MAJOR, by_digest, chosen_tag, image_in, needs_gpu, tagged
from serving.spec.images import image_table as committed
from serving.spec.instances import has_local_nvme, hosting_regions, instance_types, nearest
from serving.spec.load import load_project
from serving.spec.rules.images import image_findings

DIGEST = "sha256:" + "5" * 64

needs_sdk = pytest.mark.skipif(image_table.wheel() is None, reason="python -m scripts.image_table --fetch")


def test_the_instance_table_is_what_the_script_writes() -> None:
    assert instance_table.TABLE.read_bytes() == instance_table.render(instance_table.rows())


@needs_sdk
def test_the_image_table_is_what_the_script_writes_from_the_sagemaker_sdk() -> None:
    assert image_table.TABLE.read_bytes() == image_table.render(image_table.table(image_table.fetch()))


@needs_sdk
def test_gpus_are_those_of_the_sagemaker_sdk() -> None:
    with zipfile.ZipFile(image_table.fetch()) as sdk:
        regions = orjson.loads(sdk.read("sagemaker/core/image_uri_config/instance_gpu_info.json"))
    stated = {
        name: (row["Count"], row["TotalGpuMemoryInMiB"]) for table in regions.values() for name, row in table.items()
    }
    ours = {name: (found.gpus, found.gpus * found.gpu_memory_mib) for name, found in instance_types().items()}
    both = stated.keys() & ours.keys()
    assert len(both) > 20
    wrong = {name: (stated[name], ours[name]) for name in both if stated[name][0] != ours[name][0]}
    assert wrong == {}


def test_no_type_has_two_a100() -> None:
    assert {found.gpus for found in instance_types().values() if found.gpu == "A100"} == {8}


@pytest.mark.parametrize(
    ("name", "vcpus", "gib", "gpus", "nvme_gb"),
    [
        # EC2 instance type pages of G4, G5, G6, P4, P5, C6i and C7i
        ("ml.g4dn.xlarge", 4, 16, 1, 125),
        ("ml.g4dn.12xlarge", 48, 192, 4, 900),
        ("ml.g5.48xlarge", 192, 768, 8, 7600),
        ("ml.g6.12xlarge", 48, 192, 4, 3760),
        ("ml.p4d.24xlarge", 96, 1152, 8, 8000),
        ("ml.p5.4xlarge", 16, 256, 1, 3800),
        ("ml.c6i.large", 2, 4, 0, 0),
        ("ml.c7i.2xlarge", 8, 16, 0, 0),
    ],
)
def test_a_type_is_what_its_page_says(name: str, vcpus: int, gib: int, gpus: int, nvme_gb: int) -> None:
    found = instance_types()[name]
    assert (found.vcpus, found.memory_mib, found.gpus, found.nvme_gb) == (vcpus, gib * 1024, gpus, nvme_gb)
    assert found.has_local_nvme is has_local_nvme(name) is (nvme_gb > 0)


def test_a_d_after_the_generation_means_disks_and_a_g_means_graviton() -> None:
    # EC2 guide, *Instance type naming conventions*
    for name, found in instance_types().items():
        family = name.split(".")[1].split("-")[0]
        attributes = family.lstrip("abcdefghijklmnopqrstuvwxyz").lstrip("0123456789")
        assert found.has_local_nvme or "d" not in attributes, name
        assert found.arm is ("g" in attributes), name


def test_a_mistyped_type_is_answered_with_those_like_it() -> None:
    assert "ml.g4dn.xlarge" in nearest("ml.g4dn.xlrge")
    assert nearest("c6i.large")[0] == "ml.c6i.large"


def test_every_image_has_an_account_in_each_of_its_regions_and_a_host_image_for_its_cuda() -> None:
    table = committed()
    for key, family in table.images.items():
        for row in family.tags:
            assert set(row.regions) <= table.registries.keys() <= hosting_regions()
            image = tagged(key, row, region=row.regions[0])
            assert (image.ami is None) is (row.cuda_major is None) is not needs_gpu(key)
            assert image.ami is None or AMI_CUDA_MAJOR[image.ami] >= (row.cuda_major or 0)


@pytest.fixture(name="stage")
def stage_fixture(root: Path) -> StageSpec:
    return load_project(root).stages["dev"]


def test_a_tag_of_a_stage_stands_in_for_the_newest(stage: StageSpec) -> None:
    newest = chosen_tag("triton-gpu", stage)
    older = chosen_tag("triton-gpu", replace(stage, image_tags={"triton-gpu": "25.04-py3"}))
    assert newest is not None
    assert older is not None
    assert (newest.tag, older.tag, older.cuda_major) == ("26.05-py3", "25.04-py3", 12)
    # CUDA 12 runs on the driver of the older host image, CUDA 13 does not
    assert tagged("triton-gpu", older, region="us-east-1").ami == "al2-ami-sagemaker-inference-gpu-3-1"


def test_an_image_by_digest_keeps_its_account_and_takes_its_host_image(stage: StageSpec) -> None:
    uri = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/team/triton@{DIGEST}"
    own = ImageOverride(uri=uri, ami="al2023-ami-sagemaker-inference-gpu-4-1")
    assert list(image_findings(replace(stage, images={"triton-gpu": own}), keys={"triton-gpu"})) == []
    image = image_in("triton-gpu", replace(stage, images={"triton-gpu": own}))
    assert image is not None
    assert (image.uri, image.ami) == (uri, own.ami)
    assert image.repository_arn == "arn:aws:ecr:us-east-1:123456789012:repository/team/triton"


@pytest.mark.parametrize(
    "wrong", ["nginx", "123456789012.dkr.ecr.us-east-1.amazonaws.com/x", f"x@{DIGEST}", f"docker.io/x@{DIGEST}", ""]
)
def test_what_is_no_registry_of_ecr_is_no_image_by_digest(wrong: str) -> None:
    assert by_digest(wrong, ami=None) is None
