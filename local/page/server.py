"""The page of the local stack: endpoints, traffic, alarms and drift runs, on a screen as small as a phone's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from local.aws_json import read_body, send_answer
from local.routing import Asgi, Message, Receive, Send

_TEMPLATE = "page.html.j2"
_QUIET = "OK"
_SHOWN_DRIFT_RUNS = 10
# drift/<model>/<slot>/<window end>/report.json
_DRIFT_PARTS = 5
_HTML = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where AWS answers, and which stage's names to look for."""

    endpoint_url: str
    region: str
    account: str
    stage: str


def create_app(place: Place) -> Asgi:
    """Give the page's ASGI application; it reads through plain boto3, so it shows what any client would see."""
    clients = {
        service: boto3.client(
            service,
            endpoint_url=place.endpoint_url,
            region_name=place.region,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
        )
        for service in ("sagemaker", "cloudwatch", "s3")
    }
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=select_autoescape(["j2"])
    )

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await read_body(receive)
        view = await asyncio.to_thread(view_of, clients, place)
        body = environment.get_template(_TEMPLATE).render(view=view).encode()
        await send_answer(send, status=200, headers=_HTML, body=body)

    return app


def view_of(clients: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Collect what the page shows."""
    alarms = [
        alarm
        for page in clients["cloudwatch"].get_paginator("describe_alarms").paginate()
        for alarm in page["MetricAlarms"]
    ]
    loud = [alarm for alarm in alarms if alarm["StateValue"] == "ALARM"]
    return {
        "stage": place.stage,
        "now": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "endpoints": _endpoints(clients["sagemaker"]),
        "alarms": [
            {"name": alarm["AlarmName"], "state": alarm["StateValue"], "reason": alarm["StateReason"]} for alarm in loud
        ],
        "quiet": len(alarms) - len(loud),
        "drift": _drift_runs(clients["s3"], f"streamhub-{place.stage}-telemetry-{place.account}"),
    }


def _endpoints(sagemaker: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - boto3 makes clients at run time
    names = sorted(endpoint["EndpointName"] for endpoint in sagemaker.list_endpoints()["Endpoints"])
    return [_endpoint(sagemaker.describe_endpoint(EndpointName=name)) for name in names]


def _endpoint(described: Mapping[str, Any]) -> dict[str, Any]:
    variants = described.get("ProductionVariants", [])
    total = sum(variant.get("CurrentWeight", 0.0) for variant in variants)
    return {
        "name": described["EndpointName"],
        "status": described["EndpointStatus"],
        "variants": [
            {
                "name": variant["VariantName"],
                "share": round(100 * variant.get("CurrentWeight", 0.0) / total) if total > 0 else 0,
                "instances": variant.get("CurrentInstanceCount", 0),
            }
            for variant in variants
        ],
    }


def _drift_runs(s3: Any, bucket: str) -> list[dict[str, str]]:  # noqa: ANN401 - boto3 makes clients at run time
    try:
        pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="drift/"))
    except (ClientError, BotoCoreError):
        return []  # the stage is not deployed yet
    keys = [entry["Key"].split("/") for page in pages for entry in page.get("Contents", [])]
    runs = [
        {"model": key[1], "slot": key[2], "at": key[3]}
        for key in keys
        if len(key) == _DRIFT_PARTS and key[-1] == "report.json"
    ]
    return sorted(runs, key=lambda run: run["at"], reverse=True)[:_SHOWN_DRIFT_RUNS]
