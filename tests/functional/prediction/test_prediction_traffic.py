"""The release record as the API reads it (DynamoDB of moto)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from serving.aws.traffic import DynamoTrafficSource
from serving.errors import ReleaseError
from serving.prediction.types import Traffic
from serving.release import transitions
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec import codec
from tests.fakes.prediction import release_record

TABLE = "state"
MODEL = "recommendation_ranker"
NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)


def record(state: ReleaseState = ReleaseState.CANARY, *, share: float = 0.1) -> ReleaseRecord:
    return release_record(state=state, share=share)


@pytest.fixture(name="client")
def client_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a DynamoDB client with the state table."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("dynamodb", region_name="us-east-1")
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


def put(client: Any, written: ReleaseRecord) -> None:
    client.put_item(
        TableName=TABLE,
        Item={
            "pk": {"S": f"RELEASE#{MODEL}"},
            "sk": {"S": "CURRENT"},
            "version": {"N": str(written.version)},
            "document": {"S": codec.to_json(written).decode()},
        },
    )


class Seconds:
    """A monotonic clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def source(client: Any, seconds: Seconds) -> DynamoTrafficSource:
    return DynamoTrafficSource(client, table=TABLE, monotonic=seconds)


def test_without_a_record_all_traffic_is_slot_as_and_no_evidence(client: Any) -> None:
    assert source(client, Seconds()).traffic(MODEL) == Traffic(
        production="a", challenger_share=0.0, release_id="", stage_index=0, salt=MODEL
    )


def test_a_live_release_gives_its_share_stage_and_salt(client: Any) -> None:
    put(client, record(share=0.1))
    assert source(client, Seconds()).traffic(MODEL) == Traffic(
        production="a", challenger_share=0.1, release_id="rel-1", stage_index=1, salt="rel-1"
    )


@pytest.mark.parametrize(
    ("written", "production", "share"),
    [
        (record(ReleaseState.PROMOTING, share=1.0), "a", 1.0),
        (transitions.settle(record(ReleaseState.PROMOTING, share=1.0), {"a": 0.0, "b": 1.0}, NOW), "b", 0.0),
        (record(ReleaseState.ROLLING_BACK, share=0.0), "a", 0.0),
        (record(ReleaseState.INCONCLUSIVE, share=0.0), "a", 0.0),
    ],
    ids=["promoting", "promoted", "rolling back", "inconclusive"],
)
def test_a_release_that_is_not_live_moves_traffic_and_counts_nothing(
    client: Any, written: ReleaseRecord, production: str, share: float
) -> None:
    put(client, written)
    traffic = source(client, Seconds()).traffic(MODEL)
    assert (traffic.production, traffic.challenger_share, traffic.release_id) == (production, share, "")


def test_a_changed_record_is_seen_within_five_seconds_and_read_once_until_then(client: Any) -> None:
    seconds = Seconds()
    traffic = source(client, seconds)
    put(client, record(share=0.1))
    assert traffic.traffic(MODEL).challenger_share == 0.1
    put(client, record(share=0.5))
    assert traffic.traffic(MODEL).challenger_share == 0.1
    seconds.now = 5.0
    assert traffic.traffic(MODEL).challenger_share == 0.5


def test_the_last_known_record_stands_while_the_table_cannot_be_read(client: Any) -> None:
    seconds = Seconds()
    traffic = source(client, seconds)
    put(client, record(share=0.1))
    traffic.traffic(MODEL)
    read, client.get_item = client.get_item, _unreachable
    for seconds.now in (10.0, 100.0, 1000.0):
        assert traffic.traffic(MODEL).challenger_share == 0.1
    client.get_item = read
    put(client, record(share=0.5))
    seconds.now = 1005.0
    assert traffic.traffic(MODEL).challenger_share == 0.5


def test_a_table_that_never_could_be_read_is_an_error(client: Any) -> None:
    client.get_item = _unreachable
    with pytest.raises(ReleaseError, match="STREAMHUB_STATE_TABLE"):
        source(client, Seconds()).traffic(MODEL)


def test_a_table_that_cannot_be_read_is_asked_once_a_second_not_once_a_request(client: Any) -> None:
    calls: list[object] = []

    def noted(**arguments: object) -> None:
        calls.append(arguments)
        _unreachable()

    client.get_item = noted
    seconds = Seconds()
    traffic = source(client, seconds)
    for seconds.now in (0.0, 0.5, 0.9, 1.0):
        with pytest.raises(ReleaseError):
            traffic.traffic(MODEL)
    assert len(calls) == 2


def test_a_damaged_record_is_as_good_as_none_read(client: Any) -> None:
    item = {"pk": {"S": f"RELEASE#{MODEL}"}, "sk": {"S": "CURRENT"}, "document": {"S": "{}"}}
    client.put_item(TableName=TABLE, Item=item)
    with pytest.raises(ReleaseError):
        source(client, Seconds()).traffic(MODEL)


def _unreachable(**_: object) -> None:
    raise EndpointConnectionError(endpoint_url="https://dynamodb.example")
