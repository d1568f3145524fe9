from __future__ import annotations

import asyncio
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.page import server as page
from local.page.server import Place, view_of

PLACE = Place(endpoint_url="http://127.0.0.1:1", region="us-east-1", account="123456789012", stage="dev")


class Paged:
    """A client that has one page of everything, and remembers nothing."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def get_paginator(self, name: str) -> Paged:
        self.asked = name
        return self

    def paginate(self, **_: Any) -> list[Any]:
        answer = self.answers[self.asked]
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def list_endpoints(self) -> Any:
        return {"Endpoints": [{"EndpointName": name} for name in self.answers["endpoints"]]}

    def describe_endpoint(self, *, EndpointName: str) -> Any:  # noqa: N803 - boto3's name
        return self.answers["endpoints"][EndpointName]


def clients(*, objects: Any, reason: str = "Threshold Crossed") -> dict[str, Any]:
    variants = [
        {"VariantName": "a", "CurrentWeight": 0.9, "CurrentInstanceCount": 2},
        {"VariantName": "b", "CurrentWeight": 0.3, "CurrentInstanceCount": 1},
    ]
    updating = {"EndpointName": "new", "EndpointStatus": "Creating"}
    serving = {"EndpointName": "e", "EndpointStatus": "InService", "ProductionVariants": variants}
    alarms = [
        {"AlarmName": "e-drift", "StateValue": "ALARM", "StateReason": reason},
        {"AlarmName": "e-p99-a", "StateValue": "OK", "StateReason": "fine"},
    ]
    return {
        "sagemaker": Paged(endpoints={"e": serving, "new": updating}),
        "cloudwatch": Paged(describe_alarms={"MetricAlarms": alarms}),
        "s3": Paged(list_objects_v2=objects),
    }


def keys(*names: str) -> dict[str, Any]:
    return {"Contents": [{"Key": name} for name in names]}


def test_traffic_is_shown_as_shares_of_all_weights() -> None:
    view = view_of(clients(objects={}), PLACE)
    [serving, creating] = view["endpoints"]
    assert [(slot["name"], slot["share"], slot["instances"]) for slot in serving["variants"]] == [
        ("a", 75, 2),
        ("b", 25, 1),
    ]
    assert (creating["status"], creating["variants"]) == ("Creating", [])


def test_alarms_in_alarm_are_listed_and_the_others_counted() -> None:
    view = view_of(clients(objects={}), PLACE)
    assert [alarm["name"] for alarm in view["alarms"]] == ["e-drift"]
    assert view["quiet"] == 1


def test_the_newest_drift_runs_come_first_one_line_a_run() -> None:
    stored = keys(
        "drift/ranker/a/2026-12-01T00:00:00Z/report.json",
        "drift/ranker/a/2026-12-01T00:00:00Z/statistics.json",
        "drift/ranker/b/2026-12-01T01:00:00Z/report.json",
    )
    view = view_of(clients(objects=stored), PLACE)
    assert [(run["slot"], run["at"]) for run in view["drift"]] == [
        ("b", "2026-12-01T01:00:00Z"),
        ("a", "2026-12-01T00:00:00Z"),
    ]


def test_before_the_stage_is_deployed_there_is_no_drift() -> None:
    missing = ClientError({"Error": {"Code": "NoSuchBucket", "Message": "none"}}, "ListObjectsV2")
    assert view_of(clients(objects=missing), PLACE)["drift"] == []


def test_the_page_escapes_what_it_is_told_and_fits_a_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = clients(objects={}, reason="<script>alert(1)</script>")
    monkeypatch.setattr(boto3, "client", lambda service, **_: made[service])

    async def at_once(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    app = page.create_app(PLACE)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(StopIteration):  # no loop is needed: nothing in it waits
        app({"type": "http"}, receive, send).send(None)  # type: ignore[attr-defined]
    text = sent[1]["body"].decode()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert 'name="viewport" content="width=device-width' in text
