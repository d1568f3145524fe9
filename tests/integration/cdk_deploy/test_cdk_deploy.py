"""The dev stage by the real CDK CLI into the local AWS: deployed, changed by hand, deployed again, destroyed.

What is claimed of the template would hold on AWS as far as AWS does what its documentation says; what is claimed of
the emulator shows that the templates resolve, order, update and delete, and that the same boto3 calls are accepted.
"""

from __future__ import annotations

import re

import pytest

from tests.integration.cdk_deploy.conftest import AUTOSCALED_A, Story
from tests.integration.cdk_deploy.story import ENDPOINTS, MODERATOR, RANKER, SCORER

pytestmark = pytest.mark.timeout(1200)  # the whole story runs in the setup of whichever test comes first
UNVERIFIED_HERE = ["image", "permission", "quota"]
PARTS = ("registry", "network", "features", "api", "release", "monitoring")


def test_before_anything_is_there_preflight_names_bootstrap_and_archives(story: Story) -> None:
    assert story.empty.code == 1
    assert story.empty.of("error") == ["archive", "bootstrap"]
    assert all("registry's stack first" in line for line in story.empty.lines("archive"))


def test_what_the_local_aws_cannot_answer_is_said_before_every_deploy(story: Story) -> None:
    for ran in (story.empty, story.before_first, story.before_second, story.before_third):
        assert ran.of("unverified") == UNVERIFIED_HERE


def test_once_registry_and_archives_are_there_the_first_deploy_is_cleared(story: Story) -> None:
    assert (story.before_first.code, story.before_first.of("error")) == (0, [])


def test_the_first_deploy_completes_every_stack(story: Story) -> None:
    named = {name for name in story.first.stacks if name.startswith("streamhub-")}
    assert named == {f"streamhub-dev-{part}" for part in PARTS} | set(ENDPOINTS)
    assert {story.first.stacks[name] for name in named} == {"CREATE_COMPLETE"}


def test_boto3_reads_back_endpoints_slots_and_first_weights(story: Story) -> None:
    assert set(story.first.endpoints) == set(ENDPOINTS)
    for endpoint in ENDPOINTS:
        assert story.first.endpoints[endpoint]["EndpointStatus"] == "InService"
        assert story.first.variants(endpoint) == {"a": (1.0, 1), "b": (0.0, 1)}


def test_boto3_reads_back_targets_policies_alarms_and_cache(story: Story) -> None:
    planned = {target.resource: (target.minimum, target.maximum) for target in story.first_templates.targets}
    assert len(planned) == 2 * len(ENDPOINTS)
    assert story.first.targets == planned
    assert {policy["ResourceId"] for policy in story.read_back["policies"]} == set(planned)
    alarms = {name for kind, name in story.first_templates.names if kind == "AWS::CloudWatch::Alarm"}
    assert sorted(story.read_back["alarms"]) == sorted(alarms)
    [cache] = story.read_back["caches"]
    assert (cache["ServerlessCacheName"], cache["Engine"]) == ("streamhub-dev-features", "valkey")


def test_boto3_reads_back_instance_types_as_the_templates_have_them(story: Story) -> None:
    for endpoint in story.first_templates.endpoints:
        configured = story.read_back["configs"][endpoint.name]["ProductionVariants"]
        assert {variant["VariantName"]: variant["InstanceType"] for variant in configured} == {
            variant.name: variant.instance_type for variant in endpoint.variants
        }


def test_the_changes_by_hand_took(story: Story) -> None:
    assert story.by_hand.variants(RANKER) == {"a": (5.0, 2), "b": (0.0, 1)}
    assert story.by_hand.variants(MODERATOR) == {"a": (3.0, 1), "b": (1.0, 1)}
    assert story.by_hand.targets[AUTOSCALED_A] == (2, 2)


def test_template_every_endpoint_retains_all_and_excludes_nothing(story: Story) -> None:
    for planned in (story.first_templates, story.second_templates):
        assert {(endpoint.retains, endpoint.excluded) for endpoint in planned.endpoints} == {(True, ())}


