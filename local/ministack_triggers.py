"""ministack's triggers of functions, with what AWS does and it does not: retries, halves and destinations.

A rule's or a schedule's call of a function that fails is made again and ends in the function's dead-letter queue.
A stream's batch that fails is treated by the rules of `local.stream_batches`.
"""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final

import orjson

from local.stream_batches import Condition, Progress, Rules, Step, after, expired, first_failed

_LAMBDA = "ministack.services.lambda_svc"
_EVENTS = "ministack.services.eventbridge"
_KINESIS = "ministack.services.kinesis"
_DYNAMODB = "ministack.services.dynamodb"
_ARN = "ministack.core.arn"
_RESPONSES = "ministack.core.responses"

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    _LAMBDA: (
        "_create_esm",
        "_dynamodb_stream_positions",
        "_apply_filter_criteria",
        "_esm_backoff_until",
        "_esm_wake",
        "_execute_function",
        "_execution_record_for_config",
        "_get_func_record_for_qualifier",
        "_get_func_record_for_ref",
        "_iter_all_esms",
        "_kinesis_positions",
        "_poll_dynamodb_streams",
        "_poll_kinesis",
        "_update_esm",
        "error_response_json",
        "invoke_async_with_retry",
    ),
    _EVENTS: ("_dispatch_to_lambda", "_dispatch_to_sns", "_dispatch_to_sqs"),
    _KINESIS: ("_streams",),
    _DYNAMODB: ("_tables", "stream_end_position", "stream_records_since", "stream_start_position"),
    _ARN: ("parse_arn",),
    _RESPONSES: ("set_request_account_id", "set_request_region"),
}
"""Every name of ministack that this module touches."""

_BACKOFF_S: Final = 0.2
"""How long a mapping rests behind a failed call; AWS waits longer with each."""
_REFUSED: Final[Mapping[str, Sequence[Any]]] = {
    "TumblingWindowInSeconds": (0,),
    "ParallelizationFactor": (1,),
    "StartingPosition": ("LATEST", "TRIM_HORIZON"),
}
"""What a mapping of a stream may ask for of settings that the local stack does not act by."""
_DESTINATIONS: Final = (":sqs:", ":sns:")


@dataclass(frozen=True, slots=True)
class _Shard:
    """What one mapping reads: a shard, its records from the mapping's position on, and where that is written."""

    name: str
    position: int
    records: Sequence[Mapping[str, Any]]
    positions: Any
    key: str


