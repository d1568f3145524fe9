"""The runs: a gateway with one endpoint, the same model server alone, three ways to ask, in turns."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import numpy as np

from benchmarks.local_stack.figures import WAYS, Sample, Way, sample_of
from benchmarks.serving import load
from benchmarks.serving.graphs import write_archive
from benchmarks.serving.models import RANKER, encode_oip_json
from benchmarks.serving.processes import cpu_s
from benchmarks.serving.wires import OIP_JSON
from local.sagemaker.options import Options
from serving.errors import BenchmarkError

CLIENTS = (1, 8)
_ROOT = Path(__file__).parents[2]
_ENDPOINT, _BUCKET, _NAME = "bench", "bench", "ranker"
_SIGNED = (
    "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sagemaker/aws4_request, "
    f"SignedHeaders=content-type;host;x-amz-date, Signature={'0' * 64}\r\nX-Amz-Date: 20260101T000000Z\r\n"
)
"""As long as a signature is; the local stack reads its scope and checks no signature."""
_OK = 200
_WARM_UP_S = 1.0
_TRIES = 5
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What runs: ports and process ids of the gateway and of the model server alone, and what is asked."""

    gateway_port: int
    gateway_pid: int
    server_port: int
    server_pid: int
    folder: Path
    body: Path
    client: load.Client
    answer: bytes


def run(*, repeats: int, seconds: float, cache: Path, told: Told) -> list[Sample]:
    """Measure each way with each number of clients, `repeats` rounds; boto3 with one client.

    Raises:
        BenchmarkError: a server does not start, a call fails or an answer is another than the model server's.

    """
    program = load.compiled(cache)
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="streamhub-bench-") as temporary, _site(Path(temporary), program) as site:
        for turn in range(-1, repeats):  # the first warms everything up
            told(f"round {turn + 1} of {repeats}" if turn >= 0 else "warming up")
            runs = _runs(turn)
            each_s = seconds if turn >= 0 else _WARM_UP_S
            found = [_whole(site, way, clients, seconds=each_s, told=told) for way, clients in runs]
            samples += found if turn >= 0 else []
    return samples


def _runs(turn: int) -> Sequence[tuple[Way, int]]:
    """Give the runs of a round, each time in another order."""
    runs = [(way, clients) for way in WAYS for clients in (CLIENTS if way != "boto3" else CLIENTS[:1])]
    start = turn % len(runs)
    return [*runs[start:], *runs[:start]]


def _whole(site: Site, way: Way, clients: int, *, seconds: float, told: Told) -> Sample:
    """Measure; on a busy machine the model server sheds what is late, and a run with such an answer is made again."""
    for _ in range(_TRIES - 1):
        try:
            return _measured(site, way, clients, seconds=seconds)
        except BenchmarkError as error:
            told(f"again: {error}")
    return _measured(site, way, clients, seconds=seconds)


def _measured(site: Site, way: Way, clients: int, *, seconds: float) -> Sample:
    server = site.server_pid if way == "model server" else site.gateway_pid
    before_s = cpu_s(server)
    if way == "boto3":
        latency_s, client_s, answers = _by_boto3(site, seconds)
    else:
        latency_s, client_s, answers = _by_http(site, way, clients, seconds)
    used_s = cpu_s(server) - before_s
    if {_scores(answer) for answer in answers} != {_scores(site.answer)}:
        raise BenchmarkError(f"{way}: got answers other than the model server's; allowed the same; the run is void")
    return sample_of(way, clients, latency_s, seconds=seconds, server_cpu_s=used_s, client_cpu_s=client_s)


def _by_http(site: Site, way: Way, clients: int, seconds: float) -> tuple[Any, float, Sequence[bytes]]:
    alone = way == "model server"
    port = site.server_port if alone else site.gateway_port
    requests = site.folder / f"{'alone' if alone else 'stack'}.requests"
    done = site.client.drive(port, requests, connections=clients, seconds=seconds)
    if set(done.statuses) != {_OK}:
        raise BenchmarkError(f"{way}: got answers by status {done.statuses}; allowed 200 alone; the run is void")
    return done.latency_s, done.cpu_s, done.bodies


