"""A SageMaker model: one version's archive or files, by digest, in the container of its runtime."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.buckets import CAPTURE_PREFIX, RegistryBucket, TelemetryBucket
from infra.container_logs import ContainerLogs
from infra.images import ContainerImage
from infra.network import Network
from serving.spec import ModelSpec, VllmRuntime
from serving.spec.container import environment_of
from serving.spec.manifest import LockedVersion, blob_key, tree_prefix

_NO_FINER_FORM = "AWS has no finer resource for these actions (Service Authorization Reference)"
_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage")
_VOLUME_KEY = ("kms:DescribeKey", "kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey")
_DESCRIBE_NETWORK = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
_USE_NETWORK = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)
_LOG = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents")
_NAMESPACES = ("AWS/SageMaker", "/aws/sagemaker/Endpoints", "/aws/sagemaker/InferenceComponents")


class ExecutionRole(Construct):
    """What SageMaker may do for one endpoint: fetch its model and image, join the network, log, and what is allowed.

    The list is the one of the SageMaker guide (*sagemaker-roles*, CreateModel and CreateEndpointConfig), narrowed.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        endpoint: str,
        model: ModelSpec,
        image: ContainerImage,
        network: Network,
        logs: ContainerLogs,
    ) -> None:
        super().__init__(scope, id_)
        self._endpoint = endpoint
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description=f"SageMaker hosts {model.name} at {endpoint}",
        )
        self._allow_image(image)
        self._allow_network(network)
        self._allow_logs(logs)

    def allow_model(self, *, model: ModelSpec, registry: RegistryBucket) -> None:
        """Let it read the model's packages."""
        registry.grant_read_under(self.role, f"models/{model.name}/blobs")

    def allow_capture(self, telemetry: TelemetryBucket) -> None:
        """Let it write captured requests of its endpoint."""
        telemetry.grant_write_under(self.role, f"{CAPTURE_PREFIX}/{self._endpoint}")

    def allow_guards(self, *names: str) -> None:
        """Let it read the alarms that may roll a deployment back.

        By their names: the alarms name the config, which names the model, which waits for this role.
        """
        stack = Stack.of(self)
        prefix = f"arn:aws:cloudwatch:{stack.region}:{stack.account}:alarm"
        self._allow(("cloudwatch:DescribeAlarms",), *(f"{prefix}:{name}" for name in names))

    def allow_volume_key(self, key: kms.IKey) -> None:
        """Let it encrypt instance volumes with the stage's key (SageMaker guide, *sagemaker-roles*)."""
        key.grant(self.role, *_VOLUME_KEY)
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["kms:CreateGrant"],
                resources=[key.key_arn],
                conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
            )
        )

    def _allow_image(self, image: ContainerImage) -> None:
        self._allow(_PULL, image.repository_arn)
        self._allow(("ecr:GetAuthorizationToken",), "*")
        acknowledge(self.role, "AwsSolutions-IAM5[Resource::*]", reason=_NO_FINER_FORM)

    def _allow_network(self, network: Network) -> None:
        stack = Stack.of(self)
        interfaces = stack.format_arn(service="ec2", resource="network-interface", resource_name="*")
        subnets = [
            stack.format_arn(service="ec2", resource="subnet", resource_name=subnet) for subnet in network.subnet_ids
        ]
        group = stack.format_arn(
            service="ec2", resource="security-group", resource_name=network.models.security_group_id
        )
        self._allow(_USE_NETWORK, interfaces, *subnets, group)
        self._allow(_DESCRIBE_NETWORK, "*")
        reason = "interfaces are named when SageMaker makes them; subnets and group are named here"
        acknowledge(self.role, f"AwsSolutions-IAM5[Resource::{interfaces}]", reason=reason)

    def _allow_logs(self, logs: ContainerLogs) -> None:
        stack = Stack.of(self)
        groups = [f"arn:aws:logs:{stack.region}:{stack.account}:log-group:{name}" for name in logs.names]
        streams = [f"{group}:*" for group in groups]
        self._allow(_LOG, *groups, *streams)
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": list(_NAMESPACES)}},
            )
        )
        for stream in streams:
            reason = "log streams are named by instance and container; the group is named"
            acknowledge(self.role, f"AwsSolutions-IAM5[Resource::{stream}]", reason=reason)
        # whoever may write there would make the group itself if it were not there yet
        self.role.node.add_dependency(logs)

    def _allow(self, actions: tuple[str, ...], *resources: str) -> None:
        self.role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources)))


class ModelVersion(Construct):
    """One version as a SageMaker Model; never named, since every change of it makes a new one.

    Isolation and network are the model's own where a variant holds it, and the endpoint config's where a component
    does (`network` None): the API has both places and says the config's is for all containers of the endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        model: ModelSpec,
        locked: LockedVersion,
        image: ContainerImage,
        role: iam.IRole,
        registry: RegistryBucket,
        network: Network | None,
        stage_deadline_ms: float | None = None,
    ) -> None:
        super().__init__(scope, id_)
        archive = None if _is_prefix(model) else blob_key(model.name, locked.sha256)
        self.cfn = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=role.role_arn,
            enable_network_isolation=True if network is not None else None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=image.uri,
                model_data_url=registry.bucket.s3_url_for_object(archive) if archive is not None else None,
                model_data_source=None if archive is not None else _files(model, locked, registry),
                environment={**environment_of(model), **_deadline(stage_deadline_ms)},
            ),
            vpc_config=_vpc(network) if network is not None else None,
        )
        # CreateModel tries the role's permissions, which are a policy of its own
        self.cfn.node.add_dependency(role)
        self.model_name = self.cfn.attr_model_name


def _is_prefix(model: ModelSpec) -> bool:
    return isinstance(model.runtime, VllmRuntime) and model.runtime.layout == "prefix"


def _files(
    model: ModelSpec, locked: LockedVersion, registry: RegistryBucket
) -> sagemaker.CfnModel.ModelDataSourceProperty:
    """Give the files below a prefix, which ends in a slash (API reference, *S3ModelDataSource*)."""
    return sagemaker.CfnModel.ModelDataSourceProperty(
        s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
            s3_data_type="S3Prefix",
            compression_type="None",
            s3_uri=registry.bucket.s3_url_for_object(tree_prefix(model.name, locked.sha256)),
        )
    )


def _deadline(deadline_ms: float | None) -> dict[str, str]:
    """Give a stage's own deadline to our model server; Triton has the archive's, in config.pbtxt, and ignores it."""
    return {} if deadline_ms is None else {"STREAMHUB_DEADLINE_MS": f"{deadline_ms:g}"}


def _vpc(network: Network) -> sagemaker.CfnModel.VpcConfigProperty:
    return sagemaker.CfnModel.VpcConfigProperty(
        security_group_ids=[network.models.security_group_id], subnets=network.subnet_ids
    )
