"""Record, audit and capacity against moto: what two writers, and a service that refuses, leave behind."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from serving.aws.endpoints import SageMakerEndpointControl
from serving.aws.metrics import CloudWatchMetrics
from serving.aws.releases import DynamoReleaseStore, S3AuditLog
from serving.aws.traffic import DynamoTrafficSource
from serving.errors import EndpointError, ReleaseError, StaleWriteError, TelemetryError
from serving.release.audit import AuditEntry
from serving.release.policy import policy_for
from serving.release.transitions import start
from serving.spec import ReleaseSpec

ENDPOINT = "streamhub-dev-recommendation-ranker"
ROLE = "arn:aws:iam::123456789012:role/sagemaker"
TABLE = "streamhub-dev-state"
TELEMETRY = "streamhub-dev-telemetry-123456789012"
MODEL = "recommendation_ranker"


def entry(*, previous_version: int = 0, actor: str = "ada") -> AuditEntry:
    record = start(
        model=MODEL,
        release_id="3.0.0-20260105T000000Z",
        policy="spec",
        production="a",
        versions={"a": "2.0.0", "b": "3.0.0"},
        weights={"a": 1.0, "b": 0.0},
        instances=1,
        previous_version=previous_version,
        salt="salt",
        actor=actor,
        now=datetime(2026, 1, 5, tzinfo=UTC),
    )
    return AuditEntry(before=None, record=record, policy=policy_for(ReleaseSpec()))


@pytest.fixture(name="store")
def store_fixture(aws: Any) -> DynamoReleaseStore:
    return DynamoReleaseStore(aws.dynamodb, table=TABLE)


def test_what_was_put_is_read_and_is_the_apis_truth(aws: Any, store: DynamoReleaseStore) -> None:
    put = entry()
    store.put(put, expected_version=0)
    assert (store.get(MODEL), store.entry(MODEL, 1), list(store.history(MODEL, limit=5))) == (put.record, put, [put])
    traffic = DynamoTrafficSource(aws.dynamodb, table=TABLE).traffic(MODEL)
    assert (traffic.production, traffic.challenger_share, traffic.salt) == ("a", 0.0, "salt")


@pytest.mark.parametrize("expected", [0, 2])
def test_the_second_of_two_writers_changes_neither_record_nor_history(store: DynamoReleaseStore, expected: int) -> None:
    store.put(entry(), expected_version=0)
    with pytest.raises(StaleWriteError, match="another writer"):
        store.put(entry(previous_version=expected, actor="mallory"), expected_version=expected)
    found = store.get(MODEL)
    assert found is not None
    assert found.actor == "ada"
    assert [row.record.actor for row in store.history(MODEL, limit=5)] == ["ada"]


def test_history_is_newest_first_and_bounded(store: DynamoReleaseStore) -> None:
    for version in range(12):
        store.put(entry(previous_version=version), expected_version=version)
    assert [row.record.version for row in store.history(MODEL, limit=3)] == [12, 11, 10]


def test_an_audit_object_never_changes(aws: Any) -> None:
    log, first = S3AuditLog(aws.s3, bucket=TELEMETRY), entry()
    assert log.has(first.record) is False
    log.write(first)
    log.write(replace(first, record=replace(first.record, actor="mallory")))
    assert log.has(first.record) is True
    key = f"audit/{MODEL}/3.0.0-20260105T000000Z/1.json"
    kept = json.loads(aws.s3.get_object(Bucket=TELEMETRY, Key=key)["Body"].read())
    assert kept["record"]["actor"] == "ada"
    assert kept["policy"]["min_stage"] == 86_400.0


def test_a_table_that_is_not_there_is_a_release_error(aws: Any) -> None:
    store = DynamoReleaseStore(aws.dynamodb, table="nowhere")
    with pytest.raises(ReleaseError, match="STREAMHUB_"):
        store.get(MODEL)
    with pytest.raises(ReleaseError, match="STREAMHUB_"):
        store.history(MODEL, limit=1)
    with pytest.raises(ReleaseError, match="STREAMHUB_"):
        store.put(entry(), expected_version=0)


def test_a_record_of_another_writer_is_refused_with_what_is_wrong(aws: Any, store: DynamoReleaseStore) -> None:
    document = {"S": '{"release_id": 5}'}
    aws.dynamodb.put_item(
        TableName=TABLE, Item={"pk": {"S": f"RELEASE#{MODEL}"}, "sk": {"S": "CURRENT"}, "document": document}
    )
    with pytest.raises(ReleaseError, match="release_id"):
        store.get(MODEL)


def test_weights_change_and_an_unknown_endpoint_is_an_endpoint_error(aws: Any) -> None:
    control = SageMakerEndpointControl(aws.sagemaker, aws.scaling)
    control.set_weights(ENDPOINT, {"a": 0.9, "b": 0.1})
    assert {at.slot: at.weight for at in control.describe(ENDPOINT).variants} == {"a": 0.9, "b": 0.1}
    with pytest.raises(EndpointError, match="endpoint nobody"):
        control.describe("nobody")


def test_what_the_slots_hold_is_read_by_digest_from_the_live_models(aws: Any) -> None:
    held = {"a": "a" * 64, "b": "b" * 64}
    for slot, digest in held.items():
        url = f"s3://registry/models/{MODEL}/blobs/sha256/{digest}/model.tar.gz"
        container = {"Image": "image", "ModelDataUrl": url}
        aws.sagemaker.create_model(ModelName=f"held-{slot}", ExecutionRoleArn=ROLE, PrimaryContainer=container)
    variants = [
        {"VariantName": slot, "ModelName": f"held-{slot}", "InstanceType": "ml.c5.large", "InitialInstanceCount": 1}
        for slot in held
    ]
    aws.sagemaker.create_endpoint_config(EndpointConfigName="held", ProductionVariants=variants)
    aws.sagemaker.create_endpoint(EndpointName="held", EndpointConfigName="held")
    control = SageMakerEndpointControl(aws.sagemaker, aws.scaling)
    assert control.holds("held") == held
    assert control.holds(ENDPOINT) == {}, "its models have no archive"
    with pytest.raises(EndpointError, match="endpoint nobody"):
        control.holds("nobody")


def test_an_endpoint_that_is_updating_refuses_weights_as_an_endpoint_error(aws: Any) -> None:
    with Stubber(aws.sagemaker) as stub:
        stub.add_client_error(
            "update_endpoint_weights_and_capacities",
            service_error_code="ValidationException",
            service_message="Cannot update in-progress endpoint",
        )
        with pytest.raises(EndpointError, match="Cannot update in-progress endpoint"):
            SageMakerEndpointControl(aws.sagemaker, aws.scaling).set_weights(ENDPOINT, {"a": 1.0, "b": 0.0})


def test_capacity_is_asked_for_with_a_minimum_that_keeps_it_and_is_given_back(aws: Any) -> None:
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{ENDPOINT}/variant/b",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    aws.scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=4)
    control = SageMakerEndpointControl(aws.sagemaker, aws.scaling)
    assert control.ensure_instances(ENDPOINT, "b", 1) is True
    assert control.ensure_instances(ENDPOINT, "b", 3) is False
    found = aws.scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"][0]
    assert (found["MinCapacity"], found["MaxCapacity"]) == (3, 4)
    assert {at.slot: at.instances for at in control.describe(ENDPOINT).variants}["b"] == 3
    assert control.ensure_instances(ENDPOINT, "b", 3) is True
    control.set_minimum(ENDPOINT, "b", 1)
    assert aws.scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"][0]["MinCapacity"] == 1


def test_a_slot_that_nothing_scales_has_no_minimum_to_give_back(aws: Any) -> None:
    SageMakerEndpointControl(aws.sagemaker, aws.scaling).set_minimum(ENDPOINT, "b", 1)
    assert aws.scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []


def test_a_metric_carries_its_time_unit_and_dimensions(aws: Any) -> None:
    del aws  # its mock answers
    client, at = boto3.client("cloudwatch"), datetime(2026, 1, 5, 10, tzinfo=UTC)
    dimensions = {"Stage": "dev", "Endpoint": ENDPOINT}
    CloudWatchMetrics(client).put("MaxDriftScore", 0.4, unit="None", dimensions=dimensions, at=at)
    found = client.list_metrics(Namespace="StreamHub/Inference")["Metrics"]
    assert [(row["MetricName"], {d["Name"]: d["Value"] for d in row["Dimensions"]}) for row in found] == [
        ("MaxDriftScore", dimensions)
    ]
    with pytest.raises(TelemetryError, match="metric MaxDriftScore"):
        CloudWatchMetrics(client).put("MaxDriftScore", float("nan"), unit="None", dimensions=dimensions, at=at)
