"""`streamhub context`, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from serving.spec.manifest import FileEntry, tree_sha256
from tests.unit.packaging.foreign import BASE, bento_files, torchserve_files, write_folder, zipped

ROOT = Path(__file__).parents[3]


def streamhub(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", "context", *words],
        capture_output=True,
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )


def test_one_document_names_every_file_and_their_digest(tmp_path: Path) -> None:
    (tmp_path / "adder.mar").write_bytes(zipped(torchserve_files()))
    done = streamhub("adder.mar", "--base", BASE, "--json", cwd=tmp_path)
    document = orjson.loads(done.stdout)
    assert document["path"] == "dist/adder-1.0.context"
    assert (document["server"], document["invocations"]) == ("torchserve", "adder")
    entries = [FileEntry(**entry) for entry in document["files"]]
    found = [path for path in (tmp_path / document["path"]).rglob("*") if path.is_file()]
    assert sorted(entry.path for entry in entries) == sorted(
        path.relative_to(tmp_path / document["path"]).as_posix() for path in found
    )
    assert document["sha256"] == tree_sha256(entries)


@pytest.mark.parametrize("words", [[], ["--base", "python:3.11-slim"]])
def test_a_base_by_digest_must_be_given(words: list[str], tmp_path: Path) -> None:
    write_folder(bento_files(), tmp_path / "in")
    done = streamhub("in", *words, cwd=tmp_path)
    assert done.returncode == (1 if words else 2)
    assert b"--base" in done.stderr
    assert not (tmp_path / "dist/adder-ae6p7bho2sihcax4.context").exists()
