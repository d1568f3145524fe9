"""What a security review would refuse is in no template of any stage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

# Actions for which AWS has no finer resource (Service Authorization Reference); each is acknowledged at its construct.
NO_FINER_RESOURCE = {
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:RegisterScalableTarget",
    "cloudwatch:PutMetricData",
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "ec2:UnassignPrivateIpAddresses",
    "ecr:GetAuthorizationToken",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
# Only ever together with a condition that narrows them.
CONDITIONED = {"cloudwatch:PutMetricData", "application-autoscaling:RegisterScalableTarget"}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements(stage: Any, part: str | None = None) -> Iterator[dict[str, Any]]:
    for found in stage.all("AWS::IAM::Policy", part):
        yield from found.props["PolicyDocument"]["Statement"]


def allowed(stage: Any, part: str, role: str) -> set[str]:
    """Give every action that the policies of one role allow."""
    return {
        action
        for found in stage.all("AWS::IAM::Policy", part)
        if any(attached["Ref"].startswith(role) for attached in found.props["Roles"])
        for statement in found.props["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
        for action in as_list(statement["Action"])
    }


def test_a_star_resource_stands_only_where_aws_has_no_finer_form(stage: Any) -> None:
    for statement in statements(stage):
        if "*" in as_list(statement["Resource"]) and statement["Effect"] == "Allow":
            actions = set(as_list(statement["Action"]))
            assert actions <= NO_FINER_RESOURCE
            if actions & CONDITIONED:
                assert "Condition" in statement


def test_no_policy_has_a_wildcard_action_or_says_what_it_does_not_mean(stage: Any) -> None:
    for statement in statements(stage):
        assert not [action for action in as_list(statement["Action"]) if "*" in action]
        assert not {"NotAction", "NotResource"} & set(statement)


def test_no_role_takes_a_managed_policy(stage: Any) -> None:
    assert not [role.id for role in stage.all("AWS::IAM::Role") if role.props.get("ManagedPolicyArns")]
    assert not [found.id for found in stage.everything() if found.entry["Type"] == "AWS::IAM::AccessKey"]


def test_each_role_is_assumed_by_one_service(stage: Any) -> None:
    for role in stage.all("AWS::IAM::Role"):
        (statement,) = role.props["AssumeRolePolicyDocument"]["Statement"]
        assert set(statement["Principal"]) == {"Service"}


def test_the_api_invokes_and_counts_but_moves_no_traffic(stage: Any) -> None:
    actions = allowed(stage, "api", "PredictRole")
    assert "sagemaker:InvokeEndpoint" in actions
    assert not {action for action in actions if action.startswith("sagemaker:")} - {"sagemaker:InvokeEndpoint"}
    assert not [action for action in actions if action.startswith(("s3:", "application-autoscaling:"))]


def test_the_release_controller_moves_traffic_but_changes_no_slot(stage: Any) -> None:
    actions = allowed(stage, "release", "ReleaseRole")
    assert {"sagemaker:DescribeEndpoint", "sagemaker:UpdateEndpointWeightsAndCapacities"} <= actions
    forbidden = {"UpdateEndpoint", "CreateEndpoint", "DeleteEndpoint", "CreateEndpointConfig", "InvokeEndpoint"}
    assert not {f"sagemaker:{action}" for action in forbidden} & actions
    assert "iam:PassRole" not in actions


def test_the_release_controller_writes_aliases_log_and_audit_but_no_version(stage: Any) -> None:
    written = {
        resource.split(":::")[1].split("/", 1)[1]
        for found in stage.all("AWS::IAM::Policy", "release")
        if found.props["Roles"][0]["Ref"].startswith("ReleaseRole")
        for statement in found.props["PolicyDocument"]["Statement"]
        if "s3:PutObject" in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }
    for model in stage.slotted():
        assert f"models/{model.name}/aliases/*" in written
        assert f"audit/{model.name}/*" in written
    assert not [place for place in written if "/versions" in place or "/blobs" in place]


def test_the_drift_function_writes_nothing_but_its_reports_and_metrics(stage: Any) -> None:
    actions = allowed(stage, "release", "DriftRole")
    assert not [action for action in actions if action.startswith(("dynamodb:", "sagemaker:"))]
    assert {"cloudwatch:PutMetricData", "s3:PutObject", "s3:GetObject"} <= actions


def test_nobody_deletes_items_objects_or_scans_the_table(stage: Any) -> None:
    actions = {action for statement in statements(stage) for action in as_list(statement["Action"])}
    assert not {"dynamodb:DeleteItem", "dynamodb:Scan", "s3:DeleteObject", "s3:DeleteObjectVersion"} & actions


def test_a_model_reads_its_own_archives_only(stage: Any) -> None:
    for model in stage.models():
        read = {
            resource
            for statement in statements(stage, model.slug)
            if "s3:GetObject" in as_list(statement["Action"])
            for resource in as_list(statement["Resource"])
        }
        bucket = f"streamhub-{stage.stage.name}-registry-{stage.stage.account}"
        archives = {resource for resource in read if "-registry-" in resource}
        assert archives == {f"arn:aws:s3:::{bucket}/models/{model.name}/blobs/*"}
        queue = f"streamhub-{stage.stage.name}-{model.slug}-batch/input/*"
        assert all(resource.endswith(queue) for resource in read - archives), "requests of its own queue"


def test_buckets_are_listed_below_named_prefixes_and_a_missing_object_is_not_found(stage: Any) -> None:
    """S3 says 403, not 404, to who may not list; a request for one object carries no prefix to compare."""
    listings = [found for found in statements(stage) if "s3:ListBucket" in as_list(found["Action"])]
    assert listings
    for statement in listings:
        assert list(statement["Condition"]) == ["StringLikeIfExists"]
        assert all("/" in prefix for prefix in statement["Condition"]["StringLikeIfExists"]["s3:prefix"])


def test_buckets_are_private_versioned_encrypted_and_refuse_plain_http(stage: Any) -> None:
    buckets = stage.all("AWS::S3::Bucket")
    assert {bucket.props["BucketName"] for bucket in buckets} == {
        f"streamhub-{stage.stage.name}-{name}-{stage.stage.account}"
        for name in ("registry", "telemetry", "access-logs")
    }
    for bucket in buckets:
        assert set(bucket.props["PublicAccessBlockConfiguration"].values()) == {True}
        assert bucket.props["BucketEncryption"]
        assert bucket.props.get("VersioningConfiguration") or "access-logs" in bucket.props["BucketName"]
        assert bucket.props.get("LoggingConfiguration") or "access-logs" in bucket.props["BucketName"]


def test_each_bucket_policy_denies_requests_without_tls(stage: Any) -> None:
    policies = {policy.props["Bucket"]["Ref"]: policy for policy in stage.all("AWS::S3::BucketPolicy")}
    assert set(policies) == {bucket.id for bucket in stage.all("AWS::S3::Bucket")}
    for policy in policies.values():
        denials = [
            statement["Condition"]
            for statement in policy.props["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Deny" and statement["Principal"] == {"AWS": "*"}
        ]
        assert {"Bool": {"aws:SecureTransport": "false"}} in denials
        assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in denials


def test_models_never_expire_and_captures_do(stage: Any) -> None:
    rules = {
        bucket.props["BucketName"].split("-")[2]: bucket.props["LifecycleConfiguration"]["Rules"]
        for bucket in stage.all("AWS::S3::Bucket")
    }
    assert not [rule for rule in rules["registry"] if "ExpirationInDays" in rule]
    expiring = {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules["telemetry"] if "ExpirationInDays" in rule}
    batch = any(entry.batch is not None for entry in stage.stage.models.values())
    answers = {"async/": stage.stage.log_retention_days} if batch else {}
    # dev's logs go after a week, staging's after 30 days, and prod's file says 7
    assert expiring == {"capture/": {"dev": 7, "staging": 14, "prod": 7}[stage.stage.name], **answers}


def test_prod_encrypts_data_with_a_rotated_key_of_ours(prod: Any) -> None:
    key = prod.one("AWS::KMS::Key", "registry")
    assert key.props["EnableKeyRotation"] is True
    for bucket in prod.all("AWS::S3::Bucket"):
        rule = bucket.props["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"]
        expected = "AES256" if "access-logs" in bucket.props["BucketName"] else "aws:kms"
        assert rule["SSEAlgorithm"] == expected


def test_nothing_is_open_to_the_internet_and_nothing_reaches_it(stage: Any) -> None:
    kinds = {found.entry["Type"] for found in stage.everything()}
    assert not {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::EIP"} & kinds
    for group in stage.all("AWS::EC2::SecurityGroup"):
        for rule in group.props.get("SecurityGroupIngress", []):
            assert "SourceSecurityGroupId" in rule
            assert rule["FromPort"] == rule["ToPort"]
    assert not [subnet.id for subnet in stage.all("AWS::EC2::Subnet") if subnet.props.get("MapPublicIpOnLaunch")]


def test_every_route_is_signed_but_health_and_contract(stage: Any) -> None:
    routes = {
        route.props["RouteKey"]: route.props["AuthorizationType"] for route in stage.all("AWS::ApiGatewayV2::Route")
    }
    open_routes = {key for key, kind in routes.items() if kind == "NONE"}
    assert open_routes == {"GET /healthz", "GET /openapi.json"}
    assert {key for key in routes if key not in open_routes} >= {
        "POST /v1/moderate",
        "POST /v1/rank",
        "POST /v1/thumbnail-score",
        "POST /v1/thumbnail-score/batch",
        "POST /v1/outcomes",
    }
    assert {kind for key, kind in routes.items() if key not in open_routes} == {"AWS_IAM"}


def test_no_secret_stands_in_a_template(stage: Any) -> None:
    for part, template in stage.templates.items():
        text = json.dumps(template)
        assert "AKIA" not in text, part
        assert "BEGIN" not in text, part
        assert "SecretString" not in text, part
        assert '"Password' not in text, part


@pytest.mark.parametrize("kind", ["AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::Logs::LogGroup", "AWS::KMS::Key"])
def test_a_stage_that_is_kept_keeps_its_data_when_a_stack_goes(kind: str, stage: Any) -> None:
    kept = ("Retain" if kind == "AWS::DynamoDB::Table" else "RetainExceptOnCreate", "Retain")
    policies = kept if stage.stage.removal == "retain" else ("Delete", "Delete")
    for found in stage.all(kind):
        assert (found.entry["DeletionPolicy"], found.entry["UpdateReplacePolicy"]) == policies, found.id


def test_a_failed_first_deploy_leaves_no_name_behind_but_of_what_refuses_to_be_deleted(prod: Any) -> None:
    """CloudFormation keeps what says Retain when it rolls a creation back; the next try finds the name in use."""
    left = {found.entry["Type"] for found in prod.everything() if found.entry.get("DeletionPolicy") == "Retain"}
    assert left == {"AWS::DynamoDB::Table"}


def test_stacks_of_a_kept_stage_are_protected_from_deletion(stage: Any) -> None:
    manifest = json.loads((stage.folder / "manifest.json").read_text())
    stacks = [artifact for artifact in manifest["artifacts"].values() if artifact["type"] == "aws:cloudformation:stack"]
    assert len(stacks) == len(stage.templates)
    for stack in stacks:
        assert stack["properties"].get("terminationProtection", False) is (stage.stage.removal == "retain")


def test_a_kept_registry_locks_what_is_written_for_as_long_as_logs_are_kept(stage: Any) -> None:
    locks = {
        bucket.props["BucketName"].split("-")[2]: bucket.props.get("ObjectLockConfiguration")
        for bucket in stage.all("AWS::S3::Bucket")
    }
    kept = {
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Days": stage.stage.log_retention_days, "Mode": "GOVERNANCE"}},
    }
    assert locks["registry"] == (kept if stage.stage.removal == "retain" else None)
    assert locks["telemetry"] is None


def test_an_interrupted_push_can_go_on_for_a_week_and_what_is_overwritten_goes(stage: Any) -> None:
    (registry,) = [b.props for b in stage.all("AWS::S3::Bucket") if "-registry-" in b.props["BucketName"]]
    (rule,) = registry["LifecycleConfiguration"]["Rules"]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert rule["ExpiredObjectDeleteMarker"] is True


def test_alerts_are_encrypted_with_a_key_that_events_may_use_and_refuse_plain_http(stage: Any) -> None:
    topic = stage.one("AWS::SNS::Topic", "monitoring")
    key = stage.one("AWS::KMS::Key", "monitoring")
    assert topic.props["KmsMasterKeyId"] == {"Fn::GetAtt": [key.id, "Arn"]}
    services = {
        statement["Principal"]["Service"]: set(as_list(statement["Action"]))
        for statement in key.props["KeyPolicy"]["Statement"]
        if "Service" in statement["Principal"]
    }
    assert services["events.amazonaws.com"] >= {"kms:GenerateDataKey", "kms:Decrypt"}
    statements_of_topic = [
        statement
        for policy in stage.all("AWS::SNS::TopicPolicy", "monitoring")
        for statement in policy.props["PolicyDocument"]["Statement"]
    ]
    assert [s for s in statements_of_topic if s["Effect"] == "Deny" and "aws:SecureTransport" in str(s["Condition"])]


def test_each_address_of_the_stage_is_told(project: Any, synthesise: Any) -> None:
    spec = replace(project.stages["dev"], alarm_emails=("on-call@example.com", "team@example.com"))
    told = synthesise(replace(project, stages={**project.stages, "dev": spec}), "dev")
    found = {(one.props["Protocol"], one.props["Endpoint"]) for one in told.all("AWS::SNS::Subscription")}
    assert found == {("email", "on-call@example.com"), ("email", "team@example.com")}


def test_a_customer_key_covers_buckets_table_cache_and_logs(prod: Any) -> None:
    data_key = "DataKey"
    (table,) = prod.all("AWS::DynamoDB::Table")
    assert data_key in str(table.props["SSESpecification"])
    assert data_key in str(prod.one("AWS::ElastiCache::ReplicationGroup", "features").props["KmsKeyId"])
    for group in prod.all("AWS::Logs::LogGroup"):
        assert data_key in str(group.props["KmsKeyId"]), group.id
    (key,) = prod.all("AWS::KMS::Key", "registry")
    (logs,) = [s for s in key.props["KeyPolicy"]["Statement"] if "Service" in s["Principal"]]
    assert logs["Principal"]["Service"] == "logs.us-east-1.amazonaws.com"
    assert logs["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"].endswith(":log-group:*")
    # Logs guide, *encrypt-log-data-kms*
    assert set(logs["Action"]) == {
        "kms:Encrypt",
        "kms:Decrypt",
        "kms:ReEncrypt*",
        "kms:GenerateDataKey*",
        "kms:Describe*",
    }


def test_a_kept_table_cannot_be_deleted(stage: Any) -> None:
    (table,) = stage.all("AWS::DynamoDB::Table")
    assert table.props.get("DeletionProtectionEnabled", False) is (stage.stage.removal == "retain")
