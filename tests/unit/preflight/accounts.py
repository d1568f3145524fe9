"""A small stage as templates, and the account in which exactly that is live: each test changes one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from serving.preflight.checks.account import ACTIONS
from serving.preflight.compare import compare
from serving.preflight.finding import Finding
from serving.preflight.live import Live, LiveEndpoint, LiveStack, LiveTarget, LiveVariant, StoredArchive
from serving.preflight.planned import Planned, planned_of
from serving.preflight.stage_facts import StageFacts
from serving.preflight.templates import PlannedStack

ACCOUNT, REGION, STAGE = "123456789012", "us-east-1", "test"
ENDPOINT = "streamhub-test-ranker"
BUCKET = "streamhub-test-registry-123456789012"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:26.05-py3-cpu"
OLD, NEW = "a" * 64, "b" * 64
TYPE = "ml.c6i.large"
FACTS = StageFacts(
    file="stages/test.toml", models={ENDPOINT: "ranker"}, versions={OLD: "ranker 1.0.0", NEW: "ranker 2.0.0"}
)


def archive(digest: str) -> str:
    """Give the place of a digest in the registry."""
    return f"s3://{BUCKET}/models/ranker/blobs/sha256/{digest}/model.tar.gz"


def ranker(
    *,
    a: str = OLD,
    b: str = OLD,
    instance_type: str = TYPE,
    image: str = IMAGE,
    slots: tuple[str, ...] = ("a", "b"),
    targets: bool = True,
    bounds: tuple[int, int] = (1, 4),
    endpoint: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Give the template of the ranker's stack, written as the CDK writes it."""
    digests = {"a": a, "b": b}
    resources: dict[str, Any] = {
        f"Model{slot.upper()}": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {
                "PrimaryContainer": {
                    "Image": image,
                    "ModelDataUrl": {
                        "Fn::Join": [
                            "",
                            [
                                "s3://",
                                {"Fn::ImportValue": "streamhub-test-registry:Bucket"},
                                archive(digests.get(slot, a)).removeprefix(f"s3://{BUCKET}"),
                            ],
                        ]
                    },
                }
            },
        }
        for slot in slots
    }
    resources["Config"] = {
        "Type": "AWS::SageMaker::EndpointConfig",
        "Properties": {
            "ProductionVariants": [
                {
                    "VariantName": slot,
                    "InstanceType": instance_type,
                    "InitialInstanceCount": 1,
                    "InitialVariantWeight": 1 if slot == "a" else 0,
                    "ModelName": {"Fn::GetAtt": [f"Model{slot.upper()}", "ModelName"]},
                }
                for slot in slots
            ]
        },
    }
    resources["Endpoint"] = {
        "Type": "AWS::SageMaker::Endpoint",
        "Properties": {
            "EndpointName": ENDPOINT,
            "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
            "RetainAllVariantProperties": True,
            **(endpoint or {}),
        },
    }
    if targets:
        resources |= {f"Target{slot.upper()}": _target(slot, bounds) for slot in slots}
    return {"Resources": resources}


def fleet(*, a: str = OLD, b: str = OLD, largest: int = 3) -> dict[str, Any]:
    """Give the ranker's stack with inference components a and b on one fleet instead of variants."""
    template = ranker(a=a, b=b, targets=False)
    [variant_, _] = template["Resources"]["Config"]["Properties"]["ProductionVariants"]
    del variant_["ModelName"]
    variant_ |= {"VariantName": "fleet", "ManagedInstanceScaling": {"MinInstanceCount": 1, "MaxInstanceCount": largest}}
    template["Resources"]["Config"]["Properties"]["ProductionVariants"] = [variant_]
    for slot in "ab":
        template["Resources"][f"Component{slot.upper()}"] = {
            "Type": "AWS::SageMaker::InferenceComponent",
            "Properties": {
                "InferenceComponentName": f"{ENDPOINT}-{slot}",
                "EndpointName": {"Fn::GetAtt": ["Endpoint", "EndpointName"]},
                "VariantName": "fleet",
                "Specification": {"ModelName": {"Fn::GetAtt": [f"Model{slot.upper()}", "ModelName"]}},
                "RuntimeConfig": {"CopyCount": 1},
            },
        }
    return template


