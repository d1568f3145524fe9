"""The endpoint keeps two slots (docs/adr/0001, 0002) whose names, weights and counts survive every deploy."""

from __future__ import annotations

from typing import Any

from aws_cdk.assertions import Match, Template

CONFIG = "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"
MODEL = "AWS::SageMaker::Model"
NVME_TYPES = ("ml.g4dn.xlarge", "ml.p4d.24xlarge")  # EC2: both families have instance-store disks in every size


def variants(stage: Any, slug: str) -> dict[str, Any]:
    listed = stage.of_endpoint(CONFIG, slug).props["ProductionVariants"]
    return {variant["VariantName"]: variant for variant in listed}


def test_every_endpoint_has_the_variants_a_and_b_and_no_other(stage: Any) -> None:
    for model in stage.slotted():
        listed = stage.of_endpoint(CONFIG, model.slug).props["ProductionVariants"]
        assert [variant["VariantName"] for variant in listed] == ["a", "b"]


def test_at_creation_a_takes_all_traffic_and_b_none(stage: Any) -> None:
    for model in stage.slotted():
        found = variants(stage, model.slug)
        assert (found["a"]["InitialVariantWeight"], found["b"]["InitialVariantWeight"]) == (1, 0)


def test_both_slots_start_at_the_stage_files_minimum_or_else_the_models(stage: Any) -> None:
    for model in stage.slotted():
        entry = stage.stage.models[model.name]
        least = entry.min_count if entry.min_count is not None else model.hosting.min_count
        kind = entry.instance_type if entry.instance_type is not None else model.hosting.instance_type
        for variant in variants(stage, model.slug).values():
            assert (variant["InitialInstanceCount"], variant["InstanceType"]) == (least, kind)


def test_a_redeploy_keeps_every_weight_and_count(stage: Any) -> None:
    for model in stage.slotted():
        props = stage.of_endpoint(ENDPOINT, model.slug).props
        assert props["RetainAllVariantProperties"] is True
        assert "ExcludeRetainedVariantProperties" not in props


def test_only_the_endpoint_is_named(stage: Any) -> None:
    for model in stage.slotted():
        name = stage.of_endpoint(ENDPOINT, model.slug).props["EndpointName"]
        assert name == f"streamhub-{stage.stage.name}-{model.name.replace('_', '-')}"
        assert len(name) <= 63
    assert not [found.id for found in stage.all(CONFIG) if "EndpointConfigName" in found.props]
    assert not [found.id for found in stage.all(MODEL) if "ModelName" in found.props]


def test_each_variant_names_a_model_that_the_same_stack_makes(stage: Any) -> None:
    for model in stage.slotted():
        made = {found.id for found in stage.all(MODEL, model.slug) if found.id.startswith("Version")}
        named = [variant["ModelName"]["Fn::GetAtt"] for variant in variants(stage, model.slug).values()]
        assert {target for target, _ in named} == made
        assert {attribute for _, attribute in named} == {"ModelName"}
        assert len(made) == 2


def test_a_slot_holds_the_archive_whose_digest_is_locked_for_its_version(stage: Any) -> None:
    for model in stage.slotted():
        entry = stage.stage.models[model.name]
        for slot, variant in variants(stage, model.slug).items():
            version = getattr(entry.versions, slot)
            digest = stage.project.locks[model.name][version].sha256
            target = variant["ModelName"]["Fn::GetAtt"][0]
            url = stage.templates[model.slug]["Resources"][target]["Properties"]["PrimaryContainer"]["ModelDataUrl"]
            key = f"/models/{model.name}/blobs/sha256/{digest}/model.tar.gz"
            assert url["Fn::Join"][1][-1] == key


def test_a_container_hears_of_the_stages_deadline_and_of_none_where_the_archive_decides(stage: Any) -> None:
    for model in stage.slotted():
        deadline_ms = stage.stage.models[model.name].deadline_ms
        for found in stage.all(MODEL, model.slug):
            said = found.props["PrimaryContainer"]["Environment"].get("STREAMHUB_DEADLINE_MS")
            assert said == (None if deadline_ms is None else str(int(deadline_ms)))


def test_containers_are_isolated_and_inside_the_private_network(stage: Any) -> None:
    components = {found.part for found in stage.all("AWS::SageMaker::InferenceComponent")}
    models = [found for found in stage.all(MODEL) if found.part not in components]
    fleets = [found for found in stage.all(CONFIG) if found.part in components]
    assert models
    for found in (*models, *fleets):
        assert found.props["EnableNetworkIsolation"] is True
        assert len(found.props["VpcConfig"]["Subnets"]) == len(stage.stage.availability_zones)
        assert len(found.props["VpcConfig"]["SecurityGroupIds"]) == 1


