"""Scaling of one variant or component: its bounds, floors for known peaks, and the policies that the spec gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.hosted_endpoint import HostedEndpoint
from infra.metrics import SAGEMAKER, Dimensions, component_dimensions, sagemaker_metric
from serving.spec import (
    ComponentSpec,
    CustomMetricSpec,
    HostingSpec,
    ScalingSpec,
    ScheduleSpec,
    StepPolicySpec,
    StepSpec,
)
from serving.spec.instances import instance_types

_Policy = autoscaling.CfnScalingPolicy
_Target = autoscaling.CfnScalableTarget
_Tracking = _Policy.TargetTrackingScalingPolicyConfigurationProperty
_Stepping = _Policy.StepScalingPolicyConfigurationProperty

_WAKE_COOLDOWN_S = 300
_WAKE_STEPS = (StepSpec(lower=0, add=1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a kind of target is scaled by (guide, *monitoring-cloudwatch*, *endpoint-auto-scaling-add-code-define*).

    `tracked_…` are predefined metrics of Application Auto Scaling, the others those of CloudWatch behind them.
    """

    scalable_dimension: str
    concurrency: str
    tracked_concurrency: str
    invocations: str
    tracked_invocations: str
    gpu_namespace: str
    gpu: str


VARIANT = Load(
    scalable_dimension="sagemaker:variant:DesiredInstanceCount",
    concurrency="ConcurrentRequestsPerModel",
    tracked_concurrency="SageMakerVariantConcurrentRequestsPerModelHighResolution",
    invocations="InvocationsPerInstance",
    tracked_invocations="SageMakerVariantInvocationsPerInstance",
    gpu_namespace="/aws/sagemaker/Endpoints",
    gpu="GPUUtilization",
)
COMPONENT = Load(
    scalable_dimension="sagemaker:inference-component:DesiredCopyCount",
    concurrency="ConcurrentRequestsPerCopy",
    tracked_concurrency="SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
    invocations="InvocationsPerCopy",
    tracked_invocations="SageMakerInferenceComponentInvocationsPerCopy",
    gpu_namespace="/aws/sagemaker/InferenceComponents",
    gpu="GPUUtilizationNormalized",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalable:
    """A variant or component to scale; `name` begins the names of its policies and alarms.

    The spec's share of GPUs is of all of them: GPUUtilization of a variant counts 100 for each of an instance's `gpus`,
    a component's is normalised over what its copy has reserved, as if it were one.
    `backlog` are the dimensions of an async endpoint's queue, None without one.
    """

    name: str
    resource_id: str
    load: Load
    metrics: Dimensions
    least: int
    most: int
    gpus: int
    backlog: Dimensions | None = None


def scalable_variant(
    endpoint: HostedEndpoint, variant: str, *, name: str, hosting: HostingSpec, backlog: Dimensions | None = None
) -> Scalable:
    """Give a variant that holds a model, between the hosting's counts of instances."""
    return Scalable(
        name=name,
        resource_id=f"endpoint/{endpoint.cfn.attr_endpoint_name}/variant/{variant}",
        load=VARIANT,
        metrics=endpoint.parts[variant],
        least=hosting.min_count,
        most=hosting.max_count,
        gpus=instance_types()[hosting.instance_type].gpus,
        backlog=backlog,
    )


def scalable_component(name: str, *, spec: ComponentSpec) -> Scalable:
    """Give an inference component, between its numbers of copies."""
    return Scalable(
        name=name,
        resource_id=f"inference-component/{name}",
        load=COMPONENT,
        metrics=component_dimensions(name),
        least=spec.min_copies,
        most=spec.max_copies,
        gpus=1,
    )


class Scaling(Construct):
    """A scalable target and its policies; it outlives configs, because variants and components keep their names.

    Where policies disagree the largest capacity wins (guide, *async-inference-autoscale*).
    """

    def __init__(self, scope: Construct, id_: str, *, of: Scalable, spec: ScalingSpec) -> None:
        super().__init__(scope, id_)
        self._of = of
        self._target = _Target(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension=of.load.scalable_dimension,
            resource_id=of.resource_id,
            min_capacity=of.least,
            max_capacity=of.most,
            scheduled_actions=[action for each in spec.schedules for action in _floor(each, usual=of.least)] or None,
        )
        for what, tracking in _trackings(of, spec):
            self._policy(what, tracking=tracking)
        if spec.step is not None:
            self._step(spec.step, spec.custom)

    def wake_on(self, metric: cloudwatch.Metric, *, periods: int, description: str) -> None:
        """Add the first instance or copy when `metric` says, in `periods` periods on end, that requests find none.

        Tracking alone would wait: it divides by what there is (guide, *endpoint-auto-scaling-zero-instances*,
        *async-inference-autoscale*).
        """
        stepping = _stepping(_WAKE_STEPS, cooldown_s=_WAKE_COOLDOWN_S)
        policy = self._policy("from-zero", stepping=stepping)
        self._alarm("from-zero", metric=metric, threshold=1, periods=periods, policy=policy, description=description)

    def _step(self, step: StepPolicySpec, custom: CustomMetricSpec | None) -> None:
        policy = self._policy("step", stepping=_stepping(step.steps, cooldown_s=step.cooldown_s))
        metric, of_each = _step_metric(self._of, step, custom)
        self._alarm(
            "step",
            metric=metric,
            threshold=step.threshold * of_each,
            periods=step.periods,
            policy=policy,
            description=f"{self._of.name}: {metric.metric_name} jumped to {step.threshold:g} or more",
        )

    def _policy(
        self, what: str, *, tracking: _Tracking | None = None, stepping: _Stepping | None = None
    ) -> autoscaling.CfnScalingPolicy:
        return _Policy(
            self,
            f"Policy-{what}",
            policy_name=f"{self._of.name}-{what}",
            policy_type="TargetTrackingScaling" if tracking is not None else "StepScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=tracking,
            step_scaling_policy_configuration=stepping,
        )

    def _alarm(
        self,
        what: str,
        *,
        metric: cloudwatch.Metric,
        threshold: float,
        periods: int,
        policy: autoscaling.CfnScalingPolicy,
        description: str,
    ) -> None:
        """Set a policy off; its name begins with no stage's prefix, so that it calls nobody out of bed."""
        alarm = cloudwatch.Alarm(
            self,
            f"Alarm-{what}",
            alarm_name=f"scaling-{self._of.name}-{what}",
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=periods,
            datapoints_to_alarm=periods,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        cfn = alarm.node.default_child
        if not isinstance(cfn, cloudwatch.CfnAlarm):
            raise TypeError(f"got {type(cfn).__name__}; allowed: an alarm of this app")
        cfn.alarm_actions = [policy.ref]


def _floor(schedule: ScheduleSpec, *, usual: int) -> Iterator[_Target.ScheduledActionProperty]:
    """Raise the minimum for a known peak, and give it back."""
    for end, expression, least in (("start", schedule.start, schedule.min_count), ("end", schedule.end, usual)):
        yield _Target.ScheduledActionProperty(
            scheduled_action_name=f"{schedule.name}-{end}",
            schedule=expression,
            timezone=schedule.timezone,
            scalable_target_action=_Target.ScalableTargetActionProperty(min_capacity=least),
        )


def _trackings(of: Scalable, spec: ScalingSpec) -> Iterator[tuple[str, _Tracking]]:
    """Give one tracking for each target of the spec, by the name of its policy."""
    if spec.target_concurrency is not None:
        yield "concurrency", _predefined(of.load.tracked_concurrency, spec.target_concurrency, spec)
    if spec.target_invocations is not None:
        yield "invocations", _predefined(of.load.tracked_invocations, spec.target_invocations, spec)
    if spec.target_gpu_percent is not None:
        yield "gpu", _customized(_gpu_metric(of), spec.target_gpu_percent * of.gpus, spec)
    if spec.target_backlog is not None and of.backlog is not None:
        per_instance = sagemaker_metric("ApproximateBacklogSizePerInstance", dimensions=of.backlog, statistic="Average")
        yield "backlog", _customized(per_instance, spec.target_backlog, spec)
    if spec.custom is not None:
        yield "custom", _customized(_custom_metric(of, spec.custom), spec.custom.target, spec)


def _predefined(metric: str, target: float, spec: ScalingSpec) -> _Tracking:
    return _Tracking(
        predefined_metric_specification=_Policy.PredefinedMetricSpecificationProperty(predefined_metric_type=metric),
        target_value=target,
        scale_in_cooldown=spec.scale_in_cooldown_s,
        scale_out_cooldown=spec.scale_out_cooldown_s,
    )


def _customized(metric: cloudwatch.Metric, target: float, spec: ScalingSpec) -> _Tracking:
    dimensions = metric.dimensions or {}
    return _Tracking(
        customized_metric_specification=_Policy.CustomizedMetricSpecificationProperty(
            namespace=metric.namespace,
            metric_name=metric.metric_name,
            statistic=metric.statistic,
            dimensions=[
                _Policy.MetricDimensionProperty(name=name, value=value) for name, value in sorted(dimensions.items())
            ],
        ),
        target_value=target,
        scale_in_cooldown=spec.scale_in_cooldown_s,
        scale_out_cooldown=spec.scale_out_cooldown_s,
    )


def _stepping(steps: Sequence[StepSpec], *, cooldown_s: int) -> _Stepping:
    return _Stepping(
        adjustment_type="ChangeInCapacity",
        metric_aggregation_type="Maximum",
        cooldown=cooldown_s,
        step_adjustments=[
            _Policy.StepAdjustmentProperty(
                metric_interval_lower_bound=step.lower,
                metric_interval_upper_bound=step.upper,
                scaling_adjustment=step.add,
            )
            for step in steps
        ],
    )


def _step_metric(
    of: Scalable, step: StepPolicySpec, custom: CustomMetricSpec | None
) -> tuple[cloudwatch.Metric, float]:
    """Give what a step policy watches, and what its threshold is multiplied by."""
    period = Duration.seconds(step.period_s)
    match step.metric:
        case "concurrency":
            return _load_metric(of, of.load.concurrency, statistic="Maximum", period=period), 1
        case "invocations":
            return _load_metric(of, of.load.invocations, statistic="Sum", period=period), 1
        case "gpu":
            return _gpu_metric(of, period=period), of.gpus
        case "custom":
            if custom is None:
                raise ValueError("step.metric: got custom without a metric; allowed: with scaling.custom; add that")
            return _custom_metric(of, custom, period=period), 1


def _load_metric(of: Scalable, name: str, *, statistic: str, period: Duration) -> cloudwatch.Metric:
    return sagemaker_metric(name, dimensions=of.metrics, statistic=statistic, namespace=SAGEMAKER, period=period)


def _gpu_metric(of: Scalable, *, period: Duration | None = None) -> cloudwatch.Metric:
    return sagemaker_metric(
        of.load.gpu,
        dimensions=of.metrics,
        statistic="Average",
        namespace=of.load.gpu_namespace,
        period=period or Duration.minutes(1),
    )


def _custom_metric(of: Scalable, custom: CustomMetricSpec, *, period: Duration | None = None) -> cloudwatch.Metric:
    return sagemaker_metric(
        custom.name,
        dimensions=of.metrics,
        statistic=custom.statistic,
        namespace=custom.namespace,
        period=period or Duration.minutes(1),
    )
