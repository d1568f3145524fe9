"""A stage is a function of its files: same files, same templates; one line changed, one resource changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from serving.errors import ModelNotFoundError, SpecError
from serving.spec.load import load_project
from stacks.compose import build_stage

PARTS = {"registry", "network", "features", "api", "release", "monitoring"}
# types that nothing local or remote has to look up or build: no custom resources, no nested stacks
FORBIDDEN_TYPES = ("Custom::", "AWS::CloudFormation::")


def changed(before: Any, after: Any) -> dict[str, set[str]]:
    """Give the logical ids that differ, by stack part."""
    differing = {}
    for part in before.templates.keys() | after.templates.keys():
        old, new = before.templates[part]["Resources"], after.templates[part]["Resources"]
        ids = {logical_id for logical_id in old.keys() | new.keys() if old.get(logical_id) != new.get(logical_id)}
        if ids:
            differing[part] = ids
    return differing


def test_a_stage_is_one_stack_a_model_and_six_shared_ones(stage: Any) -> None:
    assert set(stage.templates) == PARTS | {model.slug for model in stage.models()}


def test_synthesised_twice_the_templates_are_the_same(dev: Any, project: Any, synthesise: Any) -> None:
    assert synthesise(project, "dev").templates == dev.templates


def test_another_version_in_b_changes_that_slots_model_and_nothing_else(
    dev: Any, synthesise: Any, with_versions: Any
) -> None:
    after = synthesise(with_versions("dev", "recommendation_ranker", b="2.0.0"), "dev")
    differing = changed(dev, after)
    assert set(differing) == {"recommendation-ranker"}
    (logical_id,) = differing["recommendation-ranker"]
    assert logical_id.startswith("VersionB")
    before = dev.templates["recommendation-ranker"]["Resources"][logical_id]["Properties"]
    now = after.templates["recommendation-ranker"]["Resources"][logical_id]["Properties"]
    assert {key for key in before if before[key] != now[key]} == {"PrimaryContainer"}


def test_another_version_in_a_leaves_b_alone(dev: Any, synthesise: Any, with_versions: Any) -> None:
    differing = changed(dev, synthesise(with_versions("dev", "recommendation_ranker", a="3.0.0"), "dev"))
    assert [len(ids) for ids in differing.values()] == [1]
    assert next(iter(differing["recommendation-ranker"])).startswith("VersionA")


def test_every_stack_has_the_stages_account_region_and_tags(stage: Any) -> None:
    manifest = json.loads((stage.folder / "manifest.json").read_text())
    stacks = [artifact for artifact in manifest["artifacts"].values() if artifact["type"] == "aws:cloudformation:stack"]
    assert {stack["environment"] for stack in stacks} == {f"aws://{stage.stage.account}/{stage.stage.region}"}
    assert all(stack["properties"]["tags"] == dict(stage.stage.tags) for stack in stacks)


def test_synth_looks_nothing_up(stage: Any) -> None:
    assert "missing" not in json.loads((stage.folder / "manifest.json").read_text())


def test_no_stack_needs_a_custom_resource_or_a_container_build(stage: Any) -> None:
    assert not [found.id for found in stage.everything() if found.entry["Type"].startswith(FORBIDDEN_TYPES)]
    for assets in stage.folder.glob("*.assets.json"):
        assert json.loads(assets.read_text())["dockerImages"] == {}


def test_outputs_that_the_local_stack_reads_are_there(dev: Any) -> None:
    expected = {
        "registry": {"RegistryBucket", "TelemetryBucket"},
        "features": {"FeatureCacheEndpoint"},
        "api": {"ApiUrl", "StateTable"},
        "release": {"ReleaseFunction", "DriftFunction"},
        "recommendation-ranker": {"EndpointName"},
    }
    for part, names in expected.items():
        assert names <= set(dev.templates[part]["Outputs"])


def test_a_stage_that_is_not_there_is_refused_naming_those_that_are(project: Any, synthesise: Any) -> None:
    with pytest.raises(ModelNotFoundError, match="dev, prod, staging"):
        synthesise(project, "production")


def test_missing_lambda_folders_name_the_command_that_builds_them(project: Any, context: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="make lambdas"):
        build_stage(App(context=dict(context)), project=project, stage_name="dev", lambda_folder=tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("log_retention_days", 8, "log_retention_days: got 8; allowed one of 1, 3, 5, 7"),
        ("image_tags", {"tensorflow": "2"}, "image_tags.tensorflow: got an unknown key"),
    ],
)
def test_what_aws_would_refuse_is_refused_at_synth(
    field: str, value: Any, said: str, project: Any, synthesise: Any
) -> None:
    stages = {**project.stages, "dev": replace(project.stages["dev"], **{field: value})}
    with pytest.raises(SpecError) as caught:
        synthesise(replace(project, stages=stages), "dev")
    assert said in str(caught.value)


def test_the_app_gives_the_same_bytes_on_any_machine_and_without_a_network(
    root: Path, tmp_path: Path, lambda_folder: Path, context: Any
) -> None:
    load_project(root)  # the committed locks, not made-up ones: what a deploy would take
    here = {name: os.environ[name] for name in ("JSII_NODE", "CDK_VALIDATION", "HOME") if name in os.environ}
    elsewhere = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "local",
        "CDK_DEFAULT_ACCOUNT": "000000000000",
        "CDK_DEFAULT_REGION": "ap-south-1",
        "STREAMHUB_FEATURES_URL": "valkey://127.0.0.1:9",
        "TZ": "Pacific/Auckland",
        "PYTHONHASHSEED": "1",
    }
    alone = _without_network()
    given = {**context, "stage": "dev", "lambdas": str(lambda_folder)}
    made = []
    app = [sys.executable, str(root / "app.py")]
    for name, extra, command, cwd in (("here", {}, app, root), ("elsewhere", elsewhere, [*alone, *app], tmp_path)):
        out = tmp_path / name
        environment = {**here, **extra, "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": json.dumps(given)}
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.append(
            {path.name: path.read_bytes() for kind in ("template", "assets") for path in out.glob(f"*.{kind}.json")}
        )
    assert made[0] == made[1]
    assert f"streamhub-dev-{next(iter(PARTS))}.template.json" in made[0]


def _without_network() -> list[str]:
    """Give what starts a command in a network namespace of its own, empty; nothing where the kernel lets nobody."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    command = [unshare, "--map-root-user", "--net"]
    done = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if done.returncode == 0 else []
