"""An async endpoint: requests and answers are objects, a queue stands between, and no request means no instance."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.buckets import TelemetryBucket
from infra.endpoint_config import AsyncConfig, EndpointConfig
from infra.hosted_endpoint import HostedEndpoint
from infra.metrics import Dimensions, sagemaker_metric, variant_dimensions
from infra.model import ExecutionRole
from infra.scaling import Scaling
from serving.spec import AsyncSpec, BatchSpec, DeploymentSpec, HostingMode, HostingSpec, ScalingSpec, Strategy

VARIANT_NAME = "a"
"""The only variant; slots of a real-time endpoint are named the same way."""

# A request that waited RequestTTLSeconds is dropped: 6 hours unless its caller says less (API reference,
# *InvokeEndpointAsync*). Half of it leaves time to act.
_OLDEST_S = 10_800
# SNS guide, *sns-key-management*; the library's own grant has a wildcard
_PUBLISH_WITH_KEY = ("kms:GenerateDataKey", "kms:Decrypt")
_WAKE_PERIODS = 2


def batch_hosting(hosting: HostingSpec, batch: BatchSpec) -> HostingSpec:
    """Give the hosting of the async endpoint beside a real-time one.

    Updated at once: what is under way stays in the queue, and a canary of no instance would show nothing.
    """
    return replace(
        hosting,
        mode=HostingMode.ASYNC,
        instance_type=hosting.instance_type if batch.instance_type is None else batch.instance_type,
        min_count=batch.min_count,
        max_count=batch.max_count,
        scaling=batch.scaling,
        asynchronous=batch.asynchronous,
        deployment=replace(hosting.deployment, strategy=Strategy.ALL_AT_ONCE),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Where requests are put and answers are found, below one prefix of the telemetry bucket."""

    telemetry: TelemetryBucket
    prefix: str

    @property
    def inputs(self) -> str:
        """Callers put requests here."""
        return f"{self.prefix}/input"

    @property
    def outputs(self) -> str:
        """Answers, and failures beside them."""
        return f"{self.prefix}/output"

    @property
    def failures(self) -> str:
        """What the container said of a request that failed."""
        return f"{self.prefix}/failure"

    def url(self, prefix: str) -> str:
        """Give a prefix as the API takes it."""
        return self.telemetry.bucket.s3_url_for_object(prefix)


def exchange_of(endpoint: str, *, spec: AsyncSpec, telemetry: TelemetryBucket) -> Exchange:
    """Give an endpoint's own place."""
    return Exchange(telemetry=telemetry, prefix=f"{spec.output_prefix}/{endpoint}")


