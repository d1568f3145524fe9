"""The registry and telemetry buckets, and the key that a stage may want over them."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.lifecycle import removal_policy
from serving.spec import ModelSpec, StageSpec

_OBJECTS = "objects are named as the work goes on; the grant ends at this prefix of this bucket"

# What PutObject needs of a key; Decrypt is for uploads in parts (S3 guide, *UsingKMSEncryption*).
_WRITE_WITH_KEY = ("kms:GenerateDataKey", "kms:Decrypt")

_RESUMABLE_DAYS = 7
_NONCURRENT_DAYS = 30

CAPTURE_PREFIX = "capture"
"""Below it SageMaker writes captured requests as `capture/<endpoint>/<variant>/yyyy/mm/dd/hh/*.jsonl`."""

ACCESS_LOGS = "access-logs"


def bucket_name(stage: StageSpec, name: str) -> str:
    """Give a bucket's name, which never changes: who only grants or writes there needs no reference to its stack."""
    return f"streamhub-{stage.name}-{name}-{stage.account}"


def _node(grantee: iam.IGrantable) -> Construct:
    principal = grantee.grant_principal
    if not isinstance(principal, Construct):
        raise TypeError(f"got a grantee of {type(principal).__name__}; allowed: a role or a function of this app")
    return principal


class DataKey(Construct):
    """A customer-managed key, or none: `encryption` in the stage file decides."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        self.key: kms.Key | None = None
        if stage.encryption == "customer-key":
            self.key = kms.Key(
                self,
                "Key",
                alias=f"alias/streamhub-{stage.name}",
                description=f"models, captures and volumes of StreamHub Inference, {stage.name}",
                enable_key_rotation=True,
                removal_policy=removal_policy(stage),
            )
            self.key.add_to_resource_policy(_logs_statement(stage))


def _logs_statement(stage: StageSpec) -> iam.PolicyStatement:
    """Let CloudWatch Logs use the key for log groups of this account (Logs guide, *encrypt-log-data-kms*: its list)."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"logs.{stage.region}.amazonaws.com")],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
        resources=["*"],
        conditions={
            "ArnLike": {
                "kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:{stage.region}:{stage.account}:log-group:*"
            }
        },
    )


class DataBucket(Construct):
    """A private, versioned bucket: TLS only, encrypted, its accesses logged."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        name: str,
        key: kms.IKey | None,
        access_logs: s3.IBucket,
        lifecycle: tuple[s3.LifecycleRule, ...],
        locked_days: int | None = None,
    ) -> None:
        super().__init__(scope, id_)
        physical_name = bucket_name(stage, name)
        # by its name, which never changes: a grant must not tie the grantee's stack to this one for ever
        self._arn = f"arn:aws:s3:::{physical_name}"
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=physical_name,
            versioned=True,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.KMS if key is not None else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            bucket_key_enabled=True if key is not None else None,
            server_access_logs_bucket=access_logs,
            server_access_logs_prefix=f"{name}/",
            removal_policy=removal_policy(stage),
            object_lock_enabled=True if locked_days is not None else None,
            object_lock_default_retention=s3.ObjectLockRetention.governance(Duration.days(locked_days))
            if locked_days is not None
            else None,
            lifecycle_rules=list(lifecycle),
        )
        self.bucket_name = self.bucket.bucket_name

    def grant_read_under(self, grantee: iam.IGrantable, prefix: str) -> None:
        """Let it get objects below a prefix, and list them."""
        self._grant_objects(grantee, ("s3:GetObject",), prefix)
        self.grant_list_under(grantee, prefix)
        if self.bucket.encryption_key is not None:
            self.bucket.encryption_key.grant_decrypt(grantee)

    def grant_list_under(self, grantee: iam.IGrantable, prefix: str) -> None:
        """Let it list a prefix, which also turns "access denied" for a missing object into "not found".

        A request for one object names no prefix: IfExists is for those.
        """
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucket"],
            resource_arns=[self._arn],
            conditions={"StringLikeIfExists": {"s3:prefix": [prefix, f"{prefix}/*"]}},
        )

    def grant_write_under(self, grantee: iam.IGrantable, prefix: str, *, in_parts: bool = False) -> None:
        """Let it put objects below a prefix, and give up large ones half way; it can delete none."""
        abort = ("s3:AbortMultipartUpload",) if in_parts else ()
        self._grant_objects(grantee, ("s3:PutObject", *abort), prefix)
        if self.bucket.encryption_key is not None:
            self.bucket.encryption_key.grant(grantee, *_WRITE_WITH_KEY)

    def _grant_objects(self, grantee: iam.IGrantable, actions: Sequence[str], prefix: str) -> None:
        resource = f"{self._arn}/{prefix}/*"
        iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=[resource])
        acknowledge(_node(grantee), f"AwsSolutions-IAM5[Resource::{resource}]", reason=_OBJECTS)


class AccessLogBucket(Construct):
    """Where S3 writes who read and wrote the other buckets; SSE-S3, the only encryption that log delivery takes."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=bucket_name(stage, ACCESS_LOGS),
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            removal_policy=removal_policy(stage),
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(stage.log_retention_days))],
        )
        acknowledge(self, "AwsSolutions-S1", reason="it is the log bucket; logging itself would never end")
        if stage.api.shell == "fargate":
            # ELB guide, *enable-access-logging*; the path is the load balancer's prefix and ELB's own
            self.bucket.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal("logdelivery.elasticloadbalancing.amazonaws.com")],
                    actions=["s3:PutObject"],
                    resources=[self.bucket.arn_for_objects(f"api/AWSLogs/{stage.account}/*")],
                )
            )