def _target(slot: str, bounds: tuple[int, int]) -> dict[str, Any]:
    return {
        "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
        "Properties": {
            "ServiceNamespace": "sagemaker",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "ResourceId": {
                "Fn::Join": ["", ["endpoint/", {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, f"/variant/{slot}"]]
            },
            "MinCapacity": bounds[0],
            "MaxCapacity": bounds[1],
        },
    }


REGISTRY: dict[str, Any] = {
    "Resources": {
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": BUCKET}, "DeletionPolicy": "Retain"}
    },
    "Outputs": {"Bucket": {"Value": {"Ref": "Bucket"}, "Export": {"Name": "streamhub-test-registry:Bucket"}}},
}


def plan(template: dict[str, Any] | None = None, *, registry: dict[str, Any] | None = None, **change: Any) -> Planned:
    """Give the stage, with another template of the ranker if need be; `change` goes into both stacks."""
    templates = {"streamhub-test-ranker": template or ranker(), "streamhub-test-registry": registry or REGISTRY}
    stacks = [
        PlannedStack(
            name=name,
            account=ACCOUNT,
            region=REGION,
            template=found,
            execution_role=f"arn:aws:iam::{ACCOUNT}:role/cdk-exec",
            bootstrap_parameter="/cdk-bootstrap/hnb659fds/version",
            bootstrap_version=6,
        )
        for name, found in templates.items()
    ]
    return planned_of([replace(stack, **change) for stack in stacks], stage=STAGE)


def variant(name: str, **change: Any) -> LiveVariant:
    """Give a slot as it serves after the first deploy."""
    weight = 1.0 if name == "a" else 0.0
    made = LiveVariant(
        name=name,
        instance_type=TYPE,
        weight=weight,
        desired_weight=weight,
        count=1,
        desired_count=1,
        image=IMAGE,
        archive=archive(OLD),
    )
    return replace(made, **change)


def served(*variants: LiveVariant, **change: Any) -> dict[str, LiveEndpoint]:
    """Give the live endpoint."""
    made = LiveEndpoint(
        name=ENDPOINT, status="InService", config="config-1", variants=variants or (variant("a"), variant("b"))
    )
    return {ENDPOINT: replace(made, **change)}


def live(template: dict[str, Any] | None = None, **change: Any) -> Live:
    """Give the account in which the stage of `plan()` is live."""
    held = template or ranker()
    stacks = {
        "streamhub-test-ranker": LiveStack(
            name="streamhub-test-ranker",
            status="UPDATE_COMPLETE",
            template=held,
            physical={key: f"arn/{'config-1' if key == 'Config' else key}" for key in held["Resources"]},
        ),
        "streamhub-test-registry": LiveStack(
            name="streamhub-test-registry", status="CREATE_COMPLETE", template=REGISTRY, physical={"Bucket": BUCKET}
        ),
    }
    made = Live(
        account=ACCOUNT,
        region=REGION,
        bootstrap=33,
        stacks=stacks,
        endpoints=served(),
        targets={f"endpoint/{ENDPOINT}/variant/{slot}": LiveTarget(minimum=1, maximum=4) for slot in "ab"},
        quotas={TYPE: 40},
        images={IMAGE: True},
        archives={archive(digest): StoredArchive(objects=1, sha256=digest) for digest in (OLD, NEW)},
        permissions=dict.fromkeys((action for action, _ in ACTIONS.values()), True),
    )
    return replace(made, **change)


def found(planned: Planned, account: Live, facts: StageFacts = FACTS) -> tuple[Finding, ...]:
    """Compare."""
    return compare(planned, account, facts)


def checks(findings: tuple[Finding, ...], *levels: str) -> list[str]:
    """Give the names of the checks that found something at these levels."""
    return sorted({finding.check for finding in findings if finding.level in levels})
