"""A shadow sees what production sees, on an endpoint of its own, and answers nobody."""

from __future__ import annotations

from typing import Any

import pytest

SLUG = "sample-scorer"
NAME = "streamhub-lab-sample-scorer-shadow"
REALTIME = """
instance_type = "ml.c6i.large"
[hosting.scaling]
target_concurrency = 4
"""
ENTRY = """
[models.sample_scorer.shadow]
version = "2.0.0"
sampling_percent = 40
count = 2
"""


@pytest.fixture(scope="module", name="shadowed")
def shadowed_fixture(host: Any) -> Any:
    cpu = '[runtime]\nkind = "triton"\ndevice = "cpu"'
    return host(REALTIME, entry=ENTRY, runtime=cpu, stage='encryption = "customer-key"')


def config(stage: Any) -> Any:
    (found,) = (
        one.props
        for one in stage.all("AWS::SageMaker::EndpointConfig", SLUG)
        if "ShadowProductionVariants" in one.props
    )
    return found


def test_there_is_one_production_and_one_shadow_variant(shadowed: Any) -> None:
    # API reference, CreateEndpointConfig: with a shadow, one of each and no more
    found = config(shadowed)
    assert [one["VariantName"] for one in found["ProductionVariants"]] == ["production"]
    assert [one["VariantName"] for one in found["ShadowProductionVariants"]] == ["shadow"]


def test_the_shadows_share_is_its_weight_over_productions(shadowed: Any) -> None:
    found = config(shadowed)
    weights = [found[kind][0]["InitialVariantWeight"] for kind in ("ProductionVariants", "ShadowProductionVariants")]
    assert weights == [1, 0.4]


def test_production_is_slot_as_version_and_the_shadow_its_own(shadowed: Any) -> None:
    found = config(shadowed)
    resources = shadowed.templates[SLUG]["Resources"]

    def digest(kind: str) -> str:
        model = resources[found[kind][0]["ModelName"]["Fn::GetAtt"][0]]
        key: str = model["Properties"]["PrimaryContainer"]["ModelDataUrl"]["Fn::Join"][1][-1]
        return key.split("/")[-2]

    locks = shadowed.project.locks["sample_scorer"]
    assert digest("ProductionVariants") == locks["1.0.0"].sha256
    assert digest("ShadowProductionVariants") == locks["2.0.0"].sha256


def test_everything_is_captured_under_the_shadow_endpoints_name_and_its_role_may_write_there(shadowed: Any) -> None:
    assert config(shadowed)["DataCaptureConfig"]["InitialSamplingPercentage"] == 100
    assert f"/capture/{NAME}/*" in str(shadowed.all("AWS::IAM::Policy", SLUG))


def test_volumes_without_nvme_have_the_stages_key(shadowed: Any) -> None:
    assert "KmsKeyId" in config(shadowed)


def test_the_users_endpoint_has_no_shadow(shadowed: Any) -> None:
    names = {one.props["EndpointName"] for one in shadowed.all("AWS::SageMaker::Endpoint", SLUG)}
    assert names == {NAME, NAME.removesuffix("-shadow")}
    plain = [
        one
        for one in shadowed.all("AWS::SageMaker::EndpointConfig", SLUG)
        if "ShadowProductionVariants" not in one.props
    ]
    assert len(plain) == 1
    assert len(plain[0].props["ProductionVariants"]) == 2


def test_nobody_waits_for_its_update(shadowed: Any) -> None:
    (shadow,) = (
        one.props for one in shadowed.all("AWS::SageMaker::Endpoint", SLUG) if one.props["EndpointName"] == NAME
    )
    assert "DeploymentConfig" not in shadow
    assert shadow["RetainAllVariantProperties"] is True


def test_both_variants_are_held_to_the_models_promises(shadowed: Any) -> None:
    names = {one.props["AlarmName"] for one in shadowed.all("AWS::CloudWatch::Alarm", SLUG)}
    expected = {f"{NAME}-{what}-{part}" for what in ("p99", "errors", "disk") for part in ("production", "shadow")}
    assert expected <= names
