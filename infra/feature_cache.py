"""The feature cache: Valkey over TLS, reached from the functions only, by a user whose password is an IAM token."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticache as elasticache
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.cache_alarms import Limits, NodeAlarms, ServerlessAlarms
from infra.network import CACHE_PORT, Network, admit
from serving.spec import StageSpec

_ENGINE = "valkey"
_MAJOR_VERSION = "8"
_NODE_VERSION = "8.0"
_NODE_TYPE = "cache.r7g.large"
# What a fault in a caller may cost at most: beyond them the cache refuses (ElastiCache guide, *Scaling serverless*).
_LIMITS = Limits(data_gb=5, ecpu_per_second=100_000)
_SNAPSHOT_DAYS = {"retain": 7, "destroy": 0}
# rows are read and written, limits are counted; nothing administers the server with this user
_ACCESS = "on ~* +@all -@admin -@dangerous"


class FeatureCache(Construct):
    """One cache a stage: serverless, or a replication group with a standby where tails must be steady.

    The user group has one user, who has no password and logs in by IAM: there is no open `default` user beside it.
    """

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec, network: Network, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self._key_id = key.key_arn if key is not None else None
        self._name = f"streamhub-{stage.name}-features"
        self.user_name = self._name
        self._group = ec2.SecurityGroup(
            self, "Group", vpc=network.vpc, description="feature cache", allow_all_outbound=False
        )
        admit(self._group, sources=(network.functions,), port=CACHE_PORT, description="Valkey over TLS")
        self._users = self._user_group()
        if stage.cache == "serverless":
            self._kind = "serverlesscache"
            self.address = self._serverless(network)
        else:
            self._kind = "replicationgroup"
            self.address = self._replication_group(network)

    @property
    def url(self) -> str:
        """`valkeys://<address>:6379`, as STREAMHUB_FEATURES_URL takes it."""
        return f"valkeys://{self.address}:{CACHE_PORT}"

    def grant_connect(self, grantee: iam.IGrantable) -> None:
        """Let it log in as the cache's user with an IAM token."""
        stack = Stack.of(self)
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["elasticache:Connect"],
            resource_arns=[
                f"arn:aws:elasticache:{stack.region}:{stack.account}:{self._kind}:{self._name}",
                f"arn:aws:elasticache:{stack.region}:{stack.account}:user:{self.user_name}",
            ],
        )

    def _user_group(self) -> elasticache.CfnUserGroup:
        user = elasticache.CfnUser(
            self,
            "User",
            engine=_ENGINE,
            user_id=self.user_name,
            user_name=self.user_name,
            access_string=_ACCESS,
            authentication_mode={"Type": "iam"},
        )
        return elasticache.CfnUserGroup(self, "Users", engine=_ENGINE, user_group_id=self._name, user_ids=[user.ref])

    def _serverless(self, network: Network) -> str:
        cache = elasticache.CfnServerlessCache(
            self,
            "Serverless",
            serverless_cache_name=self._name,
            description="feature rows, packed float32",
            engine=_ENGINE,
            major_engine_version=_MAJOR_VERSION,
            security_group_ids=[self._group.security_group_id],
            subnet_ids=network.subnet_ids,
            user_group_id=self._users.ref,
            cache_usage_limits=elasticache.CfnServerlessCache.CacheUsageLimitsProperty(
                data_storage=elasticache.CfnServerlessCache.DataStorageProperty(unit="GB", maximum=_LIMITS.data_gb),
                ecpu_per_second=elasticache.CfnServerlessCache.ECPUPerSecondProperty(maximum=_LIMITS.ecpu_per_second),
            ),
            kms_key_id=self._key_id,
            snapshot_retention_limit=_SNAPSHOT_DAYS[self._stage.removal],
            final_snapshot_name=f"{self._name}-final" if self._stage.removal == "retain" else None,
        )
        ServerlessAlarms(self, "Alarms", cache=self._name, limits=_LIMITS)
        return cache.attr_endpoint_address

    def _replication_group(self, network: Network) -> str:
        subnets = elasticache.CfnSubnetGroup(
            self,
            "Subnets",
            cache_subnet_group_name=self._name,
            description="isolated subnets of the stage",
            subnet_ids=network.subnet_ids,
        )
        cache = elasticache.CfnReplicationGroup(
            self,
            "Replicated",
            replication_group_id=self._name,
            replication_group_description="feature rows, packed float32",
            engine=_ENGINE,
            engine_version=_NODE_VERSION,
            cache_node_type=_NODE_TYPE,
            num_cache_clusters=len(self._stage.availability_zones),
            automatic_failover_enabled=True,
            multi_az_enabled=True,
            port=CACHE_PORT,
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            cache_subnet_group_name=subnets.ref,
            security_group_ids=[self._group.security_group_id],
            user_group_ids=[self._users.ref],
            kms_key_id=self._key_id,
            snapshot_retention_limit=_SNAPSHOT_DAYS[self._stage.removal],
        )
        if self._stage.removal == "retain":
            cache.apply_removal_policy(RemovalPolicy.SNAPSHOT)
        NodeAlarms(self, "Alarms", cache=self._name, nodes=len(self._stage.availability_zones))
        reason = "clients log in as an RBAC user with a 15-minute IAM token; a shared AUTH token would be weaker"
        acknowledge(cache, "AwsSolutions-AEC6", reason=reason)
        return cache.attr_primary_end_point_address
