"""What a second deploy must leave alone, in every mode: each claim is one of the template (docs/hosting.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cdk_nag
import pytest

SLUG = "sample-scorer"
REALTIME = """
instance_type = "ml.g4dn.xlarge"
[hosting.scaling]
target_concurrency = 4
[hosting.batch]
max_count = 2
[hosting.batch.scaling]
target_backlog = 7
[hosting.batch.asynchronous]
notify = true
"""
BESIDE = '[models.sample_scorer.batch]\n[models.sample_scorer.shadow]\nversion = "2.0.0"'
QUEUE = """
mode = "async"
instance_type = "ml.g4dn.xlarge"
min_count = 0
[hosting.scaling]
target_backlog = 5
[hosting.deployment]
strategy = "all-at-once"
"""
FLEET = """
mode = "components"
instance_type = "ml.g5.12xlarge"
min_count = 0
[hosting.component]
accelerators = 2
memory_mib = 65536
min_copies = 0
[hosting.scaling]
target_concurrency = 16
[hosting.deployment]
strategy = "rolling"
"""
VLLM = '[runtime]\nkind = "vllm"\ntensor_parallel = 2\nlayout = "prefix"'
TRITON = '[runtime]\nkind = "triton"\ndevice = "gpu"'
KEY = 'encryption = "customer-key"'

MODES = {
    "realtime": {"hosting": REALTIME, "runtime": TRITON, "entry": BESIDE, "stage": KEY},
    "async": {"hosting": QUEUE, "runtime": TRITON, "stage": KEY},
    "components": {"hosting": FLEET, "runtime": VLLM, "stage": KEY},
}
# What a version is in a template, and what has to be new with it (CloudFormation: all its properties are create-only).
HOLDS_A_VERSION = {"AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::InferenceComponent"}
NAMED = {
    "AWS::SageMaker::Endpoint": "EndpointName",
    "AWS::SageMaker::InferenceComponent": "InferenceComponentName",
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "PolicyName",
    "AWS::ApplicationAutoScaling::ScalableTarget": "ResourceId",
    "AWS::SNS::Topic": "TopicName",
}


@pytest.fixture(params=sorted(MODES), name="mode")
def mode_fixture(request: pytest.FixtureRequest) -> Mapping[str, str]:
    found: Mapping[str, str] = MODES[request.param]
    return found


def references(template: Any, function: str) -> Iterator[Any]:
    """Give every argument of an intrinsic function in a template."""
    if isinstance(template, dict):
        if set(template) == {function}:
            yield template[function]
        for value in template.values():
            yield from references(value, function)
    elif isinstance(template, list):
        for value in template:
            yield from references(value, function)


def read_outputs(templates: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Give (stack part, output) of everything that one stack reads of another."""
    found = [one for template in templates.values() for one in references(template, "Fn::GetStackOutput")]
    return {(one["StackName"].split("-", 2)[2], one["OutputName"]) for one in found}


def test_weights_and_counts_are_kept_and_nothing_is_left_out_of_that(host: Any, mode: Any) -> None:
    for endpoint in host(**mode).all("AWS::SageMaker::Endpoint", SLUG):
        assert endpoint.props["RetainAllVariantProperties"] is True
        assert "ExcludeRetainedVariantProperties" not in endpoint.props
        assert "RetainDeploymentConfig" not in endpoint.props, "the template's own policy holds"


def test_another_version_changes_what_holds_it_and_nothing_else(host: Any, mode: Any) -> None:
    before, after = host(**mode).templates[SLUG]["Resources"], host(**mode, b="2.0.0").templates[SLUG]["Resources"]
    assert before.keys() == after.keys(), "no resource comes, goes or gets another logical id"
    changed = {before[key]["Type"] for key in before if before[key] != after[key]}
    assert changed <= HOLDS_A_VERSION


def test_another_version_changes_no_name_and_no_variant(host: Any, mode: Any) -> None:
    def names(stage: Any) -> list[Any]:
        resources = [one for one in stage.everything(SLUG) if one.entry["Type"] in NAMED]
        return [(one.id, one.props[NAMED[one.entry["Type"]]]) for one in resources]

    def variants(stage: Any) -> list[Any]:
        lists = ("ProductionVariants", "ShadowProductionVariants")
        configs = [one.props for one in stage.all("AWS::SageMaker::EndpointConfig", SLUG)]
        return [
            (one["VariantName"], one["InstanceType"], one["InitialInstanceCount"], one["InitialVariantWeight"])
            if "InitialVariantWeight" in one
            else (one["VariantName"], one["InstanceType"])
            for config in configs
            for key in lists
            for one in config.get(key, [])
        ]

    before, after = host(**mode), host(**mode, b="2.0.0")
    assert names(before) == names(after)
    assert variants(before) == variants(after)


def test_what_is_replaced_by_a_change_has_no_name(host: Any, mode: Any) -> None:
    made = host(**mode)
    for kind, key in (("AWS::SageMaker::Model", "ModelName"), ("AWS::SageMaker::EndpointConfig", "EndpointConfigName")):
        assert not [one.id for one in made.all(kind, SLUG) if key in one.props]


def test_a_model_stack_gives_no_other_stack_anything(host: Any, mode: Any) -> None:
    """So it can be changed, renamed and removed by itself."""
    assert SLUG not in {part for part, _ in read_outputs(host(**mode).templates)}


def test_no_stack_can_hold_another_ones_output_fast(host: Any, mode: Any) -> None:
    """An export that is imported cannot be deleted (CloudFormation guide): a deploy that drops one stands still."""
    for template in host(**mode).templates.values():
        assert not list(references(template, "Fn::ImportValue"))
        assert not [name for name, output in template.get("Outputs", {}).items() if "Export" in output]


def test_what_a_stack_reads_of_another_is_there(host: Any, mode: Any) -> None:
    templates = host(**mode).templates
    read = read_outputs(templates)
    assert read
    assert not [(part, name) for part, name in read if name not in templates[part].get("Outputs", {})]


def test_a_stage_without_any_one_of_its_models_still_finds_all_it_reads(project: Any, synthesise: Any) -> None:
    stage = project.stages["prod"]
    for name in stage.models:
        models = {other: entry for other, entry in stage.models.items() if other != name}
        fewer = replace(project, stages={**project.stages, "prod": replace(stage, models=models)})
        templates = synthesise(fewer, "prod").templates
        assert project.models[name].slug not in templates
        missing = [
            (part, output)
            for part, output in read_outputs(templates)
            if output not in templates.get(part, {}).get("Outputs", {})
        ]
        assert not missing, name


def test_no_finding_of_cdk_nag_is_left_open(host: Any, mode: Any, synthesise: Any) -> None:
    made = host(**mode)
    synthesise(made.project, "lab", cdk_nag.AwsSolutionsChecks())


def test_cfn_lint_finds_nothing_in_slots_with_a_queue_and_a_shadow_beside_them(host: Any) -> None:
    """The other modes are in prod, whose templates are linted with the rest of the stage."""
    file = host(**MODES["realtime"]).folder / f"streamhub-lab-{SLUG}.template.json"
    # CDK's habit: a DependsOn that a reference implies already
    command = [str(Path(sys.executable).parent / "cfn-lint"), "-i", "W3005", "--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_same_files_give_the_same_templates(host: Any, mode: Any, synthesise: Any) -> None:
    made = host(**mode)
    again = synthesise(made.project, "lab")
    assert json.dumps(again.templates, sort_keys=True) == json.dumps(made.templates, sort_keys=True)
