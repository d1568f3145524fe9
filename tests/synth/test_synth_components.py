"""A large model runs as components on one fleet: accelerators a copy, rolling updates, zero with a way back."""

from __future__ import annotations

from typing import Any

import pytest

SLUG = "sample-scorer"
NAME = "streamhub-lab-sample-scorer"
VLLM = '[runtime]\nkind = "vllm"\ntensor_parallel = 2\nlayout = "prefix"'
COMPONENTS = """
mode = "components"
instance_type = "ml.p4d.24xlarge"
min_count = 0
max_count = 2
startup_timeout_s = 1800
download_timeout_s = 3600
[hosting.component]
accelerators = 2
memory_mib = 65536
min_copies = 0
max_copies = 3
[hosting.scaling]
target_concurrency = 16
scale_in_cooldown_s = 900
[hosting.deployment]
strategy = "rolling"
step_percent = 50
wait_s = 120
max_duration_s = 7200
"""
ALWAYS_ON = COMPONENTS.replace("min_copies = 0", "min_copies = 1").replace("min_count = 0", "min_count = 1")
COMPONENT = "AWS::SageMaker::InferenceComponent"


@pytest.fixture(scope="module", name="generator")
def generator_fixture(host: Any) -> Any:
    return host(COMPONENTS, runtime=VLLM, stage='encryption = "customer-key"')


def components(stage: Any) -> dict[str, Any]:
    return {one.props["InferenceComponentName"]: one.props for one in stage.all(COMPONENT, SLUG)}


def alarms(stage: Any) -> dict[str, Any]:
    return {one.props["AlarmName"]: one.props for one in stage.all("AWS::CloudWatch::Alarm", SLUG)}


