"""What calls functions: rules, schedules, S3, Kinesis and DynamoDB; once an event, again when they fail, then away."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

ACCOUNT = "123456789012"
NOTES = """
import json
import boto3

def handler(event, _context):
    boto3.client("sqs").send_message(QueueUrl="%(queue)s", MessageBody=json.dumps(event))
    if "poison" in json.dumps(event) or "cG9pc29u" in json.dumps(event):
        raise ValueError("poison")
"""
REPORTS = """
import base64

def handler(event, _context):
    for record in event["Records"]:
        if base64.b64decode(record["kinesis"]["data"]) == b"poison":
            return {"batchItemFailures": [{"itemIdentifier": record["kinesis"]["sequenceNumber"]}]}
"""


class Notes:
    """A function that notes each call in a queue, and a queue for what it could not do."""

    def __init__(self, aws: Any, name: str, **more: Any) -> None:
        self.aws, self.name, self.sqs = aws, name, aws.client("sqs")
        self.calls_url, self.lost_url = (self._queue(f"{name}-{what}") for what in ("calls", "lost"))
        self.lost_arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}-lost"
        sends = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": f"arn:aws:sqs:*:*:{name}-calls"}
        source = NOTES % {"queue": self.calls_url}
        self.arn = aws.function(name, aws.role(f"{name}-role", sends), source, **more)

    def _queue(self, name: str) -> str:
        return str(self.sqs.create_queue(QueueName=name)["QueueUrl"])

    def take(self, url: str) -> list[Any]:
        found = []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"]))
        return found

    def events(self) -> list[Any]:
        return self.take(self.calls_url)

    def lost(self) -> list[Any]:
        return self.take(self.lost_url)


def collected(until: Callable[..., Any], take: Callable[[], list[Any]], count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        found.extend(take())
        return len(found) >= count

    until(enough)
    return found


def test_a_rule_calls_a_function_once_for_each_event(aws: Any, until: Callable[..., Any]) -> None:
    notes, events = Notes(aws, "ruled"), aws.client("events")
    pattern = {"source": ["streamhub.test"], "detail": {"model": [{"prefix": "rank"}]}}
    events.put_rule(Name="ruled", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="ruled", Targets=[{"Id": "1", "Arn": notes.arn}])
    entries = [
        {"Source": "streamhub.test", "DetailType": "t", "Detail": json.dumps({"model": model})}
        for model in ("ranker", "ranker", "moderator")
    ]
    assert events.put_events(Entries=entries)["FailedEntryCount"] == 0
    found = collected(until, notes.events, 2)
    assert [event["detail"]["model"] for event in found] == ["ranker", "ranker"]
    assert len({event["id"] for event in found}) == 2, "the same event twice is two events"
    assert notes.events() == []


def test_a_rules_function_that_fails_is_called_three_times_and_the_event_kept(
    aws: Any, until: Callable[..., Any]
) -> None:
    sends = f"arn:aws:sqs:us-east-1:{ACCOUNT}:doomed-lost"
    notes, events = Notes(aws, "doomed", DeadLetterConfig={"TargetArn": sends}), aws.client("events")
    events.put_rule(Name="doomed", EventPattern=json.dumps({"source": ["streamhub.doomed"]}))
    events.put_targets(Rule="doomed", Targets=[{"Id": "1", "Arn": notes.arn, "Input": '{"model": "poison"}'}])
    events.put_events(Entries=[{"Source": "streamhub.doomed", "DetailType": "t", "Detail": "{}"}])
    [lost] = collected(until, notes.lost, 1)
    assert "poison" in json.dumps(lost)
    assert notes.events() == [{"model": "poison"}] * 3


def test_a_schedule_calls_its_function_with_its_input(aws: Any, until: Callable[..., Any]) -> None:
    notes = Notes(aws, "scheduled")
    at = datetime.now(UTC) + timedelta(seconds=1)
    aws.client("scheduler").create_schedule(
        Name="once",
        ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": notes.arn, "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/any", "Input": '{"model": "ranker"}'},
        ActionAfterCompletion="DELETE",
    )
    assert collected(until, notes.events, 1) == [{"model": "ranker"}]
    assert aws.client("scheduler").list_schedules()["Schedules"] == []


def test_a_bucket_calls_a_function_for_keys_of_its_filter(aws: Any, until: Callable[..., Any]) -> None:
    notes, s3 = Notes(aws, "notified"), aws.client("s3")
    s3.create_bucket(Bucket="notifies")
    rules = [{"Name": "prefix", "Value": "capture/"}, {"Name": "suffix", "Value": ".jsonl"}]
    configuration = {
        "LambdaFunctionArn": notes.arn,
        "Events": ["s3:ObjectCreated:*"],
        "Filter": {"Key": {"FilterRules": rules}},
    }
    aws.client("lambda").add_permission(
        FunctionName="notified", StatementId="s3", Action="lambda:InvokeFunction", Principal="s3.amazonaws.com"
    )
    s3.put_bucket_notification_configuration(
        Bucket="notifies", NotificationConfiguration={"LambdaFunctionConfigurations": [configuration]}
    )
    for key in ("capture/a b.jsonl", "capture/a b.jsonl", "capture/a.txt", "other/a.jsonl"):
        s3.put_object(Bucket="notifies", Key=key, Body=b"1")
    found = collected(until, notes.events, 2)
    assert {record["s3"]["object"]["key"] for event in found for record in event["Records"]} == {"capture/a+b.jsonl"}
    assert notes.events() == []


@pytest.fixture(name="stream")
def stream_fixture(aws: Any) -> tuple[str, str]:
    name = f"stream-{uuid.uuid4()}"
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return name, kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]


def put(aws: Any, stream: str, *texts: str) -> list[str]:
    records = [{"Data": text.encode(), "PartitionKey": "p"} for text in texts]
    return [
        each["SequenceNumber"]
        for each in aws.client("kinesis").put_records(StreamName=stream, Records=records)["Records"]
    ]


def mapped(aws: Any, function: str, source: str, **more: Any) -> None:
    aws.client("lambda").create_event_source_mapping(
        FunctionName=function, EventSourceArn=source, StartingPosition="TRIM_HORIZON", **more
    )


def sizes(calls: list[Any]) -> list[int]:
    return [len(call["Records"]) for call in calls]


def test_a_stream_calls_with_batches_in_order(aws: Any, until: Callable[..., Any], stream: tuple[str, str]) -> None:
    notes, (name, arn) = Notes(aws, "batched"), stream
    numbers = put(aws, name, "a", "b", "b", "c", "d")
    mapped(aws, "batched", arn, BatchSize=2)
    calls = collected(until, notes.events, 3)
    assert sizes(calls) == [2, 2, 1]
    assert [record["kinesis"]["sequenceNumber"] for call in calls for record in call["Records"]] == numbers


def test_a_stream_splits_a_failing_batch_and_tells_its_destination_which_record(
    aws: Any, until: Callable[..., Any], stream: tuple[str, str]
) -> None:
    notes, (name, arn) = Notes(aws, "halved"), stream
    numbers = put(aws, name, "a", "b", "poison", "d")
    mapped(
        aws,
        "halved",
        arn,
        BatchSize=4,
        MaximumRetryAttempts=1,
        BisectBatchOnFunctionError=True,
        DestinationConfig={"OnFailure": {"Destination": notes.lost_arn}},
    )
    [lost] = collected(until, notes.lost, 1)
    info = lost["KinesisBatchInfo"]
    assert lost["requestContext"]["condition"] == "RetryAttemptsExhausted"
    assert (info["startSequenceNumber"], info["endSequenceNumber"]) == (numbers[2], numbers[2])
    assert (info["batchSize"], info["streamArn"]) == (1, arn)
    # whole, first half, second half, its first record twice (one retry), its second
    assert sizes(collected(until, notes.events, 6)) == [4, 2, 2, 1, 1, 1]


def test_a_stream_goes_on_from_the_item_that_a_function_reports(
    aws: Any, until: Callable[..., Any], stream: tuple[str, str]
) -> None:
    notes, (name, arn) = Notes(aws, "reported"), stream
    aws.function("reports", aws.role("reports-role", {"Effect": "Deny", "Action": "*", "Resource": "*"}), REPORTS)
    numbers = put(aws, name, "a", "poison", "c")
    mapped(
        aws,
        "reports",
        arn,
        MaximumRetryAttempts=0,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": notes.lost_arn}},
    )
    [lost] = collected(until, notes.lost, 1)
    assert (lost["KinesisBatchInfo"]["startSequenceNumber"], lost["KinesisBatchInfo"]["batchSize"]) == (numbers[1], 2)


def test_a_table_calls_with_its_changes_and_gives_up_after_retries(aws: Any, until: Callable[..., Any]) -> None:
    notes, dynamodb = Notes(aws, "changed"), aws.client("dynamodb")
    made = dynamodb.create_table(
        TableName="changes",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )["TableDescription"]
    mapped(
        aws,
        "changed",
        made["LatestStreamArn"],
        BatchSize=1,
        MaximumRetryAttempts=1,
        DestinationConfig={"OnFailure": {"Destination": notes.lost_arn}},
    )
    for key in ("a", "poison", "c"):
        dynamodb.put_item(TableName="changes", Item={"pk": {"S": key}})
    calls = collected(until, notes.events, 4)
    keys = [call["Records"][0]["dynamodb"]["Keys"]["pk"]["S"] for call in calls]
    assert keys == ["a", "poison", "poison", "c"]
    [lost] = collected(until, notes.lost, 1)
    assert lost["DDBStreamBatchInfo"]["batchSize"] == 1


@pytest.mark.parametrize(
    "setting",
    [
        {"ParallelizationFactor": 2},
        {"TumblingWindowInSeconds": 30},
        {"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:s3:::lost"}}},
        {"StartingPosition": "AT_TIMESTAMP"},
    ],
)
def test_what_a_mapping_does_not_do_here_is_refused_by_name(
    aws: Any, stream: tuple[str, str], setting: dict[str, Any]
) -> None:
    client = aws.client("lambda")
    [name] = setting
    if not any(each["FunctionName"] == "refusing" for each in client.list_functions()["Functions"]):
        aws.function("refusing", aws.role("refusing-role", {"Effect": "Deny", "Action": "*", "Resource": "*"}), REPORTS)
    asked = {"StartingPosition": "LATEST", **setting}
    with pytest.raises(client.exceptions.InvalidParameterValueException, match=f"{name}: got "):
        client.create_event_source_mapping(FunctionName="refusing", EventSourceArn=stream[1], **asked)
    if name == "StartingPosition":
        return  # which cannot be changed
    kept = client.create_event_source_mapping(
        FunctionName="refusing", EventSourceArn=stream[1], StartingPosition="LATEST", Enabled=False
    )["UUID"]
    with pytest.raises(client.exceptions.InvalidParameterValueException, match=f"{name}: got "):
        client.update_event_source_mapping(UUID=kept, **setting)
    client.delete_event_source_mapping(UUID=kept)
