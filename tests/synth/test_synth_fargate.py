"""A stage that runs its API as tasks: private, TLS at the door, scaled by load, rolled back by itself."""

from __future__ import annotations

from typing import Any

# ECS guide: sizes of a Fargate task with one vCPU, MiB
ONE_VCPU_MEMORY = {str(gib * 1024) for gib in range(2, 9)}


def one(tasks: Any, kind: str) -> Any:
    return tasks.one(kind, "api").props


def attributes(tasks: Any, kind: str, key: str) -> dict[str, str]:
    return {pair["Key"]: pair["Value"] for pair in one(tasks, kind)[key]}


def actions(tasks: Any, role: str) -> dict[str, Any]:
    """Give action → resource of one role."""
    return {
        action: statement["Resource"]
        for found in tasks.all("AWS::IAM::Policy", "api")
        if found.props["Roles"][0]["Ref"].startswith(role)
        for statement in found.props["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_no_function_and_no_http_api_stands_beside_the_tasks(tasks: Any) -> None:
    assert not tasks.all("AWS::ApiGatewayV2::Api")
    names = {found.props["FunctionName"] for found in tasks.all("AWS::Lambda::Function")}
    assert names == {"streamhub-tasks-release", "streamhub-tasks-drift"}


def test_the_container_runs_a_digest_as_nobody_and_writes_nowhere(tasks: Any) -> None:
    task = one(tasks, "AWS::ECS::TaskDefinition")
    (container,) = task["ContainerDefinitions"]
    assert str(container["Image"]["Fn::Join"][1][-1]).endswith(f"/streamhub-tasks-api@sha256:{'a' * 64}")
    assert container["ReadonlyRootFilesystem"] is True
    assert int(container["User"].split(":")[0]) > 0
    assert "Privileged" not in container
    assert task["RuntimePlatform"] == {"CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX"}
    assert task["Cpu"] == "1024"
    assert task["Memory"] in ONE_VCPU_MEMORY
    assert container["LogConfiguration"]["Options"]["mode"] == "non-blocking"


def test_the_container_gets_the_names_it_reads(tasks: Any) -> None:
    (container,) = one(tasks, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    assert {pair["Name"] for pair in container["Environment"]} == {
        "AWS_REGION",
        "STREAMHUB_STAGE",
        "STREAMHUB_STATE_TABLE",
        "STREAMHUB_FEATURES_URL",
    }


def test_the_task_may_what_the_function_may_and_no_more(tasks: Any, prod: Any) -> None:
    of_function = {
        action
        for found in prod.all("AWS::IAM::Policy", "api")
        for statement in found.props["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    services_of_lambda = ("logs:", "xray:", "ec2:")
    wanted = {action for action in of_function if not action.startswith(services_of_lambda)}
    assert set(actions(tasks, "ServiceRole")) == wanted


def test_what_starts_a_task_pulls_from_one_repository_and_writes_one_log(tasks: Any) -> None:
    granted = actions(tasks, "ServiceExecution")
    assert set(granted) == {
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetAuthorizationToken",
        "ecr:GetDownloadUrlForLayer",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
    }
    account = tasks.stage.account
    assert granted["ecr:BatchGetImage"] == f"arn:aws:ecr:us-east-1:{account}:repository/streamhub-tasks-api"


def test_a_deploy_keeps_the_count_that_scaling_chose_and_rolls_back_by_itself(tasks: Any) -> None:
    service = one(tasks, "AWS::ECS::Service")
    assert "DesiredCount" not in service
    rollout = service["DeploymentConfiguration"]
    assert rollout["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert (rollout["MinimumHealthyPercent"], rollout["MaximumPercent"]) == (100, 200)
    network = service["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "DISABLED"
    assert len(network["Subnets"]) == len(tasks.stage.availability_zones)


def test_the_door_is_private_takes_tls_only_and_keeps_a_log(tasks: Any) -> None:
    balancer = one(tasks, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert balancer["Scheme"] == "internal"
    listener = one(tasks, "AWS::ElasticLoadBalancingV2::Listener")
    assert (listener["Port"], listener["Protocol"]) == (443, "HTTPS")
    assert listener["SslPolicy"].startswith("ELBSecurityPolicy-TLS13-1-2-")
    assert listener["Certificates"] == [{"CertificateArn": tasks.stage.api.certificate_arn}]
    said = attributes(tasks, "AWS::ElasticLoadBalancingV2::LoadBalancer", "LoadBalancerAttributes")
    assert said["deletion_protection.enabled"] == "true"
    assert said["routing.http.drop_invalid_header_fields.enabled"] == "true"
    assert said["access_logs.s3.bucket"] == f"streamhub-tasks-access-logs-{tasks.stage.account}"


def test_access_logs_can_be_delivered(tasks: Any) -> None:
    deliveries = [
        statement
        for policy in tasks.all("AWS::S3::BucketPolicy", "registry")
        for statement in policy.props["PolicyDocument"]["Statement"]
        if statement["Principal"] == {"Service": "logdelivery.elasticloadbalancing.amazonaws.com"}
    ]
    (delivery,) = deliveries
    assert delivery["Action"] == "s3:PutObject"
    assert delivery["Resource"]["Fn::Join"][1][-1] == f"/api/AWSLogs/{tasks.stage.account}/*"


def test_only_the_named_networks_reach_the_door_and_only_the_door_reaches_the_tasks(tasks: Any) -> None:
    groups = {found.id: found.props for found in tasks.all("AWS::EC2::SecurityGroup", "api")}
    (door,) = [props for name, props in groups.items() if name.startswith("ServiceDoor")]
    assert {(rule["CidrIp"], rule["FromPort"], rule["ToPort"]) for rule in door["SecurityGroupIngress"]} == {
        (cidr, 443, 443) for cidr in tasks.stage.api.client_cidrs
    }
    rules = [found.props for found in tasks.all("AWS::EC2::SecurityGroupIngress")]
    assert {(rule["FromPort"], rule["ToPort"]) for rule in rules} == {(8080, 8080)}
    assert all("ServiceDoor" in str(rule["SourceSecurityGroupId"]) for rule in rules)


def test_targets_are_asked_for_health_and_drained(tasks: Any) -> None:
    group = one(tasks, "AWS::ElasticLoadBalancingV2::TargetGroup")
    assert group["HealthCheckPath"] == "/healthz"
    assert group["TargetType"] == "ip"
    said = attributes(tasks, "AWS::ElasticLoadBalancingV2::TargetGroup", "TargetGroupAttributes")
    assert said["load_balancing.algorithm.type"] == "least_outstanding_requests"
    (container,) = one(tasks, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    assert int(said["deregistration_delay.timeout_seconds"]) <= container["StopTimeout"]


def test_the_shell_keeps_connections_longer_than_the_door_does(tasks: Any) -> None:
    """Else a request meets a connection that the task has just closed, and the client sees 502."""
    from lambdas.predict.asgi import KEEP_ALIVE_S  # noqa: PLC0415 - only this test needs the shell

    said = attributes(tasks, "AWS::ElasticLoadBalancingV2::LoadBalancer", "LoadBalancerAttributes")
    assert int(said["idle_timeout.timeout_seconds"]) < KEEP_ALIVE_S


def test_tasks_follow_requests_and_cpu_between_their_bounds(tasks: Any) -> None:
    target = one(tasks, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (3, 30)
    policies = {
        found.props["TargetTrackingScalingPolicyConfiguration"]["PredefinedMetricSpecification"][
            "PredefinedMetricType"
        ]: found.props["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
        for found in tasks.all("AWS::ApplicationAutoScaling::ScalingPolicy", "api")
    }
    a_minute = 60 * tasks.stage.api.requests_per_task
    assert policies == {"ALBRequestCountPerTarget": a_minute, "ECSServiceAverageCPUUtilization": 60}


def test_the_repository_moves_no_tag_and_scans_each_push(tasks: Any) -> None:
    repository = tasks.one("AWS::ECR::Repository", "registry")
    assert repository.props["RepositoryName"] == "streamhub-tasks-api"
    assert repository.props["ImageTagMutability"] == "IMMUTABLE"
    assert repository.props["ImageScanningConfiguration"] == {"ScanOnPush": True}
    assert repository.props["EncryptionConfiguration"]["EncryptionType"] == "KMS"
    assert repository.entry["DeletionPolicy"] == "RetainExceptOnCreate"


def test_what_starts_and_logs_tasks_is_reached_inside_the_network(tasks: Any) -> None:
    names = [found.props["ServiceName"] for found in tasks.all("AWS::EC2::VPCEndpoint")]
    ends = [name if isinstance(name, str) else name["Fn::Join"][1][-1] for name in names]
    services = {end.removeprefix("com.amazonaws.us-east-1").removeprefix(".") for end in ends}
    assert services == {"s3", "dynamodb", "sagemaker.runtime", "ecr.api", "ecr.dkr", "logs"}