def test_the_fleet_is_one_variant_without_a_model_whose_machines_sagemaker_manages(generator: Any) -> None:
    config = generator.one("AWS::SageMaker::EndpointConfig", SLUG).props
    (variant,) = config["ProductionVariants"]
    assert "ModelName" not in variant
    assert variant["ManagedInstanceScaling"] == {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}
    assert variant["InitialInstanceCount"] == 1
    assert variant["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    assert variant["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1", "CUDA 13 needs driver 580"


def test_role_network_and_isolation_are_the_configs_not_the_models(generator: Any) -> None:
    config = generator.one("AWS::SageMaker::EndpointConfig", SLUG).props
    assert config["EnableNetworkIsolation"] is True
    assert len(config["VpcConfig"]["Subnets"]) == 2
    role = generator.one("AWS::IAM::Role", SLUG).id
    assert config["ExecutionRoleArn"] == {"Fn::GetAtt": [role, "Arn"]}
    for model in generator.all("AWS::SageMaker::Model", SLUG):
        assert not {"VpcConfig", "EnableNetworkIsolation"} & set(model.props)


def test_local_nvme_takes_no_key_though_the_stage_has_one(generator: Any) -> None:
    assert "KmsKeyId" not in generator.one("AWS::SageMaker::EndpointConfig", SLUG).props


def test_each_slot_is_a_component_with_a_name_for_ever_and_two_accelerators_a_copy(generator: Any) -> None:
    found = components(generator)
    assert set(found) == {f"{NAME}-a", f"{NAME}-b"}
    for props in found.values():
        assert props["Specification"]["ComputeResourceRequirements"] == {
            "NumberOfAcceleratorDevicesRequired": 2,
            "MinMemoryRequiredInMb": 65536,
        }
        assert props["Specification"]["StartupParameters"] == {
            "ContainerStartupHealthCheckTimeoutInSeconds": 1800,
            "ModelDataDownloadTimeoutInSeconds": 3600,
        }
        assert props["RuntimeConfig"] == {"CopyCount": 1}, "none can be created with 0"


def test_a_component_names_the_variant_and_endpoint_of_its_stack(generator: Any) -> None:
    (variant,) = generator.one("AWS::SageMaker::EndpointConfig", SLUG).props["ProductionVariants"]
    endpoint = generator.one("AWS::SageMaker::Endpoint", SLUG).id
    for props in components(generator).values():
        assert props["VariantName"] == variant["VariantName"]
        assert props["EndpointName"] == {"Fn::GetAtt": [endpoint, "EndpointName"]}


def test_an_update_rolls_in_batches_and_back_on_the_components_own_alarms(generator: Any) -> None:
    resources = generator.templates[SLUG]["Resources"]
    for name, props in components(generator).items():
        assert props["DeploymentConfig"]["RollingUpdatePolicy"] == {
            "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "WaitIntervalInSeconds": 120,
            "MaximumExecutionTimeoutInSeconds": 7200,
        }
        guards = props["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
        watched = [resources[guard["AlarmName"]["Ref"]]["Properties"] for guard in guards]
        assert {one["MetricName"] for one in watched} == {"ModelLatency", "Invocation5XXErrors"}
        for one in watched:
            assert one["Dimensions"] == [{"Name": "InferenceComponentName", "Value": name}]


def test_the_endpoint_keeps_what_it_has_and_brings_no_deployment_policy(generator: Any) -> None:
    props = generator.one("AWS::SageMaker::Endpoint", SLUG).props
    assert props["RetainAllVariantProperties"] is True
    assert "DeploymentConfig" not in props


def test_copies_scale_on_their_concurrency_by_the_components_name(generator: Any) -> None:
    targets = {one.props["ResourceId"]: one for one in generator.all("AWS::ApplicationAutoScaling::ScalableTarget")}
    assert set(targets) == {f"inference-component/{NAME}-{slot}" for slot in "ab"}
    for target in targets.values():
        assert target.props["ScalableDimension"] == "sagemaker:inference-component:DesiredCopyCount"
        assert (target.props["MinCapacity"], target.props["MaxCapacity"]) == (0, 3)
        kinds = {generator.templates[SLUG]["Resources"][one]["Type"] for one in target.entry["DependsOn"]}
        assert COMPONENT in kinds, "its resource id is a name, which waits for nothing"
    tracked = [
        one.props["TargetTrackingScalingPolicyConfiguration"]
        for one in generator.all("AWS::ApplicationAutoScaling::ScalingPolicy")
        if one.props["PolicyType"] == "TargetTrackingScaling"
    ]
    metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    assert [one["PredefinedMetricSpecification"]["PredefinedMetricType"] for one in tracked] == [metric, metric]
    assert {(one["TargetValue"], one["ScaleInCooldown"]) for one in tracked} == {(16, 900)}


def test_gpu_use_of_a_copy_is_normalised_over_its_own_accelerators(host: Any) -> None:
    # guide, monitoring-cloudwatch: 0 to 100 % of the reservation, by InferenceComponentName
    tracked = COMPONENTS.replace("target_concurrency = 16", "target_concurrency = 16\ntarget_gpu_percent = 70")
    found = [
        one.props["TargetTrackingScalingPolicyConfiguration"]
        for one in host(tracked, runtime=VLLM).all("AWS::ApplicationAutoScaling::ScalingPolicy", SLUG)
        if one.props["PolicyName"] == f"{NAME}-b-gpu"
    ]
    (tracking,) = found
    assert tracking["TargetValue"] == 70
    assert tracking["CustomizedMetricSpecification"] == {
        "Namespace": "/aws/sagemaker/InferenceComponents",
        "MetricName": "GPUUtilizationNormalized",
        "Statistic": "Average",
        "Dimensions": [{"Name": "InferenceComponentName", "Value": f"{NAME}-b"}],
    }


def test_from_zero_the_first_request_that_fails_brings_a_copy(generator: Any) -> None:
    # guide, endpoint-auto-scaling-zero-instances
    for slot in ("a", "b"):
        wake = alarms(generator)[f"scaling-{NAME}-{slot}-from-zero"]
        assert (wake["Namespace"], wake["MetricName"]) == ("AWS/SageMaker", "NoCapacityInvocationFailures")
        assert wake["Dimensions"] == [{"Name": "InferenceComponentName", "Value": f"{NAME}-{slot}"}]
        assert (wake["Statistic"], wake["Period"], wake["EvaluationPeriods"]) == ("Sum", 60, 1)
        assert (wake["Threshold"], wake["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold")


def test_copies_that_never_end_need_no_way_back(host: Any) -> None:
    always = host(ALWAYS_ON, runtime=VLLM)
    assert not [name for name in alarms(always) if name.endswith("from-zero")]
    (variant,) = always.one("AWS::SageMaker::EndpointConfig", SLUG).props["ProductionVariants"]
    assert variant["ManagedInstanceScaling"]["MinInstanceCount"] == 1


def test_a_prefix_is_fetched_as_files_and_told_to_vllm(generator: Any) -> None:
    for model in generator.all("AWS::SageMaker::Model", SLUG):
        container = model.props["PrimaryContainer"]
        assert "ModelDataUrl" not in container
        source = container["ModelDataSource"]["S3DataSource"]
        assert (source["S3DataType"], source["CompressionType"]) == ("S3Prefix", "None")
        assert source["S3Uri"]["Fn::Join"][1][-1].endswith("/files/"), "a prefix ends in a slash"
        assert container["Environment"]["SM_VLLM_TENSOR_PARALLEL_SIZE"] == "2"


def test_an_archive_of_the_same_model_is_a_url(host: Any) -> None:
    archived = host(COMPONENTS, runtime=VLLM.replace("prefix", "archive"))
    for model in archived.all("AWS::SageMaker::Model", SLUG):
        container = model.props["PrimaryContainer"]
        assert container["ModelDataUrl"]["Fn::Join"][1][-1].endswith("/model.tar.gz")
        assert "ModelDataSource" not in container


def test_the_models_route_has_no_slots_to_release_or_call(generator: Any) -> None:
    actions = str(generator.templates["api"]) + str(generator.templates["release"])
    assert NAME not in actions
