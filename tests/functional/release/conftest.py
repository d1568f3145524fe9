"""The stage `dev` as moto holds it: table, buckets and the ranker's endpoint with two slots."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from serving.spec import ModelSpec, StageSpec
from serving.spec.bundle import SpecBundle
from serving.spec.codec import converter

ENDPOINT = "streamhub-dev-recommendation-ranker"
TABLE = "streamhub-dev-state"
TELEMETRY = "streamhub-dev-telemetry-123456789012"
REGISTRY = "streamhub-dev-registry-123456789012"


@dataclass(frozen=True)
class Aws:
    """Clients of one mocked account."""

    dynamodb: Any
    s3: Any
    sagemaker: Any
    scaling: Any

    def weights(self) -> dict[str, float]:
        """Give the endpoint's weights by variant."""
        found = self.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["ProductionVariants"]
        return {variant["VariantName"]: variant["CurrentWeight"] for variant in found}


@pytest.fixture(name="aws")
def aws_fixture(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> Iterator[Aws]:
    """Give an account with what `cdk deploy` leaves there."""
    _specs(root).write(tmp_path)
    for name, value in {
        "STREAMHUB_SPECS_DIR": str(tmp_path),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "STREAMHUB_STAGE": "dev",
        "STREAMHUB_STATE_TABLE": TABLE,
        "STREAMHUB_TELEMETRY_BUCKET": TELEMETRY,
        "STREAMHUB_REGISTRY_BUCKET": REGISTRY,
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        aws = Aws(*(boto3.client(name) for name in ("dynamodb", "s3", "sagemaker", "application-autoscaling")))
        aws.dynamodb.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
        for bucket in (TELEMETRY, REGISTRY):
            aws.s3.create_bucket(Bucket=bucket)
        _endpoint(aws.sagemaker)
        yield aws


def _specs(root: Path) -> SpecBundle:
    ranker = tomllib.loads((root / "models/recommendation_ranker/model.toml").read_text())
    dev = tomllib.loads((root / "stages/dev.toml").read_text())
    dev["models"] = {"recommendation_ranker": dev["models"]["recommendation_ranker"]}
    return SpecBundle(
        models={"recommendation_ranker": converter().structure(ranker, ModelSpec)},
        stages={"dev": converter().structure(dev, StageSpec)},
    )


def _endpoint(sagemaker: Any) -> None:
    role = "arn:aws:iam::123456789012:role/sagemaker"
    sagemaker.create_model(ModelName="ranker", ExecutionRoleArn=role, PrimaryContainer={"Image": "image"})
    variants = [
        {
            "VariantName": slot,
            "ModelName": "ranker",
            "InstanceType": "ml.c5.large",
            "InitialInstanceCount": 1,
            "InitialVariantWeight": weight,
        }
        for slot, weight in (("a", 1.0), ("b", 0.0))
    ]
    sagemaker.create_endpoint_config(EndpointConfigName="ranker", ProductionVariants=variants)
    sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="ranker")
    # moto reports no current weight or count before the first change
    wanted = [
        {"VariantName": slot, "DesiredWeight": weight, "DesiredInstanceCount": 1}
        for slot, weight in (("a", 1.0), ("b", 0.0))
    ]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName=ENDPOINT, DesiredWeightsAndCapacities=wanted)
