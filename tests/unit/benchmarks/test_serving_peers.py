"""Recipes are pinned; bodies are what the protocols say; the models are always the same bytes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import orjson
import pytest
import tritonclient.http as triton_http

from benchmarks.serving import command, environments, peers, plan
from benchmarks.serving.graphs import write_graph
from benchmarks.serving.load import framed, unframed
from benchmarks.serving.models import MODELS, MODERATOR, RANKER, BenchModel
from benchmarks.serving.peers import ALL, BY_NAME, Peer
from benchmarks.serving.wires import BASE64_JSON, LIST_JSON, OIP_BINARY, OIP_JSON, RAW
from serving.errors import BenchmarkError

COMPARED = {
    "triton": "nvidia-pytriton==0.7.0",
    "mosec": "mosec==0.9.8",
    "bentoml": "bentoml==1.4.40",
    "litserve": "litserve==0.2.19",
    "mlserver": "mlserver==1.7.1",
    "ray-serve": "ray[serve]==2.60.0",
    "torchserve": "torchserve==0.12.0",
    "fastapi": "fastapi==0.165.0",
}


@pytest.mark.parametrize("peer", ALL, ids=lambda peer: peer.name)
def test_every_requirement_is_pinned_to_one_release(peer: Peer) -> None:
    assert all(re.fullmatch(r"[\w.-]+(\[\w+\])?==\d+(\.\d+)+", each) for each in peer.requirements)


def test_the_peers_and_their_releases_are_those_that_are_announced() -> None:
    assert {peer.name: peer.requirements[0] for peer in ALL if peer.requirements} == COMPARED
    assert all(
        requirement.endswith(BY_NAME[name].version) for name, requirement in COMPARED.items() if name != "triton"
    )


def test_every_peer_runs_the_same_onnx_runtime() -> None:
    assert all(peers.ORT in peer.requirements for peer in ALL if peer.requirements)


def test_a_missing_program_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkError, match=r"torchserve: got no java .*openjdk"):
        environments.install(tmp_path, BY_NAME["torchserve"], told=lambda _: None)


def test_an_unknown_peer_is_named_with_those_there_are() -> None:
    assert command.unknown_peers(["tritno", "mosec"]).startswith("got tritno; allowed streamhub, no-op, triton, mosec")
    assert command.unknown_peers(["triton", "mosec"]) == ""


def test_ours_and_the_floor_are_always_among_those_measured() -> None:
    assert [peer.name for peer in command.chosen_peers(["mosec"], quick=True)] == ["streamhub", "no-op", "mosec"]


def test_all_peers_fit_into_eighteen_minutes_and_the_quick_ones_into_three() -> None:
    assert plan.estimate_s(plan.Plan(), ALL) < 18 * 60
    assert plan.estimate_s(plan.QUICK, command.chosen_peers([], quick=True)) < 3 * 60


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_binary_bodies_hold_what_tritons_own_client_sends(model: BenchModel) -> None:
    row = model.rows()[0]
    given = triton_http.InferInput("x", [1, *model.row], model.dtype.value)
    given.set_data_from_numpy(row[None])
    theirs, size = triton_http.InferenceServerClient.generate_request_body([given])
    request = OIP_BINARY.request(model, row, path="/infer")
    head, _, ours = request.partition(b"\r\n\r\n")
    own_size = int(re.search(rb"Inference-Header-Content-Length: (\d+)", head)[1])  # type: ignore[index]
    assert ours[own_size:] == theirs[size:] == row.tobytes()
    (own_input,), (their_input,) = orjson.loads(ours[:own_size])["inputs"], orjson.loads(theirs[:size])["inputs"]
    assert own_input == their_input
    assert f"Content-Length: {len(ours)}\r\n".encode() in head


@pytest.mark.parametrize("wire", [OIP_JSON, LIST_JSON], ids=lambda wire: wire.name)
def test_json_bodies_hold_the_row_to_the_last_bit(wire: object) -> None:
    for model in MODELS:
        row = model.rows()[1]
        body = orjson.loads((OIP_JSON if wire is OIP_JSON else LIST_JSON).body(model, row))
        values = body["inputs"][0]["data"] if wire is OIP_JSON else body["x"]
        np.testing.assert_array_equal(np.array(values, dtype=row.dtype).reshape(model.row), row)


def test_answers_are_read_as_the_protocols_write_them() -> None:
    scores = np.array([0.25, -3.5], dtype=np.float32)
    header = {"model_name": "m", "outputs": [{"name": "y", "parameters": {"binary_data_size": 8}}]}
    found = [
        OIP_BINARY.decode(orjson.dumps(header) + scores.tobytes()),
        OIP_JSON.decode(orjson.dumps({"outputs": [{"data": [0.25, -3.5]}]})),
        LIST_JSON.decode(b'{"y":[0.25,-3.5]}'),
        BASE64_JSON.decode(b'{"y":[0.25,-3.5]}'),
        RAW.decode(scores.tobytes()),
    ]
    for each in found:
        np.testing.assert_array_equal(each, scores)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_graph_is_valid_and_always_the_same_bytes(tmp_path: Path, model: BenchModel) -> None:
    for name in ("a", "b"):
        write_graph(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    onnx.checker.check_model(onnx.load(str(tmp_path / "a")), full_check=True)


def test_the_distinct_requests_differ() -> None:
    for model in (RANKER, MODERATOR):
        assert len({row.tobytes() for row in model.rows()}) == len(model.rows())


def test_what_is_framed_is_unframed() -> None:
    parts = (b"", b"a", b"\x00" * 70_000)
    assert unframed(framed(parts)) == parts