def _by_boto3(site: Site, seconds: float) -> tuple[Any, float, Sequence[bytes]]:
    url = f"http://127.0.0.1:{site.gateway_port}"
    asked = [url, _ENDPOINT, str(site.body), str(seconds)]
    said = subprocess.run(  # noqa: S603 - a module of this project
        [sys.executable, "-m", "benchmarks.local_stack.boto_calls", *asked],
        capture_output=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
    )
    if said.returncode:
        raise BenchmarkError(f"boto3: got exit {said.returncode}: {said.stderr.decode().strip()[-300:]}")
    document = json.loads(said.stdout)
    return np.array(document["latency_s"]), document["cpu_s"], [document["said"].encode()]


def _scores(answer: bytes) -> tuple[float, ...]:
    return tuple(OIP_JSON.decode(answer).tolist())


@contextlib.contextmanager
def _site(folder: Path, program: Path) -> Iterator[Site]:
    archive = write_archive(RANKER, folder)
    row = RANKER.rows()[0]
    body = folder / "body.json"
    body.write_bytes(encode_oip_json(RANKER, row))
    alone = OIP_JSON.request(RANKER, row, path="/invocations")
    head, _, rest = OIP_JSON.request(RANKER, row, path=f"/endpoints/{_ENDPOINT}/invocations").partition(b"\r\n\r\n")
    (folder / "alone.requests").write_bytes(load.framed([alone]))
    (folder / "stack.requests").write_bytes(load.framed([head + b"\r\n" + _SIGNED.encode() + b"\r\n" + rest]))
    command = [*Options().server_command, "--archive", str(archive), "--host", "127.0.0.1", "--port", "0"]
    gateway = ["-m", "local.gateway", "--state", str(folder / "state"), "--valkey-port", "1"]
    log = folder / "log"
    with _started(command, log) as (server_port, server_pid), _started([sys.executable, *gateway], log) as (port, pid):
        _host(f"http://127.0.0.1:{port}", archive)
        yield Site(
            gateway_port=port,
            gateway_pid=pid,
            server_port=server_port,
            server_pid=server_pid,
            folder=folder,
            body=body,
            client=load.Client(program=program, folder=folder),
            answer=_lone_answer(server_port, body.read_bytes()),
        )


def _lone_answer(port: int, body: bytes) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
        return connection.getresponse().read()


@contextlib.contextmanager
def _started(command: Sequence[str], log: Path) -> Iterator[tuple[int, int]]:
    """Start a server that prints its port when it is ready; give port and process id."""
    with (
        log.open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=_ROOT) as process,  # noqa: S603 - our own
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None else b""
            if not line:
                said = log.read_text().strip()[-300:]
                raise BenchmarkError(f"{' '.join(command[:3])}: got exit {process.wait()} at its start: {said}")
            yield int(json.loads(line)["port"]), process.pid
        finally:
            process.terminate()


def _host(url: str, archive: Path) -> None:
    """Put the archive on an endpoint and wait until it is in service."""
    given = {
        "endpoint_url": url,
        "region_name": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
    s3, sagemaker = boto3.client("s3", **given), boto3.client("sagemaker", **given)  # type: ignore[call-overload]
    s3.create_bucket(Bucket=_BUCKET)
    s3.upload_file(str(archive), _BUCKET, archive.name)
    container = {"Image": "triton:none", "ModelDataUrl": f"s3://{_BUCKET}/{archive.name}"}
    role = "arn:aws:iam::123456789012:role/bench"
    sagemaker.create_model(ModelName=_NAME, PrimaryContainer=container, ExecutionRoleArn=role)
    variant = {
        "VariantName": "a",
        "ModelName": _NAME,
        "InstanceType": "ml.c6i.large",
        "InitialInstanceCount": 1,
        "InitialVariantWeight": 1.0,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=_NAME, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=_ENDPOINT, EndpointConfigName=_NAME)
    waiter = sagemaker.get_waiter("endpoint_in_service")
    waiter.wait(EndpointName=_ENDPOINT, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