class Notifications(Construct):
    """Topics that hear of each answer and each failure: `<endpoint>-succeeded`, `<endpoint>-failed`."""

    def __init__(self, scope: Construct, id_: str, *, endpoint: str, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self._key = key
        self.succeeded = self._topic("Succeeded", f"{endpoint}-succeeded")
        self.failed = self._topic("Failed", f"{endpoint}-failed")

    def grant_publish(self, grantee: iam.IGrantable) -> None:
        """Let SageMaker's role speak to both."""
        arns = [topic.topic_arn for topic in (self.succeeded, self.failed)]
        iam.Grant.add_to_principal(grantee=grantee, actions=["sns:Publish"], resource_arns=arns)
        if self._key is not None:
            self._key.grant(grantee, *_PUBLISH_WITH_KEY)

    def _topic(self, id_: str, name: str) -> sns.Topic:
        return sns.Topic(self, id_, topic_name=name, enforce_ssl=True, master_key=self._key)


def async_config(
    spec: AsyncSpec, *, exchange: Exchange, notifications: Notifications | None, key: kms.IKey | None
) -> AsyncConfig:
    """Give the part of an endpoint config that makes it async."""
    return AsyncConfig(
        client_config=sagemaker.CfnEndpointConfig.AsyncInferenceClientConfigProperty(
            max_concurrent_invocations_per_instance=spec.max_concurrent_invocations
        ),
        output_config=sagemaker.CfnEndpointConfig.AsyncInferenceOutputConfigProperty(
            s3_output_path=exchange.url(exchange.outputs),
            s3_failure_path=exchange.url(exchange.failures),
            kms_key_id=key.key_arn if key is not None else None,
            notification_config=_told(notifications) if notifications is not None else None,
        ),
    )


def _told(topics: Notifications) -> sagemaker.CfnEndpointConfig.AsyncInferenceNotificationConfigProperty:
    return sagemaker.CfnEndpointConfig.AsyncInferenceNotificationConfigProperty(
        success_topic=topics.succeeded.topic_arn, error_topic=topics.failed.topic_arn
    )


def allow_exchange(role: ExecutionRole, *, exchange: Exchange, notifications: Notifications | None) -> None:
    """Let the endpoint's role read requests, write answers of up to a gigabyte and tell of them.

    The actions are those of the SageMaker guide, *async-inference-create-endpoint-prerequisites*.
    """
    exchange.telemetry.grant_read_under(role.role, exchange.inputs)
    for prefix in (exchange.outputs, exchange.failures):
        exchange.telemetry.grant_write_under(role.role, prefix, in_parts=True)
    if notifications is not None:
        notifications.grant_publish(role.role)


class AsyncEndpoint(HostedEndpoint):
    """One variant behind a queue; async endpoints publish no `Invocations` (guide, *async-inference-monitor*)."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        config: EndpointConfig,
        exchange: Exchange,
        deployment: DeploymentSpec,
        guards: tuple[cloudwatch.Alarm, ...],
    ) -> None:
        super().__init__(
            scope,
            id_,
            name=name,
            config=config,
            parts={VARIANT_NAME: variant_dimensions(name, VARIANT_NAME)},
            deployment=deployment,
            guards=guards,
        )
        self.exchange = exchange
        self.queue: Dimensions = {"EndpointName": name}

    def grant_invoke_async(self, grantee: iam.IGrantable) -> None:
        """Let it put requests, queue them and read what came of them."""
        self._grant(grantee, "sagemaker:InvokeEndpointAsync")
        self.exchange.telemetry.grant_write_under(grantee, self.exchange.inputs)
        self.exchange.telemetry.grant_read_under(grantee, self.exchange.outputs)
        self.exchange.telemetry.grant_read_under(grantee, self.exchange.failures)

    def metric_invocations(self, part: str) -> cloudwatch.Metric:
        """Requests that left the queue in a minute."""
        return self._metric("InvocationsProcessed", part, statistic="Sum", label=part)

    def metric_backlog(self) -> cloudwatch.Metric:
        """Requests in the queue or under way."""
        return sagemaker_metric("ApproximateBacklogSize", dimensions=self.queue, statistic="Maximum")

    def metric_oldest_age(self) -> cloudwatch.Metric:
        """Seconds that the oldest request has waited."""
        return sagemaker_metric("ApproximateAgeOfOldestRequest", dimensions=self.queue, statistic="Maximum")


def wake_from_backlog(scaling: Scaling, endpoint: AsyncEndpoint) -> None:
    """Start the first instance for the first request; tracking alone waits until there are more than its target."""
    scaling.wake_on(
        sagemaker_metric("HasBacklogWithoutCapacity", dimensions=endpoint.queue, statistic="Average"),
        periods=_WAKE_PERIODS,
        description=f"{endpoint.name}: requests wait and there is no instance",
    )


class QueueAlarms(Construct):
    """The queue grows beyond what the largest fleet is meant to hold, or its oldest request comes near its end."""

    def __init__(self, scope: Construct, id_: str, *, endpoint: AsyncEndpoint, spec: ScalingSpec, most: int) -> None:
        super().__init__(scope, id_)
        period = Duration.minutes(5)
        cloudwatch.Alarm(
            self,
            "OldestAge",
            alarm_name=f"{endpoint.name}-oldest-age",
            alarm_description=f"{endpoint.name}: a request has waited {_OLDEST_S} s; it is dropped at twice that",
            metric=endpoint.metric_oldest_age().with_(period=period),
            threshold=_OLDEST_S,
            evaluation_periods=3,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        if spec.target_backlog is not None:
            held = spec.target_backlog * most
            cloudwatch.Alarm(
                self,
                "Backlog",
                alarm_name=f"{endpoint.name}-backlog",
                alarm_description=f"{endpoint.name}: more than {held:g} requests wait, what {most} instances hold",
                metric=endpoint.metric_backlog().with_(period=period),
                threshold=held,
                evaluation_periods=6,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
