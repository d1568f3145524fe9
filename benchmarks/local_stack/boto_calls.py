"""One boto3 client in a loop: `python -m benchmarks.local_stack.boto_calls URL ENDPOINT BODY_FILE SECONDS`.

A process of its own, so that what botocore costs in CPU is its own; prints one JSON document.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import boto3
from botocore.config import Config

_WARM_UP = 20


def main(url: str, endpoint: str, body_file: str, seconds: str) -> None:
    """Ask until the time is over and print `latency_s`, `cpu_s` and the last answer."""
    client = boto3.client(
        "sagemaker-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - any will do
        config=Config(retries={"total_max_attempts": 1}),
    )
    body = Path(body_file).read_bytes()

    def ask() -> bytes:
        answer = client.invoke_endpoint(EndpointName=endpoint, Body=body, ContentType="application/json")
        said: bytes = answer["Body"].read()
        return said

    for _ in range(_WARM_UP):
        said = ask()
    latency_s: list[float] = []
    cpu_began_s, began = time.process_time(), time.perf_counter()
    while (asked := time.perf_counter()) - began < float(seconds):
        said = ask()
        latency_s.append(time.perf_counter() - asked)
    cpu_s = time.process_time() - cpu_began_s
    sys.stdout.write(json.dumps({"latency_s": latency_s, "cpu_s": cpu_s, "said": said.decode()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