class RegistryBucket(DataBucket):
    """Model archives by digest, versions, aliases and their log; nothing in it expires.

    In a kept stage every version of an object is locked for as long as logs are kept (governance mode: IAM says who may
    bypass it). CloudFormation sets the lock at creation only, so `removal` of a stage that holds models is not
    changed: another value replaces the bucket, which its fixed name then refuses (S3 guide, *object-lock*).
    """

    def __init__(
        self, scope: Construct, id_: str, *, stage: StageSpec, key: kms.IKey | None, access_logs: s3.IBucket
    ) -> None:
        # an interrupted push goes on from its parts; what is overwritten or collected goes once no lock holds it
        tidy = s3.LifecycleRule(
            abort_incomplete_multipart_upload_after=Duration.days(_RESUMABLE_DAYS),
            noncurrent_version_expiration=Duration.days(_NONCURRENT_DAYS),
            expired_object_delete_marker=True,
        )
        super().__init__(
            scope,
            id_,
            stage=stage,
            name="registry",
            key=key,
            access_logs=access_logs,
            lifecycle=(tidy,),
            locked_days=stage.log_retention_days if stage.removal == "retain" else None,
        )

    def grant_read_model(self, grantee: iam.IGrantable, model: ModelSpec) -> None:
        """Let it read one model: blobs, versions, aliases."""
        self.grant_read_under(grantee, f"models/{model.name}")

    def grant_move_aliases(self, grantee: iam.IGrantable, model: ModelSpec) -> None:
        """Let it point an alias elsewhere and append to the log; versions stay out of reach."""
        for prefix in ("aliases", "log"):
            self.grant_write_under(grantee, f"models/{model.name}/{prefix}")


class TelemetryBucket(DataBucket):
    """Captured requests, answers of async endpoints, drift reports, audit trail.

    Captures expire first, since they are most of it; answers expire with the logs, the others never.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        key: kms.IKey | None,
        access_logs: s3.IBucket,
        answer_prefixes: Sequence[str],
    ) -> None:
        days = dict.fromkeys(answer_prefixes, stage.log_retention_days) | {CAPTURE_PREFIX: stage.captures_kept_days}
        expire = tuple(
            s3.LifecycleRule(
                prefix=f"{prefix}/",
                expiration=Duration.days(kept_days),
                noncurrent_version_expiration=Duration.days(1),
            )
            for prefix, kept_days in sorted(days.items())
        )
        tidy = s3.LifecycleRule(
            abort_incomplete_multipart_upload_after=Duration.days(1),
            noncurrent_version_expiration=Duration.days(_NONCURRENT_DAYS),
        )
        super().__init__(
            scope, id_, stage=stage, name="telemetry", key=key, access_logs=access_logs, lifecycle=(*expire, tidy)
        )
