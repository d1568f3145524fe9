"""Faults that are asked for: each meets the calls of its endpoint, and is gone when it is removed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from cli.local import app
from local.faults import Fault, Faults
from serving.errors import LocalStackError


def failed(call: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return caught.value.response  # type: ignore[return-value]


@pytest.fixture(name="faults")
def faults_fixture(tmp_path: Path) -> Faults:
    """Give the faults of the SageMaker that the test runs."""
    return Faults(tmp_path / "state")


@pytest.fixture(name="endpoint")
def endpoint_fixture(aws: Any) -> str:
    """Give an endpoint of one variant."""
    return str(aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1})))


def test_calls_are_slow_fail_or_are_throttled_until_the_fault_is_removed(
    aws: Any, faults: Faults, endpoint: str
) -> None:
    faults.add(Fault(name="f", kind="error", endpoint=endpoint))
    response = failed(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"{}")
    assert (response["Error"]["Code"], response["OriginalStatusCode"]) == ("ModelError", 500)
    faults.add(Fault(name="f", kind="throttle", endpoint=endpoint))
    response = failed(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"{}")
    assert response["Error"]["Code"] == "ThrottlingException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    faults.add(Fault(name="f", kind="slow", endpoint=endpoint, delay_ms=300))
    began = time.monotonic()
    aws.invoke(endpoint)
    assert time.monotonic() - began >= 0.3
    faults.add(Fault(name="f", kind="error", endpoint="another"))
    assert aws.invoke(endpoint)[1]["answer"] == "v2"
    faults.remove("f")
    assert faults.all() == ()


@pytest.mark.parametrize(
    ("kind", "said"),
    [("capacity", "InsufficientInstanceCapacity"), ("unhealthy", "did not pass the ping health check")],
)
def test_a_deployment_meets_its_fault_and_what_served_goes_on(
    aws: Any, faults: Faults, endpoint: str, kind: Any, said: str
) -> None:
    faults.add(Fault(name="f", kind=kind))
    config = aws.config({"a": aws.model(aws.archive("v3"))}, {"a": 1})
    aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=config)
    described = aws.settled(endpoint)
    assert described["EndpointConfigName"] != config
    assert said in described["FailureReason"]
    assert aws.invoke(endpoint)[1]["answer"] == "v2"


def test_more_instances_that_are_not_to_be_had_roll_back(aws: Any, faults: Faults, endpoint: str) -> None:
    faults.add(Fault(name="f", kind="capacity"))
    change = [{"VariantName": "a", "DesiredInstanceCount": 3}]
    aws.sm.update_endpoint_weights_and_capacities(EndpointName=endpoint, DesiredWeightsAndCapacities=change)
    assert aws.sm.describe_endpoint(EndpointName=endpoint)["EndpointStatus"] == "RollingBack"
    (variant,) = aws.settled(endpoint)["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]) == (1, 1)


def test_the_command_adds_lists_and_removes(tmp_path: Path) -> None:
    run = CliRunner().invoke
    state = ["--state", str(tmp_path), "--json"]
    assert run(app, ["fault", "add", "slow", "--endpoint", "e", "--share", "0.5", *state]).exit_code == 0
    (fault,) = json.loads(run(app, ["fault", "list", *state]).stdout)["faults"]
    assert (fault["name"], fault["kind"], fault["share"]) == ("slow:e", "slow", 0.5)
    assert Faults(tmp_path / "services").of("e", "slow") is not None
    assert run(app, ["fault", "remove", "slow:e", *state]).exit_code == 0
    assert json.loads(run(app, ["fault", "list", *state]).stdout)["faults"] == []


def test_what_no_fault_can_be_is_told_all_at_once() -> None:
    with pytest.raises(LocalStackError, match=r"kind: got loud; allowed: slow.*share: got 2.*delay_ms: got -1"):
        Fault(name="f", kind="loud", share=2, delay_ms=-1)  # type: ignore[arg-type]
