"""Log groups of containers, made before SageMaker would make them: encrypted as the stage is, and they expire.

A group that SageMaker makes keeps every line for ever, under a key of CloudWatch's (Logs guide, *Working with log
groups and log streams*).
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.lifecycle import log_retention, removal_policy
from serving.spec import StageSpec


def endpoint_log_group(endpoint: str) -> str:
    """Name the group of variants that hold a model (SageMaker guide, *logging-cloudwatch*)."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


def component_log_group(component: str) -> str:
    """Name the group of an inference component, which is none of its endpoint's."""
    return f"/aws/sagemaker/InferenceComponents/{component}"


class ContainerLogs(Construct):
    """The groups of one endpoint, by what writes them; its role waits for them, and what has the role comes after."""

    def __init__(
        self, scope: Construct, id_: str, *, names: Mapping[str, str], stage: StageSpec, key: kms.IKey | None
    ) -> None:
        super().__init__(scope, id_)
        self.names = tuple(names.values())
        for what, name in names.items():
            logs.LogGroup(
                self,
                what,
                log_group_name=name,
                encryption_key=key,
                retention=log_retention(stage),
                removal_policy=removal_policy(stage),
            )
