"""Whether the account is the stage's, bootstrapped, and lets CloudFormation do what the templates need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import Unread
from serving.preflight.planned import Planned
from serving.preflight.templates import PlannedStack

ACTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "AWS::ApiGatewayV2::Api": ("apigateway:POST", "apigateway:{region}::/apis"),
    "AWS::ApplicationAutoScaling::ScalableTarget": ("application-autoscaling:RegisterScalableTarget", ""),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ("application-autoscaling:PutScalingPolicy", ""),
    "AWS::CloudWatch::Alarm": ("cloudwatch:PutMetricAlarm", "cloudwatch:{region}:{account}:alarm:{name}"),
    "AWS::CloudWatch::CompositeAlarm": ("cloudwatch:PutCompositeAlarm", "cloudwatch:{region}:{account}:alarm:{name}"),
    "AWS::CloudWatch::Dashboard": ("cloudwatch:PutDashboard", "cloudwatch::{account}:dashboard/{name}"),
    "AWS::DynamoDB::Table": ("dynamodb:CreateTable", "dynamodb:{region}:{account}:table/{name}"),
    "AWS::EC2::VPC": ("ec2:CreateVpc", "ec2:{region}:{account}:vpc/*"),
    "AWS::EC2::VPCEndpoint": ("ec2:CreateVpcEndpoint", "ec2:{region}:{account}:vpc-endpoint/*"),
    "AWS::ECS::Service": ("ecs:CreateService", "ecs:{region}:{account}:service/{name}/{name}"),
    "AWS::ElastiCache::ReplicationGroup": ("elasticache:CreateReplicationGroup", ""),
    "AWS::ElastiCache::ServerlessCache": ("elasticache:CreateServerlessCache", ""),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("elasticloadbalancing:CreateLoadBalancer", ""),
    "AWS::Events::Rule": ("events:PutRule", "events:{region}:{account}:rule/{name}"),
    "AWS::IAM::Role": ("iam:CreateRole", "iam::{account}:role/{name}"),
    "AWS::KMS::Key": ("kms:CreateKey", ""),
    "AWS::Lambda::Function": ("lambda:CreateFunction", "lambda:{region}:{account}:function:{name}"),
    "AWS::Logs::LogGroup": ("logs:CreateLogGroup", "logs:{region}:{account}:log-group:/aws/lambda/{name}"),
    "AWS::S3::Bucket": ("s3:CreateBucket", "s3:::{name}"),
    "AWS::SNS::Topic": ("sns:CreateTopic", "sns:{region}:{account}:{name}"),
    "AWS::SageMaker::Endpoint": ("sagemaker:CreateEndpoint", "sagemaker:{region}:{account}:endpoint/{name}"),
    "AWS::SageMaker::EndpointConfig": ("sagemaker:CreateEndpointConfig", ""),
    "AWS::SageMaker::InferenceComponent": ("sagemaker:CreateInferenceComponent", ""),
    "AWS::SageMaker::Model": ("sagemaker:CreateModel", ""),
}
"""By type: the action without which CloudFormation cannot make one (its schemas, `handlers`), and the resource to ask
for behind `arn:aws:`: a policy that names resources denies the same action on `*`. "" is `*`."""

_SIMULATE = "give your identity iam:SimulatePrincipalPolicy on that role, or look at its policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """An action and the resource on which it must be allowed."""

    action: str
    resource: str


def needed_permissions(planned: Planned) -> tuple[Permission, ...]:
    """Give what CloudFormation must be allowed in order to make what the templates hold."""
    found = {
        _permission(*ACTIONS[resource.kind], stack=stack, stage=planned.stage)
        for stack in planned.stacks
        for resource in stack.resources()
        if resource.kind in ACTIONS
    }
    return tuple(sorted(found, key=lambda permission: permission.action))


def _permission(action: str, pattern: str, *, stack: PlannedStack, stage: str) -> Permission:
    place = pattern.format(region=stack.region, account=stack.account, name=f"streamhub-{stage}-preflight")
    return Permission(action=action, resource=f"arn:aws:{place}" if pattern else "*")


def account(at: Comparison) -> Iterator[Finding]:
    """The credentials are those of the stage's account, and the environment's region is the stage's."""
    for account_id, region in sorted({(stack.account, stack.region) for stack in at.planned.stacks}):
        if isinstance(at.live.account, Unread):
            yield Finding(
                level="error",
                check="account",
                what="AWS credentials",
                got=f"no answer: {at.live.account.why}",
                allowed=f"those of account {account_id}, which {at.facts.file} names",
                fix="set them; without, nothing can be compared",
            )
        elif at.live.account != account_id:
            yield Finding(
                level="error",
                check="account",
                what="AWS credentials",
                got=f"account {at.live.account}",
                allowed=f"{account_id}, which {at.facts.file} names",
                fix="take that account's credentials, or mend the stage file",
            )
        if at.live.region not in {"", region}:
            yield Finding(
                level="warning",
                check="region",
                what="AWS_REGION",
                got=at.live.region,
                allowed=f"{region}, which {at.facts.file} names",
                fix="set it: other commands of this shell go by it, while the deploy goes by the stage file",
            )


def bootstrap(at: Comparison) -> Iterator[Finding]:
    """The account and region are bootstrapped, and not by too old a CDK."""
    needed = max((stack.bootstrap_version for stack in at.planned.stacks), default=0)
    first = at.planned.stacks[0]
    fix = f"run cdk bootstrap aws://{first.account}/{first.region}"
    found = at.live.bootstrap
    if isinstance(found, Unread):
        yield unverified("bootstrap", first.bootstrap_parameter, found.why, fix="allow ssm:GetParameter on it")
    elif found is None or found < needed:
        yield Finding(
            level="error",
            check="bootstrap",
            what=f"{first.account} in {first.region}",
            got="no bootstrap" if found is None else f"version {found}",
            allowed=f"version {needed} or later",
            fix=fix,
            source="CDK guide, Bootstrapping",
        )


def permissions(at: Comparison) -> Iterator[Finding]:
    """CloudFormation's role may make what the templates hold."""
    role = next((stack.execution_role for stack in at.planned.stacks if stack.execution_role), "")
    if not role:
        return
    name = role.rpartition("/")[2]
    if isinstance(at.live.permissions, Unread):
        yield unverified("permission", name, at.live.permissions.why, fix=_SIMULATE)
        return
    for action, allowed in sorted(at.live.permissions.items()):
        if not allowed:
            yield Finding(
                level="error",
                check="permission",
                what=name,
                got=f"{action} denied",
                allowed="an execution role that may call it",
                fix="bootstrap again with --cloudformation-execution-policies that hold it (docs/deploy.md)",
                source="IAM API reference, SimulatePrincipalPolicy",
            )
