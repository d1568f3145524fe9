"""What runs inside the network speaks to this stage's resources over TLS, and to nothing else."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["dev", "staging", "prod", "tasks"], name="any_stage")
def any_stage_fixture(request: pytest.FixtureRequest) -> Any:
    """Give each stage in turn, and one whose API runs as tasks."""
    return request.getfixturevalue(request.param)


def groups(stage: Any) -> dict[str, Any]:
    """Give the network's security groups by the construct they are of."""
    found = {group.id: group.props for group in stage.all("AWS::EC2::SecurityGroup", "network")}
    kinds = {"Functions", "Models", "Endpoints"}
    return {kind: next(p for name, p in found.items() if name.startswith(f"Network{kind}")) for kind in kinds}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_callers_go_out_over_tls_and_to_the_cache_only(any_stage: Any) -> None:
    found = groups(any_stage)
    out = {(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in found["Functions"]["SecurityGroupEgress"]}
    assert out == {("tcp", 443, 443), ("tcp", 6379, 6379)}
    (cache,) = [rule for rule in found["Functions"]["SecurityGroupEgress"] if rule["FromPort"] == 6379]
    assert cache["CidrIp"] == "10.20.0.0/16"
    (models,) = found["Models"]["SecurityGroupEgress"]
    assert (models["IpProtocol"], models["FromPort"], models["ToPort"]) == ("tcp", 443, 443)


def test_nothing_reaches_the_callers_and_only_functions_reach_the_endpoints(any_stage: Any) -> None:
    found = groups(any_stage)
    assert "SecurityGroupIngress" not in found["Functions"]
    assert "SecurityGroupIngress" not in found["Models"]
    (rule,) = found["Endpoints"]["SecurityGroupIngress"]
    assert (rule["FromPort"], rule["ToPort"]) == (443, 443)
    assert "NetworkFunctions" in rule["SourceSecurityGroupId"]["Fn::GetAtt"][0]


def test_no_subnet_has_a_route_to_the_internet(any_stage: Any) -> None:
    assert not any_stage.all("AWS::EC2::Route")
    assert not any_stage.all("AWS::EC2::NatGateway")


def test_every_endpoint_knows_this_stages_resources_and_this_accounts_principals(any_stage: Any) -> None:
    stage = any_stage.stage
    theirs = f"arn:aws:s3:::prod-{stage.region}-starport-layer-bucket/*"  # ECR's layers, of no account of ours
    for endpoint in any_stage.all("AWS::EC2::VPCEndpoint"):
        for statement in endpoint.props["PolicyDocument"]["Statement"]:
            resources = as_list(statement["Resource"])
            if resources == [theirs]:
                assert statement["Action"] == "s3:GetObject"
                continue
            assert statement["Condition"] == {"StringEquals": {"aws:PrincipalAccount": stage.account}}
            assert not [action for action in as_list(statement["Action"]) if "*" in action]
            if resources != ["*"]:
                assert all(f"streamhub-{stage.name}-" in arn or f"/streamhub/{stage.name}/" in arn for arn in resources)
            else:
                assert statement["Action"] == "ecr:GetAuthorizationToken"


def test_the_endpoints_let_through_what_the_api_may(any_stage: Any) -> None:
    """A policy of an endpoint that forbids what a role allows would be found in production only."""
    let = {
        action
        for endpoint in any_stage.all("AWS::EC2::VPCEndpoint")
        for statement in endpoint.props["PolicyDocument"]["Statement"]
        for action in as_list(statement["Action"])
    }
    role = "ServiceRole" if any_stage.stage.api.shell == "fargate" else "PredictRole"
    called = {
        action
        for found in any_stage.all("AWS::IAM::Policy", "api")
        if found.props["Roles"][0]["Ref"].startswith(role)
        for statement in found.props["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
        for action in as_list(statement["Action"])
    }
    # the cache is no API, KMS is called by DynamoDB, and Lambda logs and traces by its own network
    elsewhere = ("elasticache:", "kms:", "logs:", "xray:", "ec2:")
    assert {action for action in called if not action.startswith(elsewhere)} <= let


def test_models_fetch_from_the_registry_through_the_endpoint(any_stage: Any) -> None:
    stage = any_stage.stage
    (gateway,) = [
        endpoint
        for endpoint in any_stage.all("AWS::EC2::VPCEndpoint")
        if "s3" in str(endpoint.props["ServiceName"]) and endpoint.props["VpcEndpointType"] == "Gateway"
    ]
    ours = gateway.props["PolicyDocument"]["Statement"][0]
    assert "s3:GetObject" in ours["Action"]
    assert f"arn:aws:s3:::streamhub-{stage.name}-*-{stage.account}/*" in ours["Resource"]