class Triggers:
    """Puts itself in the place of ministack's pollers of streams and of its one call without a retry."""

    def __init__(self) -> None:
        self._progress: dict[tuple[str, str], Progress] = {}
        self._lambda: Any = import_module(_LAMBDA)
        self._events: Any = import_module(_EVENTS)

    def install(self) -> None:
        """Take the places."""
        made, changed = self._lambda._create_esm, self._lambda._update_esm
        self._events._dispatch_to_lambda = self._call_in_the_background
        self._lambda._poll_kinesis = lambda: self._poll("kinesis", self._kinesis)
        self._lambda._poll_dynamodb_streams = lambda: self._poll("dynamodb", self._dynamodb)
        self._lambda._create_esm = lambda asked: self._refusal(asked) or made(asked)
        self._lambda._update_esm = lambda name, asked: self._refusal(asked) or changed(name, asked)

    def _call_in_the_background(self, arn: str, payload: str) -> None:
        function, config, _ = self._lambda._get_func_record_for_ref(arn)
        if function and config:
            try:
                event = orjson.loads(payload)
            except orjson.JSONDecodeError:  # an input transformer's plain text
                event = payload
            self._lambda.invoke_async_with_retry(self._lambda._execution_record_for_config(function, config), event)

    def _refusal(self, asked: Mapping[str, Any]) -> Any:  # noqa: ANN401 - ministack's own answer
        for name, taken in _REFUSED.items():
            if name in asked and asked[name] not in taken:
                text = f"{name}: got {asked[name]}; allowed in the local stack: {', '.join(map(str, taken))}"
                return self._lambda.error_response_json("InvalidParameterValueException", text, 400)
        target = _destination(asked)
        if target and not any(service in target for service in _DESTINATIONS):
            text = f"DestinationConfig: got {target}; allowed in the local stack: a queue of SQS, a topic of SNS"
            return self._lambda.error_response_json("InvalidParameterValueException", text, 400)
        return None

    def _poll(self, service: str, shards: Any) -> bool:  # noqa: ANN401 - one of the two methods below
        """Call the function of every mapping that has records; say whether any of them went on."""
        responses = import_module(_RESPONSES)
        moved = False
        for account, region, mapping in list(self._lambda._iter_all_esms()):
            source = str(mapping.get("EventSourceArn", ""))
            if f":{service}:" not in source or not mapping.get("Enabled", True):
                continue
            responses.set_request_account_id(account)
            responses.set_request_region(region)
            rests_until = self._lambda._esm_backoff_until.get(mapping["UUID"], 0)
            function, _ = self._lambda._get_func_record_for_qualifier(mapping["FunctionName"], mapping.get("Qualifier"))
            if function is not None and rests_until <= time.time():
                for shard in shards(mapping, source):
                    moved = self._batch(mapping, function, shard) or moved
        return moved

    def _batch(self, mapping: dict[str, Any], function: dict[str, Any], shard: _Shard) -> bool:
        rules = _rules(mapping)
        progress = self._progress.get((mapping["UUID"], shard.name), Progress())
        taken = shard.records[: progress.size(rules)]
        dropped = expired(progress, rules, [time.time() - _arrived(record) for record in taken])
        if dropped is not None:
            self._go_on(mapping, shard, dropped)
            lost = taken[: dropped.done]
            self._tell(mapping, _given_up(mapping, shard.name, lost, "MaximumRecordAgeExceeded", progress.retries))
            return True
        wanted = self._lambda._apply_filter_criteria(list(taken), mapping)
        failed_at = None
        if wanted:
            failed_at = _failed_at(self._lambda._execute_function(function, {"Records": wanted}), taken, rules)
        step = after(progress, rules, taken=len(taken), failed_at=failed_at)
        self._go_on(mapping, shard, step)
        mapping["LastProcessingResult"] = "OK" if failed_at is None else "PROBLEM: Function call failed"
        if failed_at is not None and step.given_up is not None:
            self._tell(mapping, _given_up(mapping, shard.name, taken[failed_at:], step.given_up, progress.retries + 1))
        if failed_at is not None and step.given_up is None and not step.done:
            self._lambda._esm_backoff_until[mapping["UUID"]] = time.time() + _BACKOFF_S
            wake = threading.Timer(_BACKOFF_S, self._lambda._esm_wake.set)
            wake.daemon = True
            wake.start()
        return step.done > 0

    def _go_on(self, mapping: Mapping[str, Any], shard: _Shard, step: Step) -> None:
        shard.positions[shard.key] = shard.position + step.done
        self._progress[mapping["UUID"], shard.name] = step.progress

    def _tell(self, mapping: Mapping[str, Any], document: Mapping[str, Any]) -> None:
        """Send what was given up to the mapping's destination, if it has one."""
        target = _destination(mapping)
        text = orjson.dumps(document).decode()
        if ":sqs:" in target:
            self._events._dispatch_to_sqs(import_module(_ARN).parse_arn(target), text)
        elif ":sns:" in target:
            self._events._dispatch_to_sns(target, text)

    def _kinesis(self, mapping: Mapping[str, Any], source: str) -> Iterator[_Shard]:
        stream = import_module(_KINESIS)._streams.get(source.rpartition("/")[2])
        if not stream or stream["StreamStatus"] != "ACTIVE":
            return
        all_positions = self._lambda._kinesis_positions
        if mapping["UUID"] not in all_positions:
            all_positions[mapping["UUID"]] = {
                name: 0 if mapping.get("StartingPosition") == "TRIM_HORIZON" else len(shard["records"])
                for name, shard in stream["shards"].items()
            }
        positions = all_positions[mapping["UUID"]]
        for name, shard in stream["shards"].items():
            at = positions.setdefault(name, 0)  # a shard that is newer than the mapping is read from its start
            found = [_kinesis_record(record, name, source) for record in shard["records"][at : at + _most(mapping)]]
            if found:
                yield _Shard(name, at, found, positions, name)

    def _dynamodb(self, mapping: Mapping[str, Any], source: str) -> Iterator[_Shard]:
        dynamodb = import_module(_DYNAMODB)
        name = source.partition("table/")[2].partition("/")[0]
        table = dynamodb._tables.get(name)
        if not table or table.get("LatestStreamArn") != source:
            return
        positions, key = self._lambda._dynamodb_stream_positions, mapping["UUID"]
        oldest = dynamodb.stream_start_position(name)
        starts_at = oldest if mapping.get("StartingPosition") == "TRIM_HORIZON" else dynamodb.stream_end_position(name)
        at = positions[key] = max(positions.get(key, starts_at), oldest)
        found = dynamodb.stream_records_since(name, at, _most(mapping))
        if found:
            yield _Shard(_ONE_SHARD, at, found, positions, key)


