"""A drift run against moto: captures in SageMaker's format in, three documents and few metrics out."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from cli.drift import app
from lambdas.drift.settings import read_settings
from lambdas.drift.wiring import drift
from serving.aws.captures import S3Captures
from serving.aws.registry import S3ModelRegistry
from serving.errors import TelemetryError
from serving.protocol.codec import encode_request, encode_response
from serving.protocol.tensors import InferRequest, InferResponse, Tensor
from serving.spec import ModelSpec, StageSpec
from serving.spec.bundle import SpecBundle
from serving.spec.codec import converter
from serving.spec.manifest import PackageManifest
from serving.telemetry.baseline import make_baseline
from serving.telemetry.drift import DriftReport, Verdict

MODEL = "recommendation_ranker"
ENDPOINT = "streamhub-dev-recommendation-ranker"
TELEMETRY, REGISTRY = "telemetry", "registry"
END = datetime(2026, 1, 5, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)

Put = Callable[..., None]
Run = Callable[..., DriftReport]


def rows(count: int, *, seed: int, popularity: float = 0.0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    matrix = random.gamma(2.0, 1.0, (count, 36)).astype(np.float32)
    matrix[:, :16] = matrix[0, :16]  # one user a request
    matrix[:, 24] += popularity
    return matrix, random.random((count, 1)).astype(np.float32)


def line(matrix: Any, scores: Any, *, at: datetime, binary: bool) -> bytes:
    sides = {
        "endpointInput": encode_request(InferRequest(inputs=(Tensor("features", matrix),)), binary=binary),
        "endpointOutput": encode_response(
            InferResponse(model_name=MODEL, model_version="1", outputs=(Tensor("score", scores),)), binary=binary
        ),
    }
    captured = {
        name: {
            "observedContentType": kind,
            "mode": name.removeprefix("endpoint").upper(),
            "data": base64.b64encode(body).decode() if binary else body.decode(),
            "encoding": "BASE64" if binary else "JSON",
        }
        for name, (body, kind) in sides.items()
    }
    metadata = {"eventId": "e", "inferenceId": "i", "inferenceTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    return json.dumps({"captureData": captured, "eventMetadata": metadata, "eventVersion": "0"}).encode()


def baseline_columns() -> dict[str, Any]:
    made = [rows(20, seed=10_000 + seed) for seed in range(1_000)]
    matrix, scores = np.concatenate([row[0] for row in made]), np.concatenate([row[1] for row in made])
    names = {"activity": 8, "skip_rate": 10, "session_length": 12, "popularity": 24, "freshness": 25, "quality": 31}
    return {**{name: matrix[:, place] for name, place in names.items()}, "score": scores[:, 0]}


@pytest.fixture(name="s3")
def s3_fixture(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> Iterator[Any]:
    model = converter().structure(tomllib.loads((root / "models" / MODEL / "model.toml").read_text()), ModelSpec)
    dev = tomllib.loads((root / "stages/dev.toml").read_text())
    dev["models"] = {MODEL: dev["models"][MODEL]}
    SpecBundle(models={MODEL: model}, stages={"dev": converter().structure(dev, StageSpec)}).write(tmp_path)
    for name, value in {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "STREAMHUB_SPECS_DIR": str(tmp_path),
        "STREAMHUB_STAGE": "dev",
        "STREAMHUB_TELEMETRY_BUCKET": TELEMETRY,
        "STREAMHUB_REGISTRY_BUCKET": REGISTRY,
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        s3 = boto3.client("s3")
        for bucket in (TELEMETRY, REGISTRY):
            s3.create_bucket(Bucket=bucket)
        _register(s3, model, tmp_path)
        yield s3


def _register(s3: Any, model: ModelSpec, folder: Path) -> None:
    archive = folder / "archive"
    archive.write_bytes(b"archive")
    manifest = PackageManifest(
        name=MODEL,
        version="2.0.0",
        archive_sha256=hashlib.sha256(b"archive").hexdigest(),
        size_bytes=7,
        files=(),
        spec_sha256="0" * 64,
        runtime="triton",
        image="",
        licence="Apache-2.0",
        inputs=model.inputs,
        outputs=model.outputs,
        labels=(),
        thresholds={},
        metrics={},
        training_commit="",
        data_sha256="",
        baseline=make_baseline(baseline_columns()).to_dict(),
        toolchain={},
    )
    S3ModelRegistry(REGISTRY, s3, clock=lambda: END).push(archive, manifest, actor="ada")


@pytest.fixture(name="put")
def put_fixture(s3: Any) -> Put:
    def put(at: datetime, *, requests: int = 100, popularity: float = 0.0, slot: str = "a", extra: bytes = b"") -> None:
        lines = [
            line(*rows(20, seed=int(at.timestamp()) % 9_999 + seed, popularity=popularity), at=at, binary=seed % 2 == 0)
            for seed in range(requests)
        ]
        key = f"capture/{ENDPOINT}/{slot}/{at:%Y/%m/%d/%H}/{at:%M-%S}-file.jsonl"
        s3.put_object(Bucket=TELEMETRY, Key=key, Body=b"\n".join([*lines, extra]))

    return put


@pytest.fixture(name="run")
def run_fixture(s3: Any) -> Run:
    del s3  # its environment names the buckets
    runs = drift(read_settings(os.environ))

    def run(end: datetime = END, **options: Any) -> DriftReport:
        return runs.run(MODEL, "a", window_end=end, **options)

    return run


def metrics(name: str) -> list[tuple[datetime, float]]:
    found = boto3.client("cloudwatch").get_metric_statistics(
        Namespace="StreamHub/Inference",
        MetricName=name,
        Dimensions=[{"Name": "Stage", "Value": "dev"}, {"Name": "Endpoint", "Value": ENDPOINT}],
        StartTime=END - 24 * HOUR,
        EndTime=END + 24 * HOUR,
        Period=60,
        Statistics=["Maximum"],
    )
    return [(row["Timestamp"], row["Maximum"]) for row in found["Datapoints"]]


def test_a_calm_window_leaves_three_documents_and_three_metrics(s3: Any, put: Put, run: Run) -> None:
    put(END - timedelta(minutes=30))
    report = run()
    assert (report.verdict, report.rows, report.requests, report.unreadable) == (Verdict.OK, 2_000, 100, 0)
    keys = [row["Key"] for row in s3.list_objects_v2(Bucket=TELEMETRY, Prefix="drift/")["Contents"]]
    folder = f"drift/{MODEL}/a/2026-01-05T10:00:00Z"
    assert keys == [f"{folder}/{name}.json" for name in ("constraint_violations", "report", "statistics")]
    assert metrics("DriftRunCompleted") == [(END, 1.0)]
    assert [at for at, _ in metrics("MaxDriftScore")] == [END]
    assert metrics("DriftedFeatureShare") == [(END, 0.0)]


def test_the_statistics_are_those_of_the_captured_rows(s3: Any, put: Put, run: Run) -> None:
    at = END - timedelta(minutes=30)
    put(at)
    run()
    body = s3.get_object(Bucket=TELEMETRY, Key=f"drift/{MODEL}/a/2026-01-05T10:00:00Z/statistics.json")["Body"].read()
    document = json.loads(body)
    quality = next(feature for feature in document["features"] if feature["name"] == "quality")
    seen = np.concatenate([rows(20, seed=int(at.timestamp()) % 9_999 + seed)[0][:, 31] for seed in range(100)])
    found = quality["numerical_statistics"]
    assert document["dataset"]["item_count"] == 2_000
    assert found["mean"] == pytest.approx(seen.mean(), rel=1e-5)
    assert found["std_dev"] == pytest.approx(seen.std(), rel=1e-4)
    assert (found["min"], found["max"]) == pytest.approx((seen.min(), seen.max()))
    assert sum(bucket["count"] for bucket in found["distribution"]["kll"]["buckets"]) == 2_000


def test_a_shift_alarms_in_its_second_window(s3: Any, put: Put, run: Run) -> None:
    verdicts = []
    for hour in range(3):
        end = END + hour * HOUR
        put(end - timedelta(minutes=30), popularity=0.0 if hour == 0 else 3.0)
        verdicts.append(run(end).verdict)
    assert verdicts == [Verdict.OK, Verdict.WARN, Verdict.ALARM]
    key = f"drift/{MODEL}/a/2026-01-05T12:00:00Z/constraint_violations.json"
    violations = json.loads(s3.get_object(Bucket=TELEMETRY, Key=key)["Body"].read())["violations"]
    assert [row["feature_name"] for row in violations] == ["popularity"]
    assert violations[0]["constraint_check_type"] == "baseline_drift_check"


def test_no_traffic_is_no_failure_and_the_heartbeat_goes_on(run: Run) -> None:
    assert run().verdict is Verdict.NO_TRAFFIC
    assert metrics("DriftRunCompleted") == [(END, 1.0)]
    assert metrics("MaxDriftScore") == []


def test_captures_of_another_time_can_stand_for_a_window(put: Put, run: Run) -> None:
    at = END + timedelta(hours=5)
    put(at)
    report = run(captured=(at, at + timedelta(seconds=1)))
    assert (report.rows, report.window.end) == (2_000, END)
    assert run(captured=(at + timedelta(seconds=1), at + timedelta(hours=1))).rows == 0


def test_lines_that_are_no_capture_are_counted_and_the_others_used(put: Put, run: Run) -> None:
    put(END - timedelta(minutes=30), extra=b'{"captureData": {}}\nnot json\n[]')
    report = run()
    assert (report.rows, report.unreadable) == (2_000, 3)


def test_a_window_takes_what_a_file_of_the_hour_before_holds_of_it(s3: Any, run: Run) -> None:
    before, inside = END - HOUR - timedelta(seconds=5), END - timedelta(minutes=59)
    lines = [line(*rows(600, seed=seed), at=at, binary=True) for seed, at in enumerate((before, inside))]
    s3.put_object(Bucket=TELEMETRY, Key=f"capture/{ENDPOINT}/a/{before:%Y/%m/%d/%H}/f.jsonl", Body=b"\n".join(lines))
    assert run().rows == 600


def test_an_object_that_is_too_large_is_refused(s3: Any, put: Put) -> None:
    put(END - timedelta(minutes=30), requests=2)
    captures = S3Captures(s3, bucket=TELEMETRY, max_object_bytes=1_000)
    with pytest.raises(TelemetryError, match="allowed 1000"):
        list(captures.read(ENDPOINT, "a", start=END - HOUR, end=END))


def test_the_command_says_what_the_report_says(put: Put) -> None:
    put(END - timedelta(minutes=30), popularity=3.0)
    done = CliRunner().invoke(app, ["run", ENDPOINT, "--window-end", END.isoformat()], catch_exceptions=False)
    assert done.exit_code == 0
    assert "differs: popularity" in done.stdout
    asked = ["run", MODEL, "--window-end", END.isoformat(), "--json"]
    document = json.loads(CliRunner().invoke(app, asked, catch_exceptions=False).stdout)
    assert (document["verdict"], document["rows"]) == ("warn", 2_000)
    shown = CliRunner().invoke(app, ["baseline", MODEL, "--json"], catch_exceptions=False)
    assert len(json.loads(shown.stdout)["baseline"]["features"]) == 7
