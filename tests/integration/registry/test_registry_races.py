"""A hundred writers, from threads of several processes, whose writes S3 gets in one moment: one wins, all hear who."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes.registry import S3Server, packed_archive, read_manifest, registry_at

WRITERS = 100
PROCESSES = 5


def outcomes_of_race(
    s3: S3Server, bucket: str, pusher: Any, folder: Path, *, what: str, gate: str
) -> tuple[str, dict[str, str]]:
    """Let all go, held at the server until each has read and is about to write; give the winner and the losers."""
    s3.fault("gate", suffix=gate, count=WRITERS)
    each = WRITERS // PROCESSES
    out = folder / "out"
    out.mkdir()
    jobs = [
        {
            "job": "race",
            "what": what,
            "name": "toy",
            "endpoint_url": s3.url,
            "bucket": bucket,
            "packages": str(folder),
            "out": str(out),
            "writers": list(range(at * each, (at + 1) * each)),
        }
        for at in range(PROCESSES)
    ]
    assert pusher(jobs) == [0] * PROCESSES
    found: dict[str, str] = {}
    for path in out.iterdir():
        found |= json.loads(path.read_text())
    assert len(found) == WRITERS
    [winner] = [writer for writer, outcome in found.items() if outcome == "won"]
    return winner, {writer: outcome for writer, outcome in found.items() if writer != winner}


def test_of_a_hundred_writers_of_one_alias_one_wins_and_the_others_hear_who(
    s3: S3Server, bucket: str, pusher: Any, tmp_path: Path
) -> None:
    registry = registry_at(s3.url, bucket)
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        path, beside = packed_archive(tmp_path, "toy", version, version.encode())
        registry.push(path, read_manifest(beside), actor="ann")
    registry.move_alias("toy", "production", "3.0.0", actor="ann", reason="first")
    winner, losers = outcomes_of_race(s3, bucket, pusher, tmp_path, what="alias", gate="aliases/production.json")
    stands = registry.alias("toy", "production")
    assert stands is not None
    assert (stands.actor, stands.generation, stands.previous) == (f"writer-{winner}", 2, "3.0.0")
    told = f"writer-{winner} moved it to {stands.version} at {stands.moved_at.isoformat()}"
    assert {outcome.split(":")[0] for outcome in losers.values()} == {"AliasConflictError"}
    assert [writer for writer, outcome in losers.items() if told not in outcome] == []
    assert [move.actor for move in registry.history("toy")] == ["ann", f"writer-{winner}"]


def test_of_a_hundred_writers_of_one_version_one_wins_and_the_others_hear_who(
    s3: S3Server, bucket: str, pusher: Any, tmp_path: Path
) -> None:
    for writer in range(WRITERS):
        packed_archive(tmp_path, "toy", "1.0.0", f"bytes of {writer}".encode(), stem=str(writer))
    winner, losers = outcomes_of_race(s3, bucket, pusher, tmp_path, what="version", gate="versions/1.0.0.json")
    registry = registry_at(s3.url, bucket)
    [stands] = registry.versions("toy")
    assert stands.created_by == f"writer-{winner}"
    registry.verify("toy", "1.0.0")
    told = f"pushed by writer-{winner} at {stands.created_at.isoformat()}"
    assert {outcome.split(":")[0] for outcome in losers.values()} == {"VersionConflictError"}
    assert [writer for writer, outcome in losers.items() if told not in outcome] == []
