"""The look at an account, against moto: what is asked, what comes back, and what a refusal becomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from moto import mock_aws

from serving.aws import session
from serving.aws.preflight.asking import Clients
from serving.aws.preflight.endpoints import elsewhere_of, endpoints_of, targets_of
from serving.aws.preflight.names import owners_of
from serving.aws.preflight.reader import read_live
from serving.aws.registry import S3ModelRegistry
from serving.preflight.checks.names import new_names
from serving.preflight.live import Live, LiveEndpoint, StoredArchive, Unread
from serving.spec.manifest import PackageManifest
from tests.unit.preflight.accounts import BUCKET, ENDPOINT, FACTS, IMAGE, NEW, OLD, REGION, archive, plan, ranker

BYTES = b"an archive"
DIGEST = hashlib.sha256(BYTES).hexdigest()
ROLE = "arn:aws:iam::123456789012:role/sagemaker"
ACTION_NAMES = {  # where IAM calls an operation something else (Service Authorization Reference)
    "s3:HeadObject": "s3:GetObject",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "lambda:GetFunctionConfiguration": "lambda:GetFunctionConfiguration",
}
IAM_PREFIXES = {"monitoring": "cloudwatch"}


@pytest.fixture(name="aws")
def aws_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Mock AWS and give the operations that are called, as IAM names them."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    called: list[str] = []
    session._session.cache_clear()
    with mock_aws():
        events = session._session().events
        events.register("before-parameter-build", lambda model, **_: called.append(action_of(model)))
        events.register("before-call.iam.SimulatePrincipalPolicy", simulated)  # moto has no simulator
        events.register("before-call.cloudformation", no_stacks)  # moto's wants packages that nothing else needs
        yield called
    session._session.cache_clear()


def simulated(params: Any, **_: Any) -> tuple[AWSResponse, dict[str, Any]]:
    """Deny what creates a bucket."""
    asked = [value for key, value in params["body"].items() if key.startswith("ActionNames")]
    results = [
        {"EvalActionName": action, "EvalDecision": "implicitDeny" if action == "s3:CreateBucket" else "allowed"}
        for action in asked
    ]
    return AWSResponse("", 200, {}, None), {"EvaluationResults": results, "IsTruncated": False}


def no_stacks(model: Any, **_: Any) -> tuple[AWSResponse, dict[str, Any]]:
    """Answer as CloudFormation does where there is no stack."""
    if model.name == "DescribeStackResources":
        refused = {"Error": {"Code": "ValidationError", "Message": "Stack for x does not exist"}}
        return AWSResponse("", 400, {}, None), refused
    return AWSResponse("", 200, {}, None), {"Stacks": []}


def action_of(operation: Any) -> str:
    metadata = operation.service_model.metadata
    service = metadata.get("signingName", metadata["endpointPrefix"])
    action = f"{IAM_PREFIXES.get(service, service)}:{operation.name}"
    return ACTION_NAMES.get(action, action)


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


def deploy_endpoint(*, prefix: bool = False) -> None:
    sagemaker = client("sagemaker")
    for slot, digest in (("a", OLD), ("b", NEW)):
        source = {"S3DataSource": {"S3Uri": f"s3://{BUCKET}/x/", "S3DataType": "S3Prefix", "CompressionType": "None"}}
        held = {"ModelDataSource": source} if prefix else {"ModelDataUrl": archive(digest)}
        sagemaker.create_model(ModelName=f"m-{slot}", ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE, **held})
    variants = [
        {
            "VariantName": slot,
            "ModelName": f"m-{slot}",
            "InstanceType": "ml.c5.large",  # moto knows the types of 2020
            "InitialInstanceCount": 1,
            "InitialVariantWeight": weight,
        }
        for slot, weight in (("a", 1.0), ("b", 0.0))
    ]
    sagemaker.create_endpoint_config(EndpointConfigName="config-1", ProductionVariants=variants)
    sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="config-1")


@pytest.mark.usefixtures("aws")
def test_an_endpoint_is_read_down_to_the_archive_of_each_slot() -> None:
    deploy_endpoint()
    found = endpoints_of(Clients(REGION), plan())[ENDPOINT]
    assert isinstance(found, LiveEndpoint)
    assert (found.status, found.config) == ("InService", "config-1")
    held = {variant.name: (variant.archive, variant.image, variant.instance_type) for variant in found.variants}
    assert held == {"a": (archive(OLD), IMAGE, "ml.c5.large"), "b": (archive(NEW), IMAGE, "ml.c5.large")}


@pytest.mark.usefixtures("aws")
def test_an_endpoint_that_is_not_there_is_absent_and_no_refusal() -> None:
    assert endpoints_of(Clients(REGION), plan()) == {}


@pytest.mark.usefixtures("aws")
def test_instances_of_other_endpoints_are_counted_without_reading_their_models() -> None:
    deploy_endpoint()
    sagemaker = client("sagemaker")
    sagemaker.create_endpoint(EndpointName="somebody-elses", EndpointConfigName="config-1")
    wanted = [{"VariantName": "a", "DesiredWeight": 1.0, "DesiredInstanceCount": 3}]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName="somebody-elses", DesiredWeightsAndCapacities=wanted)
    for slot in "ab":
        sagemaker.delete_model(ModelName=f"m-{slot}")
    assert elsewhere_of(Clients(REGION), plan()) == {"ml.c5.large": 4}


@pytest.mark.usefixtures("aws")
def test_scalable_targets_are_read_by_resource() -> None:
    deploy_endpoint()
    client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId=f"endpoint/{ENDPOINT}/variant/a",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=2,
        MaxCapacity=5,
    )
    targets = targets_of(Clients(REGION))
    assert not isinstance(targets, Unread)
    assert {name: (target.minimum, target.maximum) for name, target in targets.items()} == {
        f"endpoint/{ENDPOINT}/variant/a": (2, 5)
    }


def manifest() -> PackageManifest:
    return PackageManifest(
        name="ranker",
        version="1.0.0",
        archive_sha256=DIGEST,
        size_bytes=len(BYTES),
        files=(),
        spec_sha256="0" * 64,
        runtime="triton",
        image="sagemaker-tritonserver:x",
        licence="Apache-2.0",
        inputs=(),
        outputs=(),
        labels=(),
        thresholds={},
        metrics={},
        training_commit="",
        data_sha256="",
        baseline={},
        toolchain={},
    )


def archives(at: Live) -> dict[str, Any]:
    return dict(at.archives)


@pytest.mark.usefixtures("aws")
def test_archives_are_there_with_their_digest_or_missing() -> None:
    client("s3").create_bucket(Bucket=BUCKET)
    key = archive(OLD).removeprefix(f"s3://{BUCKET}/")
    client("s3").put_object(Bucket=BUCKET, Key=key, Body=BYTES, ChecksumAlgorithm="SHA256")
    found = archives(read_live(plan(), FACTS))
    assert found == {archive(OLD): StoredArchive(objects=1, sha256=DIGEST)}
    client("s3").delete_object(Bucket=BUCKET, Key=key)
    assert archives(read_live(plan(), FACTS)) == {archive(OLD): None}


@pytest.mark.usefixtures("aws")
def test_a_protected_production_wants_every_archive_approved(tmp_path: Path) -> None:
    client("s3").create_bucket(Bucket=BUCKET)
    registry = S3ModelRegistry(BUCKET, client("s3"), clock=lambda: datetime.now(UTC))
    path = tmp_path / "ranker-1.0.0.model.tar.gz"
    path.write_bytes(BYTES)
    registry.push(path, manifest(), actor="ann")
    planned, facts = plan(ranker(a=DIGEST, b=DIGEST)), replace(FACTS, versions={DIGEST: "ranker 1.0.0"})

    def approved() -> dict[str, Any]:
        return dict(read_live(planned, facts).approvals)

    assert approved() == {}, "nobody asks for approvals"
    registry.approvals.protect("ranker", "production", required=True, actor="ann", reason="r")
    assert approved() == {archive(DIGEST): False}
    registry.approvals.approve("ranker", "1.0.0", actor="bob", reason="looked at it")
    assert approved() == {archive(DIGEST): True}
    registry.approvals.revoke("ranker", "1.0.0", actor="bob", reason="no")
    assert approved() == {archive(DIGEST): False}


@pytest.mark.usefixtures("aws")
def test_a_bucket_that_is_nobodys_stack_is_named_as_taken() -> None:
    client("s3").create_bucket(Bucket=BUCKET)
    live = read_live(plan(), FACTS)
    assert live.owners[("AWS::S3::Bucket", BUCKET)] == ""
    assert owners_of(Clients(REGION), new_names(plan(), live)).keys() == {("AWS::S3::Bucket", BUCKET)}


def test_credentials_of_another_account_are_asked_nothing_else(aws: list[str]) -> None:
    live = read_live(plan(account="999999999999"), FACTS)
    assert live.account == "123456789012"
    assert aws == ["sts:GetCallerIdentity"]


def test_every_call_is_in_the_policy_that_the_page_hands_out(aws: list[str], root: Path) -> None:
    client("s3").create_bucket(Bucket="another")
    deploy_endpoint()
    aws.clear()
    read_live(plan(), FACTS)
    document = json.loads((root / "docs" / "preflight-policy.json").read_text())
    allowed = [action.lower() for statement in document["Statement"] for action in statement["Action"]]
    assert len(set(aws)) > 10
    assert {call for call in aws if not any(fnmatchcase(call.lower(), pattern) for pattern in allowed)} == set()


def test_nothing_that_is_called_changes_anything(aws: list[str]) -> None:
    deploy_endpoint()
    aws.clear()
    read_live(plan(), FACTS)
    reading = ("Describe", "List", "Get", "BatchGet", "Simulate")
    assert [call for call in aws if not call.partition(":")[2].startswith(reading)] == []


@pytest.mark.usefixtures("aws")
def test_each_action_is_simulated_on_the_resource_meant() -> None:
    assert read_live(plan(), FACTS).permissions == {
        "application-autoscaling:RegisterScalableTarget": True,
        "s3:CreateBucket": False,
        "sagemaker:CreateEndpoint": True,
        "sagemaker:CreateEndpointConfig": True,
        "sagemaker:CreateModel": True,
    }


@pytest.mark.usefixtures("aws")
def test_a_refusal_is_kept_in_aws_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        error = {"Error": {"Code": "AccessDeniedException", "Message": "User is\nnot authorized"}}
        raise ClientError(error, "DescribeScalableTargets")  # type: ignore[arg-type]

    monkeypatch.setattr("botocore.paginate.PageIterator.__iter__", refuse)
    targets = targets_of(Clients(REGION))
    assert targets == Unread("DescribeScalableTargets: AccessDeniedException, User is not authorized")
