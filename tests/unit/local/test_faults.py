"""Faults on demand: what one may be, and a file that several processes change."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local.faults import KINDS, Faults, make
from serving.errors import LocalStackError

NEEDED: dict[str, dict[str, Any]] = {"clock-jump": {"seconds": 60.0}}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_had_by_what_it_needs_and_says_what_it_does(kind: str, tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    faults.add(make(kind, **NEEDED.get(kind, {})))
    assert [fault.kind for fault in Faults(tmp_path).all()] == [kind]
    assert KINDS[kind].does


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("slow", {"prefix": "models/"}, "prefix: not an option of slow; allowed: endpoint, delay_ms, share"),
        ("s3-503", {"endpoint": "e"}, "endpoint: not an option of s3-503"),
        ("cache", {"share": 0.5}, "share: not an option of cache; allowed: none"),
        ("s3-404", {}, "kind: got s3-404; allowed: slow, error"),
        ("s3-503", {"count": -1}, "count: got -1; allowed: 0"),
        ("s3-503", {"share": 0.0}, "share: got 0; allowed: above 0, up to 1"),
    ],
)
def test_what_no_fault_can_be_is_refused(kind: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalStackError) as caught:
        make(kind, **options)
    assert said in str(caught.value)


def test_a_fault_is_called_by_its_kind_and_what_it_meets() -> None:
    assert make("s3-503", bucket="registry").name == "s3-503:registry"
    assert make("dynamodb-throttle").name == "dynamodb-throttle:*"
    assert make("slow", endpoint="e", name="mine").name == "mine"


def test_a_counted_fault_is_gone_when_it_is_spent_and_not_before(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    faults.add(make("s3-503", count=2))
    [first] = faults.all()
    assert faults.spend(first)
    assert not faults.spend(first), "it is another one by now"
    [second] = Faults(tmp_path).all()
    assert second.count == 1
    assert faults.spend(second)
    assert Faults(tmp_path).all() == ()


def test_a_change_keeps_what_another_process_wrote_in_the_same_tick_of_the_disks_clock(tmp_path: Path) -> None:
    ours, theirs = Faults(tmp_path), Faults(tmp_path)
    ours.add(make("s3-503", count=2))
    fault = ours.all()[0]
    seen = (tmp_path / "faults.json").stat()
    theirs.add(make("slow"))
    assert theirs.spend(fault)  # by now the file may have its first inode again
    os.utime(tmp_path / "faults.json", ns=(seen.st_mtime_ns, seen.st_mtime_ns))
    ours.add(make("error"))
    assert {held.name: held.count for held in Faults(tmp_path).all()} == {"s3-503:*": 1, "slow:*": 0, "error:*": 0}


def test_what_many_add_at_once_is_all_there(tmp_path: Path) -> None:
    def add(number: int) -> None:
        Faults(tmp_path).add(make("slow", name=str(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert {fault.name for fault in Faults(tmp_path).all()} == {str(number) for number in range(40)}
    assert json.loads((tmp_path / "faults.json").read_text())
