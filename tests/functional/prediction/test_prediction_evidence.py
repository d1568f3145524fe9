"""Evidence in DynamoDB (moto): what arrives twice counts once, and the table says what a sink in memory says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from serving.aws.evidence import DynamoRecordSink, EvidenceStore
from serving.errors import InvalidRequestError, TelemetryError
from serving.prediction import ids
from serving.prediction.assignment import assign, weight_of
from serving.prediction.ids import PredictionRef
from serving.prediction.types import Exposure, Outcome, Traffic
from serving.telemetry.evidence import StageEvidence
from tests.fakes.prediction import FakeSink, release_record

TABLE = "state"
MODEL = "recommendation_ranker"
RELEASE = "rel-7"
NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)
TRAFFIC = Traffic(production="a", challenger_share=0.5, release_id=RELEASE, stage_index=1, salt="salt")
RECORD = release_record(release_id=RELEASE, stage_index=1)


@pytest.fixture(name="client")
def client_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a DynamoDB client with the state table."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield made_table()


def made_table() -> Any:
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
    return client


def exposure(
    number: int, *, latency_ms: float = 5.0, failed: bool = False, traffic: Traffic = TRAFFIC, keyed: bool = True
) -> Exposure:
    assignment = assign(traffic, f"user_{number}" if keyed else None)
    ref = PredictionRef(
        unique=ids.unique_part(NOW, number.to_bytes(10, "big")),
        model=MODEL,
        version="2.0.0",
        assignment=assignment,
        weight=weight_of(traffic, assignment),
    )
    return Exposure(
        prediction_id=ids.make(ref),
        model=MODEL,
        version="2.0.0",
        assignment=assignment,
        weight=ref.weight,
        latency_ms=latency_ms,
        failed=failed,
        degraded=(),
        at=NOW,
    )


def outcome(of: Exposure, event: Any = "click", value: float = 1.0) -> Outcome:
    return Outcome(prediction_id=of.prediction_id, event=event, value=value, occurred_at=NOW + timedelta(seconds=3))


def read(client: Any) -> StageEvidence:
    return EvidenceStore(client, table=TABLE).read(RECORD)


def test_a_batch_counts_once_however_often_it_is_delivered(client: Any) -> None:
    sink = DynamoRecordSink(client, table=TABLE)
    batch = [exposure(number, failed=number % 10 == 0) for number in range(300)]
    sink.exposures(batch)
    sink.exposures(list(reversed(batch)))  # a redelivery may come in another order
    seen = read(client)
    slots = [row.assignment.slot for row in batch]
    assert (seen.control.total_impressions, seen.challenger.total_impressions) == (slots.count("a"), slots.count("b"))
    assert seen.control.total_errors + seen.challenger.total_errors == 30
    assert seen.control.latency.total + seen.challenger.latency.total == 300


def test_a_batch_that_failed_halfway_counts_once_when_it_is_sent_again(client: Any) -> None:
    batch = [exposure(number) for number in range(300)]
    calls = 0
    write = client.transact_write_items

    def fails_once(**arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise client.exceptions.InternalServerError(
                {"Error": {"Code": "InternalServerError"}}, "TransactWriteItems"
            )
        return write(**arguments)

    client.transact_write_items = fails_once
    sink = DynamoRecordSink(client, table=TABLE)
    with pytest.raises(TelemetryError):
        sink.exposures(batch)
    sink.exposures(batch)
    seen = read(client)
    assert seen.control.total_impressions + seen.challenger.total_impressions == 300


def test_an_outcome_counts_once_in_the_bucket_of_its_unit(client: Any) -> None:
    sink = DynamoRecordSink(client, table=TABLE)
    shown = exposure(1)
    sink.exposures([shown])
    assert sink.outcome(outcome(shown)) is True
    assert sink.outcome(outcome(shown)) is False
    assert sink.outcome(outcome(shown, "watch", 12.5)) is True
    seen = read(client)
    evidence = seen.challenger if shown.assignment.challenger else seen.control
    assert evidence.clicks[shown.assignment.unit_bucket] == evidence.total_clicks == 1
    assert evidence.watch_s[shown.assignment.unit_bucket] == 12.5


def test_a_label_is_kept_with_its_value_and_moves_no_counter(client: Any) -> None:
    shown = exposure(1)
    assert DynamoRecordSink(client, table=TABLE).outcome(outcome(shown, "label", 0.25))
    key = {"pk": {"S": f"OUTCOME#{shown.prediction_id}"}, "sk": {"S": "label"}}
    assert client.get_item(TableName=TABLE, Key=key)["Item"]["value"] == {"N": "0.25"}
    assert read(client) == StageEvidence()


def test_without_a_release_or_a_unit_nothing_is_evidence(client: Any) -> None:
    sink = DynamoRecordSink(client, table=TABLE)
    rows = [exposure(1, traffic=replace(TRAFFIC, release_id="")), exposure(2, keyed=False)]
    sink.exposures(rows)
    assert all(sink.outcome(outcome(row)) for row in rows)
    items = client.scan(TableName=TABLE)["Items"]
    assert {item["pk"]["S"].partition("#")[0] for item in items} == {"OUTCOME"}


def test_a_transaction_is_within_dynamodbs_100_items_at_any_spread(client: Any) -> None:
    sizes: list[int] = []
    write = client.transact_write_items

    def noted(**arguments: Any) -> Any:
        sizes.append(len(arguments["TransactItems"]))
        return write(**arguments)

    client.transact_write_items = noted
    batch = [exposure(number, latency_ms=1.1 ** (number % 150)) for number in range(1_000)]
    DynamoRecordSink(client, table=TABLE).exposures(batch)
    seen = read(client)
    assert max(sizes) <= 100
    assert seen.control.total_impressions + seen.challenger.total_impressions == 1_000


def test_batches_of_a_slot_do_not_all_write_one_item(client: Any) -> None:
    sink = DynamoRecordSink(client, table=TABLE)
    for number in range(40):  # one exposure a batch, as a function writes them
        sink.exposures([exposure(number)])
    items = client.scan(TableName=TABLE)["Items"]
    latency = [item["sk"]["S"] for item in items if "#LATENCY#" in item["sk"]["S"]]
    assert len(latency) > 10
    seen = read(client)
    assert seen.control.latency.total + seen.challenger.latency.total == 40


def test_markers_expire_and_counters_do_not(client: Any) -> None:
    DynamoRecordSink(client, table=TABLE).exposures([exposure(1)])
    for item in client.scan(TableName=TABLE)["Items"]:
        assert ("expires_at" in item) == item["pk"]["S"].startswith("BATCH#")


def test_a_marker_stays_for_days_whatever_time_the_client_gives(client: Any) -> None:
    sink = DynamoRecordSink(client, table=TABLE, now_s=NOW.timestamp)
    late = replace(outcome(exposure(1)), occurred_at=NOW - timedelta(days=365))
    sink.outcome(late)
    key = {"pk": {"S": f"OUTCOME#{late.prediction_id}"}, "sk": {"S": "click"}}
    expires_at = int(client.get_item(TableName=TABLE, Key=key)["Item"]["expires_at"]["N"])
    assert expires_at == (NOW + timedelta(days=30)).timestamp()


def test_a_forged_or_cut_id_is_refused(client: Any) -> None:
    sink = DynamoRecordSink(client, table=TABLE)
    whole = outcome(exposure(1))
    with pytest.raises(InvalidRequestError):
        sink.outcome(replace(whole, prediction_id=whole.prediction_id[:-1]))


def test_writers_that_conflict_try_again(client: Any) -> None:
    write, calls = client.transact_write_items, 0

    def conflicts_twice(**arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise client.exceptions.TransactionCanceledException(
                {
                    "Error": {"Code": "TransactionCanceledException"},
                    "CancellationReasons": [{"Code": "None"}, {"Code": "TransactionConflict"}],
                },
                "TransactWriteItems",
            )
        return write(**arguments)

    client.transact_write_items = conflicts_twice
    DynamoRecordSink(client, table=TABLE).exposures([exposure(1)])
    seen = read(client)
    assert seen.control.total_impressions + seen.challenger.total_impressions == 1


def test_a_missing_table_is_one_clear_error(client: Any) -> None:
    with pytest.raises(TelemetryError, match="STREAMHUB_STATE_TABLE"):
        EvidenceStore(client, table="nowhere").read(RECORD)
    with pytest.raises(TelemetryError, match="STREAMHUB_STATE_TABLE"):
        DynamoRecordSink(client, table="nowhere").exposures([exposure(1)])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 4)),
        st.tuples(st.just("click"), st.integers(0, 39)),
        st.tuples(st.just("watch"), st.integers(0, 39)),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_table_and_the_sink_in_memory_count_the_same(steps: list[tuple[str, int]]) -> None:
    """What tests of the API rely on: its fake is no kinder than the adapter."""
    rows = [exposure(number, latency_ms=number + 1.0, failed=number % 7 == 0) for number in range(40)]
    batches = [rows[start : start + 8] for start in range(0, 40, 8)]
    with mock_aws():
        client = made_table()
        sinks = [DynamoRecordSink(client, table=TABLE), FakeSink()]
        for what, number in steps:
            if what == "batch":
                for sink in sinks:
                    sink.exposures(batches[number])
            else:
                first, second = (sink.outcome(outcome(rows[number], what, 1.0)) for sink in sinks)
                assert first == second
        seen = read(client)
    fake = sinks[1]
    assert isinstance(fake, FakeSink)
    assert seen.control == fake.evidence(MODEL, RELEASE, 1, "a")
    assert seen.challenger == fake.evidence(MODEL, RELEASE, 1, "b")