def test_template_the_second_deploy_changes_what_slot_b_holds_and_no_name_or_type(story: Story) -> None:
    changed = []
    for before, after in zip(story.first_templates.endpoints, story.second_templates.endpoints, strict=True):
        assert before.name == after.name
        assert before.config_id == after.config_id
        for old, new in zip(before.variants, after.variants, strict=True):
            assert (old.name, old.instance_type, old.count) == (new.name, new.instance_type, new.count)
            changed += [(after.name, new.name)] if old.archive != new.archive else []
    assert changed == [(RANKER, "b")]
    assert story.first_templates.targets == story.second_templates.targets


def test_preflight_clears_a_new_version_in_the_idle_slot(story: Story) -> None:
    assert (story.before_second.code, story.before_second.of("error"), story.before_second.of("warning")) == (0, [], [])


def test_preflight_refuses_a_new_version_in_the_busy_slot(story: Story) -> None:
    assert story.busy_swapped.code == 1
    [line] = story.busy_swapped.lines("slot")
    assert f"{RANKER} slot a" in line
    assert "recommendation_ranker 3.0.0 in place of recommendation_ranker 2.0.0" in line
    assert "weight 5" in line


def test_preflight_refuses_another_instance_type_of_autoscaled_slots_and_spells_out_two_deploys(story: Story) -> None:
    assert story.resize.before_refused.code == 1
    lines = story.resize.before_refused.lines("instance type")
    assert len(lines) == 2
    for line in lines:
        assert "ml.c6i.xlarge in place of ml.c6i.large" in line
        assert re.search(r"\(1\).*autoscaling = false.*\(2\)", line)


def test_emulator_the_second_deploy_keeps_weights_counts_and_the_raised_minimum(story: Story) -> None:
    for endpoint in ENDPOINTS:
        assert story.second.variants(endpoint) == story.by_hand.variants(endpoint)
    assert story.second.targets == story.by_hand.targets


def test_emulator_the_second_deploy_updates_the_ranker_alone_and_with_the_flag(story: Story) -> None:
    assert story.second.config(RANKER) != story.by_hand.config(RANKER)
    for endpoint in (MODERATOR, SCORER):
        assert story.second.config(endpoint) == story.by_hand.config(endpoint)
    [call] = story.second.update_calls[len(story.by_hand.update_calls) :]
    assert f'"EndpointName":"{RANKER}"' in call
    assert '"RetainAllVariantProperties":true' in call
    assert "ExcludeRetainedVariantProperties" not in call


def test_a_third_deploy_without_a_change_does_nothing(story: Story) -> None:
    assert (story.before_third.code, story.before_third.of("error"), story.before_third.of("warning")) == (0, [], [])
    unchanged = re.findall(r"✅ +(streamhub-\S+) \(no changes\)", story.third_log)
    assert sorted(unchanged) == sorted(name for name in story.second.stacks if name.startswith("streamhub-"))
    assert story.third.update_calls == story.second.update_calls
    assert story.third == story.second


def test_emulator_another_type_of_a_scaled_slot_is_refused_and_rolled_back(story: Story) -> None:
    resize = story.resize
    assert resize.before_refused.of("error") == ["instance type"]
    assert "is registered as a scalable target" in resize.refused
    assert resize.after_refused.stacks[RANKER] == "UPDATE_ROLLBACK_COMPLETE"
    assert resize.after_refused.types == story.third.types


def test_emulator_the_first_of_two_deploys_takes_the_targets_away_and_touches_no_endpoint(story: Story) -> None:
    resize = story.resize
    # the rolled back update is told once more, and hinders nothing
    assert (resize.before_one.code, resize.before_one.of("warning")) == (0, ["stack"])
    gone = {resource for resource in story.third.targets if f"/{RANKER}/" in resource}
    assert set(resize.one.targets) == set(story.third.targets) - gone
    assert resize.one.endpoints[RANKER]["ProductionVariants"] == story.third.endpoints[RANKER]["ProductionVariants"]


def test_emulator_the_second_changes_the_type_keeps_weights_and_counts_and_scales_again(story: Story) -> None:
    resize = story.resize
    assert (resize.before_two.code, resize.before_two.of("warning")) == (0, ["instance type"])
    assert resize.two.types[RANKER] == {"a": "ml.c6i.xlarge", "b": "ml.c6i.xlarge"}
    assert resize.two.variants(RANKER) == story.third.variants(RANKER)
    assert set(resize.two.targets) == set(story.third.targets)


def test_destroy_leaves_nothing(story: Story) -> None:
    assert list(story.left) == []
    assert set(story.stacks_left) == {"CDKToolkit"}
