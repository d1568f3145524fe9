"""Our Lambda function: one place for runtime, architecture, tracing, logs and the least a role needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.lifecycle import log_retention, removal_policy
from infra.network import Network
from serving.errors import Problem, SpecError
from serving.spec import StageSpec

RUNTIME = lambda_.Runtime.PYTHON_3_12
"""What `python -m lambdas.build --target aws` fetches wheels for."""

_NO_FINER_FORM = "AWS has no resource for these actions (Service Authorization Reference)"
# AWS managed policy AWSLambdaVPCAccessExecutionRole, version 3
_NETWORK_ACTIONS = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)


class ServiceFunction(Construct):
    """The function `streamhub-<stage>-<name>` from its built folder `<lambda_folder>/<name>`.

    `failures` gets the events of asynchronous invocations that raised each time they were tried.

    Raises:
        SpecError: the folder was not built.

    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        name: str,
        lambda_folder: Path,
        environment: Mapping[str, str],
        memory_mib: int,
        timeout: Duration,
        key: kms.IKey | None,
        network: Network | None = None,
        reserved_concurrency: int | None = None,
        failures: sqs.IQueue | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self.name = f"streamhub-{stage.name}-{name}"
        self._logs = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{self.name}",
            encryption_key=key,
            retention=log_retention(stage),
            removal_policy=removal_policy(stage),
        )
        self.role = self._role(network=network)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=self.name,
            description=f"{name} of StreamHub Inference, {stage.name}",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"lambdas.{name}.handler.handler",
            code=lambda_.Code.from_asset(str(_built(lambda_folder, name))),
            role=self.role,
            memory_size=memory_mib,
            timeout=timeout,
            environment={"STREAMHUB_STAGE": stage.name, **environment},
            tracing=lambda_.Tracing.ACTIVE,
            log_group=self._logs,
            logging_format=lambda_.LoggingFormat.JSON,
            reserved_concurrent_executions=reserved_concurrency,
            dead_letter_queue=failures,
            vpc=network.vpc if network is not None else None,
            vpc_subnets=ec2.SubnetSelection(subnets=network.vpc.isolated_subnets) if network is not None else None,
            security_groups=[network.functions] if network is not None else None,
        )
        reason = "3.12 is what the locked wheels are fetched for; it moves together with lambdas/build.py"
        acknowledge(self.function, "AwsSolutions-L1", reason=reason)

    def metric_errors(self, *, period: Duration) -> cloudwatch.Metric:
        """Invocations that raised, a sum."""
        return self.function.metric_errors(period=period)

    def metric_throttles(self, *, period: Duration) -> cloudwatch.Metric:
        """Invocations refused for lack of concurrency, a sum."""
        return self.function.metric_throttles(period=period)

    def _role(self, *, network: Network | None) -> iam.Role:
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self._logs.grant_write(role)
        role.add_to_policy(
            iam.PolicyStatement(actions=["xray:PutTraceSegments", "xray:PutTelemetryRecords"], resources=["*"])
        )
        acknowledge(role, "AwsSolutions-IAM5[Resource::*]", reason=_NO_FINER_FORM)
        if network is not None:
            role.add_to_policy(iam.PolicyStatement(actions=list(_NETWORK_ACTIONS), resources=["*"]))
            role.add_to_policy(self._deny_network_to_code())
        return role

    def _deny_network_to_code(self) -> iam.PolicyStatement:
        """Keep what the Lambda service needs for the VPC from the code (Lambda guide, *security-iam-vpc*)."""
        stack = Stack.of(self)
        return iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=list(_NETWORK_ACTIONS),
            resources=["*"],
            conditions={
                "ArnEquals": {
                    "lambda:SourceFunctionArn": [f"arn:aws:lambda:{stack.region}:{stack.account}:function:{self.name}"]
                }
            },
        )


def _built(lambda_folder: Path, name: str) -> Path:
    folder = lambda_folder / name
    if not folder.is_dir():
        problem = Problem(str(folder), "-", "no such folder", "the built code of the function", "run make lambdas")
        raise SpecError((problem,))
    return folder
