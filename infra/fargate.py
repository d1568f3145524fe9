"""The ASGI shell on Fargate behind an internal load balancer: for much traffic, and for streams (docs/adr/0021)."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.buckets import ACCESS_LOGS, bucket_name
from infra.image_repository import repository_name
from infra.lifecycle import log_retention, removal_policy
from infra.network import HTTPS, Network
from serving.spec import StageSpec

CONTAINER_PORT = 8080
IMAGE_USER = "10001:10001"
"""The Dockerfile's own: a number that is not root's."""

COMMAND = ["--host", "0.0.0.0", "--port", str(CONTAINER_PORT)]  # noqa: S104 - in a network of the task's own
_CPU_UNITS = 1024
_MEMORY_MIB = 2048
_CPU_PERCENT = 60
_IDLE_S = (
    65  # below the shell's keep-alive of 120 s: the load balancer closes first (ELB guide, *connection idle timeout*)
)
_DRAIN_S = 30
_MS_PER_S = 1000


class PredictionService(Construct):
    """Cluster, service, load balancer, scaling; no desired count: a deploy keeps the one that scaling chose."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        network: Network,
        environment: Mapping[str, str],
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self._network = network
        self.name = f"streamhub-{stage.name}-predict"
        self._door = ec2.SecurityGroup(
            self, "Door", vpc=network.vpc, description="load balancer of the prediction API", allow_all_outbound=False
        )
        self._tasks = ec2.SecurityGroup(
            self, "Tasks", vpc=network.vpc, description="who may call the tasks", allow_all_outbound=False
        )
        self._connect()
        self._logs = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/streamhub/{stage.name}/predict",
            encryption_key=key,
            retention=log_retention(stage),
            removal_policy=removal_policy(stage),
        )
        task = self._task(environment)
        self.role: iam.IRole = task.task_role
        self._service = self._run(task)
        self._balancer = self._balance()
        self._target = self._listen()
        self._scale()
        self.url = f"https://{self._balancer.load_balancer_dns_name}"

    def metric_requests(self, *, period: Duration) -> cloudwatch.IMetric:
        """Requests, a sum."""
        return self._balancer.metrics.request_count(period=period, statistic="Sum", label="requests")

    def metric_server_errors(self, *, period: Duration) -> cloudwatch.IMetric:
        """Answers of 5xx by tasks and by the load balancer itself, a sum."""
        of_tasks = self._balancer.metrics.http_code_target(
            elb.HttpCodeTarget.TARGET_5XX_COUNT, period=period, statistic="Sum"
        )
        of_balancer = self._balancer.metrics.http_code_elb(
            elb.HttpCodeElb.ELB_5XX_COUNT, period=period, statistic="Sum"
        )
        return cloudwatch.MathExpression(
            expression="FILL(tasks, 0) + FILL(balancer, 0)",
            using_metrics={"tasks": of_tasks, "balancer": of_balancer},
            label="5xx",
            period=period,
        )

    def metric_latency(self, *, period: Duration) -> cloudwatch.IMetric:
        """From the request's leaving the load balancer to its answer, milliseconds, p99."""
        seconds = self._balancer.metrics.target_response_time(period=period, statistic="p99")
        return cloudwatch.MathExpression(
            expression=f"seconds * {_MS_PER_S}", using_metrics={"seconds": seconds}, label="p99 ms", period=period
        )

    def _connect(self) -> None:
        """Clients to the load balancer, it to the tasks; tasks call out by the group of the functions."""
        for cidr in self._stage.api.client_cidrs:
            self._door.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(HTTPS), "clients over TLS")
        self._tasks.add_ingress_rule(self._door, ec2.Port.tcp(CONTAINER_PORT), "load balancer")
        self._door.add_egress_rule(self._tasks, ec2.Port.tcp(CONTAINER_PORT), "tasks")

    def _task(self, environment: Mapping[str, str]) -> ecs.FargateTaskDefinition:
        principal = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            family=self.name,
            cpu=_CPU_UNITS,
            memory_limit_mib=_MEMORY_MIB,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
            task_role=iam.Role(self, "Role", assumed_by=principal),
            execution_role=self._execution_role(principal),
        )
        images = ecr.Repository.from_repository_name(self, "Images", repository_name(self._stage))
        task.add_container(
            "Api",
            container_name="api",
            image=ecs.ContainerImage.from_ecr_repository(images, self._stage.api.image_digest),
            command=COMMAND,
            environment={"STREAMHUB_STAGE": self._stage.name, "AWS_REGION": self._stage.region, **environment},
            user=IMAGE_USER,
            readonly_root_filesystem=True,
            stop_timeout=Duration.seconds(_DRAIN_S),
            port_mappings=[ecs.PortMapping(container_port=CONTAINER_PORT)],
            # a full buffer drops lines instead of holding answers up (ECS guide, *using_awslogs*)
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="api", log_group=self._logs, mode=ecs.AwsLogDriverMode.NON_BLOCKING
            ),
        )
        acknowledge(task, "AwsSolutions-ECS2", reason="names of resources; a task gets its credentials from its role")
        return task

    def _execution_role(self, principal: iam.ServicePrincipal) -> iam.Role:
        """Make the role that starts a task: it pulls from one repository (CDK grants that) and writes one log group."""
        role = iam.Role(self, "Execution", assumed_by=principal)
        reason = "a registry token is not of a repository (Service Authorization Reference)"
        acknowledge(role, "AwsSolutions-IAM5[Resource::*]", reason=reason)
        self._logs.grant_write(role)
        return role

    def _run(self, task: ecs.FargateTaskDefinition) -> ecs.FargateService:
        # as it is: the load balancer reaches the tasks by their own group, and the network's knows no other stack
        callers = ec2.SecurityGroup.from_security_group_id(
            self, "Callers", self._network.functions.security_group_id, mutable=False
        )
        cluster = ecs.Cluster(
            self,
            "Cluster",
            cluster_name=self.name,
            vpc=self._network.vpc,
            container_insights_v2=ecs.ContainerInsights.ENABLED,
        )
        return ecs.FargateService(
            self,
            "Service",
            service_name=self.name,
            cluster=cluster,
            task_definition=task,
            assign_public_ip=False,
            vpc_subnets=ec2.SubnetSelection(subnets=self._network.vpc.isolated_subnets),
            security_groups=[callers, self._tasks],
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.ENABLED,
            health_check_grace_period=Duration.seconds(30),
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )

    def _balance(self) -> elb.ApplicationLoadBalancer:
        balancer = elb.ApplicationLoadBalancer(
            self,
            "Balancer",
            load_balancer_name=f"streamhub-{self._stage.name}-api",
            vpc=self._network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=self._network.vpc.isolated_subnets),
            internet_facing=False,
            security_group=self._door,
            idle_timeout=Duration.seconds(_IDLE_S),
            drop_invalid_header_fields=True,
            desync_mitigation_mode=elb.DesyncMitigationMode.STRICTEST,
            deletion_protection=self._stage.removal == "retain",
        )
        # by its name: the registry stack owns the bucket and lets the log delivery in (infra/buckets.py)
        balancer.set_attribute("access_logs.s3.enabled", "true")
        balancer.set_attribute("access_logs.s3.bucket", bucket_name(self._stage, ACCESS_LOGS))
        balancer.set_attribute("access_logs.s3.prefix", "api")
        return balancer

    def _listen(self) -> elb.ApplicationTargetGroup:
        listener = self._balancer.add_listener(
            "Tls",
            port=HTTPS,
            protocol=elb.ApplicationProtocol.HTTPS,
            ssl_policy=elb.SslPolicy.TLS13_12_RES_PQ,
            certificates=[
                acm.Certificate.from_certificate_arn(self, "Certificate", str(self._stage.api.certificate_arn))
            ],
            open=False,
        )
        return listener.add_targets(
            "Tasks",
            port=CONTAINER_PORT,
            protocol=elb.ApplicationProtocol.HTTP,
            targets=[self._service],
            health_check=elb.HealthCheck(
                path="/healthz",
                healthy_http_codes="200",
                interval=Duration.seconds(10),
                timeout=Duration.seconds(5),
                healthy_threshold_count=2,
                unhealthy_threshold_count=3,
            ),
            deregistration_delay=Duration.seconds(_DRAIN_S),
            load_balancing_algorithm_type=elb.TargetGroupLoadBalancingAlgorithmType.LEAST_OUTSTANDING_REQUESTS,
        )

    def _scale(self) -> None:
        """Follow requests, and CPU for what requests do not tell; out at once, in slowly."""
        api = self._stage.api
        tasks = self._service.auto_scale_task_count(min_capacity=api.min_tasks, max_capacity=api.max_tasks)
        tasks.scale_on_request_count(
            "Requests",
            target_group=self._target,
            # the metric counts a minute's requests (ELB guide, *RequestCountPerTarget*)
            requests_per_target=api.requests_per_task * 60,
            scale_in_cooldown=Duration.minutes(5),
            scale_out_cooldown=Duration.seconds(30),
        )
        tasks.scale_on_cpu_utilization(
            "Cpu",
            target_utilization_percent=_CPU_PERCENT,
            scale_in_cooldown=Duration.minutes(5),
            scale_out_cooldown=Duration.seconds(30),
        )
