"""What services hold comes back after a clean end and after a kill, in its own folder and on its own ports."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from local import kept, valkey
from local import state as states
from local.lifecycle import report, take_down
from local.listener import bind
from local.stack import LocalStack
from serving.errors import LocalStackError

BUCKET, TABLE = "kept-objects", "kept-items"
UNTIL = "2099-01-01T00:00:00+00:00"
MODEL = "kept-model"


def client(stack: LocalStack, service: str) -> Any:
    environment = stack.env
    return boto3.client(
        service,
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
        config=Config(retries={"total_max_attempts": 2}),
    )


def fill(stack: LocalStack) -> None:
    """Put something of every kind that a service could forget."""
    s3 = client(stack, "s3")
    s3.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"first", Metadata={"kind": "first"})
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"second", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=UNTIL)
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    s3.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=1, Body=b"1" * 5_242_880)
    dynamodb = client(stack, "dynamodb")
    dynamodb.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.put_item(TableName=TABLE, Item={"pk": {"S": "x"}, "raw": {"B": bytes(range(256))}, "n": {"N": "1.50"}})
    client(stack, "cloudwatch").put_metric_data(Namespace="kept", MetricData=[{"MetricName": "m", "Value": 7.0}])
    put_model(stack)
    client(stack, "application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId="endpoint/e/variant/a",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=1,
        MaxCapacity=3,
    )
    set_key(stack, "features", "kept")


def put_model(stack: LocalStack) -> None:
    role = "arn:aws:iam::123456789012:role/r"
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/x:1"
    client(stack, "sagemaker").create_model(
        ModelName=MODEL, ExecutionRoleArn=role, PrimaryContainer={"Image": image, "ModelDataUrl": f"s3://{BUCKET}/a"}
    )


def set_key(stack: LocalStack, key: str, value: str) -> None:
    port = int(stack.env["STREAMHUB_FEATURES_URL"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"SET {key} {value}\r\n".encode())
        assert connection.recv(16) == b"+OK\r\n"


def held(stack: LocalStack) -> dict[str, Any]:
    """Give all that `fill` put, as clients see it."""
    s3, dynamodb = client(stack, "s3"), client(stack, "dynamodb")
    versions = s3.list_object_versions(Bucket=BUCKET)["Versions"]
    [upload] = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    parts = s3.list_parts(Bucket=BUCKET, Key="parts", UploadId=upload["UploadId"])["Parts"]
    return {
        "bodies": {
            v["VersionId"]: s3.get_object(Bucket=BUCKET, Key="a", VersionId=v["VersionId"])["Body"].read()
            for v in versions
        },
        "dates": [v["LastModified"] for v in versions],
        "retention": s3.get_object_retention(Bucket=BUCKET, Key="a")["Retention"],
        "parts": [(part["PartNumber"], part["ETag"], part["Size"]) for part in parts],
        "item": dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": "x"}})["Item"],
        "metrics": client(stack, "cloudwatch").list_metrics(Namespace="kept")["Metrics"],
        "models": [model["ModelName"] for model in client(stack, "sagemaker").list_models()["Models"]],
        "targets": [
            target["MaxCapacity"]
            for target in client(stack, "application-autoscaling").describe_scalable_targets(
                ServiceNamespace="sagemaker"
            )["ScalableTargets"]
        ],
        "cache": valkey.holds_keys(int(stack.env["STREAMHUB_FEATURES_URL"].rpartition(":")[2])),
        "url": stack.endpoint_url,
    }


def finish_upload(stack: LocalStack) -> int:
    s3 = client(stack, "s3")
    [upload] = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    chosen = {"Bucket": BUCKET, "Key": "parts", "UploadId": upload["UploadId"]}
    parts = [{"PartNumber": p["PartNumber"], "ETag": p["ETag"]} for p in s3.list_parts(**chosen)["Parts"]]
    s3.complete_multipart_upload(**chosen, MultipartUpload={"Parts": parts})
    return int(s3.head_object(Bucket=BUCKET, Key="parts")["ContentLength"])


def started(folder: Path, root: Path, **options: bool) -> LocalStack:
    stack = LocalStack(folder, root, on_progress=lambda _: None, **options)
    try:
        stack.start_services()
    except LocalStackError:
        stack.stop()
        raise
    return stack


def test_all_comes_back_after_a_clean_end_and_as_of_the_last_moment_after_a_kill(root: Path, tmp_path: Path) -> None:
    folder = tmp_path
    with started(folder, root, keep=True) as stack:
        fill(stack)
        stack.keep("inputs")
        before = held(stack)
    assert report(folder)["state"] == "down"
    assert report(folder)["kept_at"] is not None
    with started(folder, root) as stack:
        assert held(stack) == before
        client(stack, "s3").delete_bucket_policy(Bucket=BUCKET)
        state = states.read(folder)
        assert state is not None
        os.kill(state.pid, signal.SIGKILL)
        # the services of the killed one still end: this waits for them, then goes on
        with started(folder, root) as successor:
            assert held(successor) == before
            assert finish_upload(successor) == 5_242_880


def test_a_stack_that_cannot_be_brought_back_is_one_line_and_stays_as_it_was(root: Path, tmp_path: Path) -> None:
    folder = tmp_path
    with started(folder, root, keep=True) as stack:
        put_model(stack)
        stack.keep("inputs")
    record = kept.read(folder)
    assert record is not None
    with bind(record.ports["gateway"]), pytest.raises(LocalStackError, match=r"in use by another process.*--fresh"):
        started(folder, root)
    snapshot = folder / kept.FOLDER / "snapshot.sqlite"
    whole = snapshot.read_bytes()
    snapshot.write_bytes(b"half" * 10_000)
    with pytest.raises(LocalStackError, match=r"got no snapshot of a stack.*--fresh") as refused:
        started(folder, root)
    assert "\n" not in str(refused.value)
    assert report(folder)["state"] == "down"
    snapshot.write_bytes(whole)
    with started(folder, root) as stack:
        assert held_models(stack) == [MODEL]


def test_a_fresh_one_begins_with_nothing_beside_another_that_keeps_running(root: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with started(first, root, keep=True) as stack:
        put_model(stack)
        stack.keep("inputs")
    with started(second, root) as other, started(first, root, fresh=True) as stack:
        assert held_models(stack) == held_models(other) == []
        assert report(first)["kept_at"] is None
        put_model(other)
        assert take_down(first)
        assert held_models(other) == [MODEL]
        assert valkey.answers(int(other.env["STREAMHUB_FEATURES_URL"].rpartition(":")[2]))


def held_models(stack: LocalStack) -> list[str]:
    return [model["ModelName"] for model in client(stack, "sagemaker").list_models()["Models"]]


def test_of_two_that_start_in_one_folder_one_is_told_so(root: Path, tmp_path: Path) -> None:
    code = "from cli.main import main; main()"
    command = [sys.executable, "-c", code, "local", "up", "--state", str(tmp_path)]
    both = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        while not (ended := [process for process in both if process.poll() is not None]):
            time.sleep(0.05)
        assert ended[0].returncode == 1
        assert ended[0].stderr is not None
        [said] = ended[0].stderr.read().strip().splitlines()
        assert re.search("another process starts a stack there|a stack that is not ready runs there", said)
    finally:
        take_down(tmp_path)
        for process in both:
            process.communicate(timeout=60)
    assert report(tmp_path)["state"] == "down"
