"""Several processes behind one variant: which of them answers, and who sticks to one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError


@pytest.fixture(scope="module", name="pair")
def pair_fixture(launch: Callable[..., Any]) -> Iterator[Any]:
    """Give a SageMaker that runs two processes for each variant."""
    with launch(processes=2) as aws:
        yield aws


def endpoint(aws: Any, name: str, *, routing: str = "", count: int = 2) -> str:
    model = aws.model(aws.archive("v2"), MARK=name)
    return str(aws.endpoint(aws.config({"a": model}, {"a": 1}, routing=routing, count=count)))


def pids(aws: Any, name: str, times: int = 16, **more: Any) -> list[int]:
    return [aws.invoke(name, **more)[1]["pid"] for _ in range(times)]


@pytest.mark.parametrize(("routing", "seen"), [("LEAST_OUTSTANDING_REQUESTS", 1), ("RANDOM", 2), ("", 2)])
def test_a_busy_instance_gets_requests_unless_the_least_outstanding_are_asked_for(
    pair: Any, tmp_path: Path, routing: str, seen: int
) -> None:
    name = endpoint(pair, f"r{routing}", routing=routing)
    both = set(pids(pair, name, 24))
    assert len(both) == 2
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(pair.invoke, name, {"until": str(tmp_path / "free")})
        pair.until(lambda: pair.in_flight(name))
        answered = set(pids(pair, name, 24))
        (tmp_path / "free").touch()
        busy = held.result()[1]["pid"]
    assert len(answered) == seen
    assert (busy in answered) == (seen == 2)


def test_one_instance_is_one_process_and_a_second_comes_with_the_count(pair: Any) -> None:
    name = endpoint(pair, "grows", count=1)
    assert len(set(pids(pair, name))) == 1
    change = [{"VariantName": "a", "DesiredInstanceCount": 2}]
    pair.sm.update_endpoint_weights_and_capacities(EndpointName=name, DesiredWeightsAndCapacities=change)
    pair.settled(name)
    assert len(set(pids(pair, name, 24))) == 2


def test_a_session_stays_with_the_instance_that_opened_it_until_it_is_closed(pair: Any) -> None:
    name = endpoint(pair, "sticky")
    opened = pair.runtime.invoke_endpoint(
        EndpointName=name,
        Body=b'{"give": {"x-amzn-sagemaker-new-session-id": "s-1; Expires=2030-01-01T00:00:00Z"}}',
        ContentType="application/json",
        SessionId="NEW_SESSION",
    )
    session = opened["NewSessionId"].partition(";")[0]
    assert len(set(pids(pair, name, 24, SessionId=session))) == 1
    pair.invoke(name, {"give": {"x-amzn-sagemaker-closed-session-id": session}}, SessionId=session)
    assert len(set(pids(pair, name, 24, SessionId=session))) == 2


def test_a_session_that_a_stream_opened_stays_and_one_that_a_stream_closed_does_not(pair: Any) -> None:
    name = endpoint(pair, "streamed")

    def stream(header: str, value: str, session: str) -> None:
        wish = {"parts": ["one"], "give": {f"x-amzn-sagemaker-{header}": value}}
        answer = pair.runtime.invoke_endpoint_with_response_stream(
            EndpointName=name, Body=json.dumps(wish), ContentType="application/json", SessionId=session
        )
        assert [part["PayloadPart"]["Bytes"] for part in answer["Body"]] == [b"one"]

    stream("new-session-id", "s-2; Expires=2030-01-01T00:00:00Z", "NEW_SESSION")
    assert len(set(pids(pair, name, 24, SessionId="s-2"))) == 1
    stream("closed-session-id", "s-2", "s-2")
    assert len(set(pids(pair, name, 24, SessionId="s-2"))) == 2


def test_a_routing_that_only_aws_has_is_refused_by_name(pair: Any) -> None:
    with pytest.raises(ClientError, match="RoutingStrategy: got PREFIX_AWARE; the local SageMaker has RANDOM, LEAST"):
        pair.config({"a": pair.model(pair.archive("v2"))}, {"a": 1}, routing="PREFIX_AWARE")