_ONE_SHARD: Final = "shardId-00000000000000000000-00000000"
"""A table's stream has one shard here."""
_DEFAULT_BATCH: Final = 100


def _destination(mapping: Mapping[str, Any]) -> str:
    return str(((mapping.get("DestinationConfig") or {}).get("OnFailure") or {}).get("Destination") or "")


def _most(mapping: Mapping[str, Any]) -> int:
    return int(mapping.get("BatchSize") or _DEFAULT_BATCH)


def _rules(mapping: Mapping[str, Any]) -> Rules:
    return Rules(
        batch_size=_most(mapping),
        most_retries=int(mapping.get("MaximumRetryAttempts", -1)),
        most_age_s=float(mapping.get("MaximumRecordAgeInSeconds", -1)),
        bisects=bool(mapping.get("BisectBatchOnFunctionError", False)),
        reports_items="ReportBatchItemFailures" in (mapping.get("FunctionResponseTypes") or ()),
    )


def _failed_at(result: Mapping[str, Any], taken: Sequence[Mapping[str, Any]], rules: Rules) -> int | None:
    if result.get("error"):
        return 0
    return first_failed(result.get("body"), [_sequence(record) for record in taken]) if rules.reports_items else None


def _body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    body: Mapping[str, Any] = record["kinesis"] if "kinesis" in record else record["dynamodb"]
    return body


def _sequence(record: Mapping[str, Any]) -> str:
    body = _body(record)
    return str(body["sequenceNumber"] if "kinesis" in record else body["SequenceNumber"])


def _arrived(record: Mapping[str, Any]) -> float:
    body = _body(record)
    return float(body["approximateArrivalTimestamp" if "kinesis" in record else "ApproximateCreationDateTime"])


def _kinesis_record(record: Mapping[str, Any], shard: str, source: str) -> dict[str, Any]:
    """Give a record as Lambda's event has it."""
    data = record["Data"]
    text = data if isinstance(data, str) else base64.b64encode(data).decode()  # it keeps what was sent in base 64
    return {
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": record["PartitionKey"],
            "sequenceNumber": record["SequenceNumber"],
            "data": text,
            "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"],
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"{shard}:{record['SequenceNumber']}",
        "eventName": "aws:kinesis:record",
        "awsRegion": source.split(":")[3],
        "eventSourceARN": source,
    }


def _given_up(
    mapping: Mapping[str, Any], shard: str, records: Sequence[Mapping[str, Any]], why: Condition, calls: int
) -> dict[str, Any]:
    """Give what a destination is told (Lambda Developer Guide, "Retain discarded batch records"): not the records."""
    kind = "KinesisBatchInfo" if "kinesis" in records[0] else "DDBStreamBatchInfo"
    first, last = records[0], records[-1]
    return {
        "requestContext": {
            "requestId": str(uuid.uuid4()),
            "functionArn": mapping["FunctionArn"],
            "condition": why,
            "approximateInvokeCount": calls,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": _iso(time.time()),
        kind: {
            "shardId": shard,
            "startSequenceNumber": _sequence(first),
            "endSequenceNumber": _sequence(last),
            "approximateArrivalOfFirstRecord": _iso(_arrived(first)),
            "approximateArrivalOfLastRecord": _iso(_arrived(last)),
            "batchSize": len(records),
            "streamArn": mapping["EventSourceArn"],
        },
    }


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
