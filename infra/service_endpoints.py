"""The AWS services that code inside the VPC reaches, each by an endpoint whose policy names this stage's resources.

A policy of an endpoint grants nothing; it bounds what credentials found inside the network could be used for (VPC
guide, *vpc-endpoints-access*).
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.image_repository import repository_name
from infra.state_table import ITEM_ACTIONS
from serving.spec import StageSpec

_S3 = ("s3:GetObject", "s3:PutObject", "s3:ListBucket")
_INVOKE = (
    "sagemaker:InvokeEndpoint",
    "sagemaker:InvokeEndpointAsync",
    "sagemaker:InvokeEndpointWithResponseStream",
)
_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")


class ServiceEndpoints(Construct):
    """S3, DynamoDB and SageMaker's runtime; with tasks also what starts and logs them, which Lambda does outside.

    There is none for STS: a task gets its credentials from the ECS agent, a token of the cache is signed in place.
    """

    def __init__(
        self, scope: Construct, id_: str, *, stage: StageSpec, vpc: ec2.Vpc, group: ec2.ISecurityGroup
    ) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self._vpc = vpc
        self._group = group
        self._storage()
        self._interface(
            "SageMakerRuntime",
            ec2.InterfaceVpcEndpointAwsService.SAGEMAKER_RUNTIME,
            self._ours(
                _INVOKE,
                *(
                    self._arn("sagemaker", f"{kind}/streamhub-{stage.name}-*")
                    for kind in ("endpoint", "inference-component")
                ),
            ),
        )
        if stage.api.shell == "fargate":
            self._tasks()

    def _storage(self) -> None:
        stage = self._stage
        s3 = self._vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        buckets = f"arn:aws:s3:::streamhub-{stage.name}-*-{stage.account}"
        s3.add_to_policy(self._ours(_S3, buckets, f"{buckets}/*"))
        if stage.api.shell == "fargate":
            # ECR keeps layers in a bucket of its own (ECR guide, *vpc-endpoints*)
            layers = f"arn:aws:s3:::prod-{stage.region}-starport-layer-bucket/*"
            s3.add_to_policy(
                iam.PolicyStatement(principals=[iam.StarPrincipal()], actions=["s3:GetObject"], resources=[layers])
            )
        table = self._vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        table.add_to_policy(self._ours(ITEM_ACTIONS, self._arn("dynamodb", f"table/streamhub-{stage.name}-*")))

    def _tasks(self) -> None:
        service = ec2.InterfaceVpcEndpointAwsService
        repository = self._arn("ecr", f"repository/{repository_name(self._stage)}")
        pull = (self._ours(("ecr:GetAuthorizationToken",), "*"), self._ours(_PULL, repository))
        self._interface("Ecr", service.ECR, *pull)
        self._interface("EcrDocker", service.ECR_DOCKER, *pull)
        groups = self._arn("logs", f"log-group:/streamhub/{self._stage.name}/*")
        self._interface("Logs", service.CLOUDWATCH_LOGS, self._ours(_LOG, groups))

    def _interface(
        self, id_: str, service: ec2.InterfaceVpcEndpointAwsService, *statements: iam.PolicyStatement
    ) -> None:
        endpoint = self._vpc.add_interface_endpoint(id_, service=service, security_groups=[self._group], open=False)
        for statement in statements:
            endpoint.add_to_policy(statement)

    def _ours(self, actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
        """Allow principals of the stage's account, whichever they are: their own policies say what each may."""
        return iam.PolicyStatement(
            principals=[iam.StarPrincipal()],
            actions=list(actions),
            resources=list(resources),
            conditions={"StringEquals": {"aws:PrincipalAccount": self._stage.account}},
        )

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self._stage.region}:{self._stage.account}:{resource}"
