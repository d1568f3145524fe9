from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.clock import SystemClock
from local.sagemaker.capture import Exchange, object_key, record
from local.sagemaker.metrics import Invocation, Meter, coarse, metric_data
from local.sagemaker.options import Options
from local.sagemaker.routes import CaptureRule, Target

AT = datetime(2026, 12, 1, 4, 5, 6, 789_000, tzinfo=UTC)
RULE = CaptureRule(
    destination="s3://b/capture",
    percent=100,
    input=True,
    output=True,
    csv_types=frozenset({"text/csv"}),
    json_types=frozenset({"application/json"}),
)
EXCHANGE = Exchange(
    content_type="text/csv", body=b"1,2", answer_type="application/json", answer=b"{}", inference_id=None, at=AT
)


def test_a_record_is_sagemakers_json_line() -> None:
    assert json.loads(record(RULE, EXCHANGE, event_id="e-1")) == {
        "captureData": {
            "endpointInput": {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2", "encoding": "CSV"},
            "endpointOutput": {
                "observedContentType": "application/json",
                "mode": "OUTPUT",
                "data": "{}",
                "encoding": "JSON",
            },
        },
        "eventMetadata": {"eventId": "e-1", "inferenceTime": "2026-12-01T04:05:06Z"},
        "eventVersion": "0",
    }


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("application/json", "JSON"),
        ("Application/JSON; charset=utf-8", "JSON"),
        ("text/csv;header=present", "CSV"),
        ("application/vnd.sagemaker-triton.binary+json;json-header-size=9", "BASE64"),
        ("image/jpeg", "BASE64"),
    ],
)
def test_the_encoding_follows_the_type_without_its_parameters(content_type: str, encoding: str) -> None:
    exchange = replace(EXCHANGE, content_type=content_type)
    side = json.loads(record(RULE, exchange, event_id="e"))["captureData"]["endpointInput"]
    assert (side["encoding"], side["observedContentType"]) == (encoding, content_type)


@given(body=st.binary(max_size=200), kind=st.sampled_from(["application/json", "image/png"]))
def test_every_body_can_be_read_back_from_its_one_line(body: bytes, kind: str) -> None:
    line = record(RULE, replace(EXCHANGE, content_type=kind, body=body), event_id="e")
    side = json.loads(line)["captureData"]["endpointInput"]
    data = base64.b64decode(side["data"]) if side["encoding"] == "BASE64" else side["data"].encode()
    assert data == body
    assert b"\n" not in line


def test_an_inference_id_is_kept_and_a_side_left_out_is_absent() -> None:
    document = json.loads(record(replace(RULE, output=False), replace(EXCHANGE, inference_id="i"), event_id="e"))
    assert document["eventMetadata"]["inferenceId"] == "i"
    assert set(document["captureData"]) == {"endpointInput"}


@pytest.mark.parametrize(("prefix", "start"), [("capture", "capture/ep/a/"), ("", "ep/a/"), ("x/y", "x/y/ep/a/")])
def test_files_lie_by_endpoint_variant_and_hour(prefix: str, start: str) -> None:
    key = object_key(prefix, endpoint="ep", variant="a", at=AT, unique="u")
    assert key == f"{start}2026/12/01/04/05-06-789-u.jsonl"


@given(st.floats(1e-3, 1e9))
def test_a_published_latency_is_within_half_a_percent(value: float) -> None:
    assert abs(coarse(value) - value) <= 0.005 * value * (1 + 1e-9)


def test_metric_data_hold_every_invocation_and_fit_the_calls_limits() -> None:
    meter = Meter(cast("Any", None), options=Options(), clock=SystemClock())
    target = Target(endpoint="ep", config="cfg", variant="a", workers=cast("Any", None), capture=None)
    for number in range(400):
        status = {0: 0, 1: 400, 2: 503}.get(number, 200)
        model_s = number / 1e6
        meter.count(target, Invocation(status=status, model_s=model_s, total_s=model_s + 5e-6, concurrent=1))
    data = list(metric_data(meter.take(), AT))
    plain = [datum for datum in data if len(datum["Dimensions"]) == 2]
    fleet = [datum for datum in data if len(datum["Dimensions"]) == 3]

    def total(name: str) -> float:
        return sum(
            value * count
            for datum in plain
            if datum["MetricName"] == name
            for value, count in zip(datum["Values"], datum["Counts"], strict=True)
        )

    def count(name: str) -> float:
        return sum(sum(datum["Counts"]) for datum in plain if datum["MetricName"] == name)

    assert {len(datum["Values"]) <= 150 for datum in data} == {True}
    assert len(plain) == len(fleet)
    assert {entry["Value"] for datum in fleet for entry in datum["Dimensions"]} == {"ep", "a", "cfg"}
    assert (total("Invocations"), total("Invocation4XXErrors"), total("Invocation5XXErrors")) == (400, 1, 2)
    assert count("Invocation5XXErrors") == count("ModelLatency") == count("OverheadLatency") == 400
    assert total("OverheadLatency") == pytest.approx(400 * 5)
    assert {datum["Unit"] for datum in plain if "Latency" in datum["MetricName"]} == {"Microseconds"}
