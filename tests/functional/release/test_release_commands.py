"""`streamhub release` against moto: what it says, what it leaves in table, bucket and endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.release import app
from serving.errors import ReleaseError

Streamhub = Callable[..., dict[str, Any]]


@pytest.fixture(name="streamhub")
def streamhub_fixture(aws: Any) -> Streamhub:
    del aws  # its environment names the stage

    def run(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    return run


def test_start_and_tick_give_the_first_share_and_the_endpoint_follows(aws: Any, streamhub: Streamhub) -> None:
    started = streamhub("start", "recommendation_ranker", "--version", "3.0.0", "--actor", "ada")
    assert started["release"]["state"] == "registered"
    assert aws.weights() == {"a": 1.0, "b": 0.0}

    ticked = streamhub("tick", "streamhub-dev-recommendation-ranker")
    assert (ticked["release"]["state"], ticked["release"]["share"], ticked["moved"]) == ("canary", 0.1, True)
    assert aws.weights() == pytest.approx({"a": 0.9, "b": 0.1})

    status = streamhub("status", "recommendation-ranker")
    assert status["endpoint"]["diverged"] is False
    assert status["decision"]["kind"] == "hold"
    assert "time" in status["decision"]["text"]


def test_rollback_in_one_command_restores_the_weights_of_before(aws: Any, streamhub: Streamhub) -> None:
    streamhub("start", "recommendation_ranker", "--version", "3.0.0")
    streamhub("tick", "recommendation_ranker")
    back = streamhub("rollback", "recommendation_ranker", "--reason", "pager", "--actor", "grace")
    assert (back["release"]["state"], back["release"]["share"]) == ("rolling-back", 0.0)
    assert aws.weights() == {"a": 1.0, "b": 0.0}
    assert streamhub("tick", "recommendation_ranker")["release"]["state"] == "rolled-back"

    transitions = streamhub("history", "recommendation_ranker")["transitions"]
    assert [row["to"] for row in transitions] == ["rolled-back", "rolling-back", "canary", "registered"]
    assert (transitions[1]["actor"], transitions[1]["reason"]) == ("grace", "pager")


def test_a_version_that_is_in_no_slot_is_refused_with_the_line_to_edit(streamhub: Streamhub) -> None:
    with pytest.raises(ReleaseError) as refusal:
        streamhub("start", "recommendation_ranker", "--version", "9.0.0")
    assert 'versions = { a = "2.0.0", b = "9.0.0" }' in str(refusal.value)
    assert "stages/dev.toml" in str(refusal.value)


def test_a_second_release_is_refused_while_one_is_under_way(streamhub: Streamhub) -> None:
    streamhub("start", "recommendation_ranker", "--version", "3.0.0")
    with pytest.raises(ReleaseError, match="one at a time"):
        streamhub("start", "recommendation_ranker", "--version", "3.0.0")


def test_a_model_without_a_release_says_so(streamhub: Streamhub) -> None:
    assert streamhub("status", "recommendation_ranker")["release"] is None
    assert streamhub("tick", "recommendation_ranker")["release"] is None
    assert streamhub("history", "recommendation_ranker")["transitions"] == []