def test_a_deployment_shifts_a_canary_and_rolls_back_on_alarms_that_see_the_new_fleet_alone(stage: Any) -> None:
    for model in stage.slotted():
        deployment = stage.of_endpoint(ENDPOINT, model.slug).props["DeploymentConfig"]
        routing = deployment["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]
        assert routing["Type"] == "CANARY"
        resources = stage.templates[model.slug]["Resources"]
        guards = [alarm["AlarmName"]["Ref"] for alarm in deployment["AutoRollbackConfiguration"]["Alarms"]]
        assert len(guards) == 4
        for guard in guards:
            dimensions = {item["Name"]: item["Value"] for item in resources[guard]["Properties"]["Dimensions"]}
            assert set(dimensions) == {"EndpointName", "VariantName", "EndpointConfigName"}
            assert dimensions["EndpointConfigName"] == {
                "Fn::GetAtt": [stage.of_endpoint(CONFIG, model.slug).id, "EndpointConfigName"]
            }


def test_metrics_are_set_explicitly_and_none_is_billed_unseen(stage: Any) -> None:
    for found in stage.all(CONFIG):
        assert found.props["MetricsConfig"] == {
            "EnableEnhancedMetrics": True,
            "EnableDetailedObservability": False,
            "MetricPublishFrequencyInSeconds": 60,
        }


def test_capture_goes_below_capture_with_the_stages_share_or_else_the_models(stage: Any) -> None:
    for model in stage.slotted():
        entry = stage.stage.models[model.name]
        share = entry.capture_percent if entry.capture_percent is not None else model.drift.capture_percent
        capture = stage.of_endpoint(CONFIG, model.slug).props["DataCaptureConfig"]
        assert capture["EnableCapture"] is True
        assert capture["InitialSamplingPercentage"] == share
        assert capture["DestinationS3Uri"]["Fn::Join"][1][-1] == "/capture"
        assert [option["CaptureMode"] for option in capture["CaptureOptions"]] == ["Input", "Output"]


def test_dev_captures_everything_and_prod_what_the_model_asks(dev: Any, prod: Any) -> None:
    def share(stage: Any) -> list[int]:
        configs = [found.props for found in stage.all(CONFIG) if "DataCaptureConfig" in found.props]
        return [config["DataCaptureConfig"]["InitialSamplingPercentage"] for config in configs]

    assert share(dev) == [100, 100, 100]
    assert sorted(share(prod)) == [1, 2, 5]


def test_volumes_use_the_stages_key_except_where_local_nvme_forbids_it(prod: Any, dev: Any) -> None:
    for found in prod.all(CONFIG):
        kinds = {variant["InstanceType"] for variant in found.props["ProductionVariants"]}
        assert ("KmsKeyId" in found.props) == kinds.isdisjoint(NVME_TYPES)
    assert "KmsKeyId" in prod.of_endpoint(CONFIG, "recommendation-ranker").props
    assert not [found.id for found in dev.all(CONFIG) if "KmsKeyId" in found.props]


def test_each_slot_scales_on_its_concurrency_between_the_stages_bounds(stage: Any) -> None:
    for model in stage.slotted():
        entry = stage.stage.models[model.name]
        least = entry.min_count if entry.min_count is not None else model.hosting.min_count
        most = entry.max_count if entry.max_count is not None else model.hosting.max_count
        template = Template.from_json(stage.templates[model.slug])
        for slot in ("a", "b"):
            template.has_resource_properties(
                "AWS::ApplicationAutoScaling::ScalableTarget",
                {
                    "ServiceNamespace": "sagemaker",
                    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
                    "MinCapacity": least,
                    "MaxCapacity": most,
                    "ResourceId": {"Fn::Join": ["", Match.array_with([f"/variant/{slot}"])]},
                },
            )
            template.has_resource_properties(
                "AWS::ApplicationAutoScaling::ScalingPolicy",
                {
                    "PolicyName": f"streamhub-{stage.stage.name}-{model.slug}-{slot}-concurrency",
                    "PolicyType": "TargetTrackingScaling",
                    "TargetTrackingScalingPolicyConfiguration": Match.object_like(
                        {
                            "TargetValue": model.hosting.scaling.target_concurrency,
                            "PredefinedMetricSpecification": {
                                "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
                            },
                        }
                    ),
                },
            )


def test_a_gpu_host_has_the_driver_that_its_image_needs(stage: Any) -> None:
    for model in stage.slotted():
        image = stage.all(MODEL, model.slug)[0].props["PrimaryContainer"]["Image"]
        amis = {variant.get("InferenceAmiVersion") for variant in variants(stage, model.slug).values()}
        assert image.endswith("-cpu") == (amis == {None})
