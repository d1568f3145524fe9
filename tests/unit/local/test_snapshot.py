"""A moment is written whole or not at all, and what is no moment is refused by name with the way out."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.snapshot import Snapshot, digest_of
from serving.errors import LocalStackError

WAY_OUT = r"start anew: streamhub local up --fresh$"
WRITER = """
import sys, time
from pathlib import Path
from local.snapshot import Snapshot, digest_of
snapshot = Snapshot(Path(sys.argv[1]))
for number in range(1, 10**6):
    body = bytes([number % 256]) * 200_000
    snapshot.write({"number": str(number), "digest": digest_of(body)}, {digest_of(body): body}, at_s=float(number))
    print(number, flush=True)
"""


@given(
    moments=st.lists(
        st.tuples(
            st.dictionaries(st.text(min_size=1), st.text(), max_size=4), st.lists(st.binary(max_size=40), max_size=4)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_last_of_any_moments_is_read_as_it_was_written(
    moments: list[tuple[dict[str, str], list[bytes]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    snapshot = Snapshot(tmp_path_factory.mktemp("any") / "kept" / "s.sqlite")
    numbers = []
    for number, (documents, bodies) in enumerate(moments):
        blobs = {digest_of(body): body for body in bodies}
        snapshot.write(documents, blobs, at_s=float(number))
        assert snapshot.read() == (documents, blobs)
        moment = snapshot.moment()
        assert moment is not None
        assert moment[1] == number
        numbers.append(moment[0])
    assert numbers == sorted(set(numbers)), "each moment has a number of its own, so that one can be waited for"


def test_what_no_moment_names_gives_its_space_back(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path / "s.sqlite")
    body = os.urandom(4 << 20)
    snapshot.write({}, {digest_of(body): body}, at_s=0)
    assert (tmp_path / "s.sqlite").stat().st_size > len(body)
    snapshot.write({}, {}, at_s=1)
    assert (tmp_path / "s.sqlite").stat().st_size < 1 << 20


def test_a_writer_that_is_killed_leaves_a_whole_moment(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], cwd=root, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(5)][-1]
            writer.send_signal(signal.SIGKILL)
        documents, blobs = Snapshot(path).read()
        assert int(documents["number"]) >= told
        assert list(blobs) == [documents["digest"]]
        assert blobs[documents["digest"]] == bytes([int(documents["number"]) % 256]) * 200_000


def damaged_header(path: Path) -> None:
    path.write_bytes(b"no database" + path.read_bytes()[11:])


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_bytes(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE blobs SET body = x'00'")
    database.close()


def another_format(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


@pytest.mark.parametrize("damage", [damaged_header, cut_short, empty, other_bytes, another_format])
def test_a_damaged_snapshot_is_one_line_with_the_way_out(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "s.sqlite"
    body = os.urandom(100_000)
    Snapshot(path).write({"a": "b" * 50_000}, {digest_of(body): body}, at_s=0)
    assert callable(damage)
    damage(path)
    with pytest.raises(LocalStackError, match=WAY_OUT) as refused:
        Snapshot(path).read()
    assert "\n" not in str(refused.value)


def test_without_a_file_there_is_no_moment(tmp_path: Path) -> None:
    assert Snapshot(tmp_path / "s.sqlite").moment() is None
    assert list(tmp_path.iterdir()) == []
