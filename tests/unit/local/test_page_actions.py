"""Faults that the page asks for are those of `streamhub local fault`, and hostile documents are refused in words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from local.faults import KINDS, Faults, make
from local.page.actions import Actions, fault_of, in_force, kinds
from local.page.document import MAX_TEXT
from local.page.server import STATIC
from serving.errors import LocalStackError
from tests.fakes.page import ScriptedSender


def actions(folder: Path) -> tuple[Actions, list[str]]:
    changes: list[str] = []
    sender: object = ScriptedSender()
    return Actions(faults=Faults(folder), sender=sender, changed=lambda: changes.append("x")), changes  # type: ignore[arg-type]


def test_a_fault_is_added_and_removed_as_the_command_does_it(tmp_path: Path) -> None:
    page, changes = actions(tmp_path)
    added = page.add(orjson.dumps({"kind": "slow", "endpoint": "e", "delay_ms": 5, "share": 0.5}))
    assert Faults(tmp_path).all() == (make("slow", endpoint="e", delay_ms=5, share=0.5),)
    assert page.remove(orjson.dumps({"name": added["added"]})) == {"removed": added["added"]}
    assert Faults(tmp_path).all() == ()
    assert changes == ["x", "x"]


def test_the_same_fault_twice_is_one(tmp_path: Path) -> None:
    page, _ = actions(tmp_path)
    for _time in range(2):
        page.add(b'{"kind": "throttle"}')
    assert len(Faults(tmp_path).all()) == 1


def test_a_fault_that_is_gone_already_is_refused_in_words(tmp_path: Path) -> None:
    page, changes = actions(tmp_path)
    with pytest.raises(LocalStackError, match="there are no faults"):
        page.remove(b'{"name": "slow:*"}')
    assert changes == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_asked_for_with_what_it_takes(kind: str, tmp_path: Path) -> None:
    offered = {found.kind: found for found in kinds()}[kind]
    # a jump of no seconds is none
    plain = make(kind, **({"seconds": 60.0} if "seconds" in offered.takes else {}))
    given = {name: getattr(plain, name) for name in offered.takes}
    page, _ = actions(tmp_path)
    page.add(orjson.dumps({"kind": kind, **given}))
    [held] = Faults(tmp_path).all()
    assert held == plain
    assert in_force(held).name == held.name


def test_the_form_has_a_field_for_every_option_that_a_kind_takes() -> None:
    script = (STATIC / "forms.js").read_text()
    offered = set(re.findall(r"^  (\w+): \{ label:", script, flags=re.MULTILINE))
    assert offered == {name for found in kinds() for name in found.takes}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'"slow"',
        b"null",
        b"{}",
        b'{"kind": 7}',
        b'{"kind": "meteor"}',
        b'{"kind": "slow", "delay_ms": "5"}',
        b'{"kind": "slow", "delay_ms": true}',
        b'{"kind": "slow", "delay_ms": -1}',
        b'{"kind": "slow", "share": 0}',
        b'{"kind": "slow", "endpoint": null}',
        b'{"kind": "slow", "nonsense": 1}',
        b'{"kind": "slow", "name": "mine"}',
        b'{"kind": "capacity", "share": 0.5}',
        b"\xff\xfe",
    ],
    ids=range(17),
)
def test_what_is_no_fault_is_refused_and_changes_nothing(body: bytes, tmp_path: Path) -> None:
    page, changes = actions(tmp_path)
    with pytest.raises(LocalStackError):
        page.add(body)
    assert Faults(tmp_path).all() == ()
    assert changes == []


def test_all_that_is_wrong_with_a_fault_is_said_at_once() -> None:
    with pytest.raises(LocalStackError, match=r"nonsense: unknown.*; delay_ms: got 'x'; allowed: a number"):
        fault_of(b'{"kind": "slow", "nonsense": 1, "delay_ms": "x"}')


def test_a_name_longer_than_a_name_is_refused() -> None:
    with pytest.raises(LocalStackError, match="201 characters"):
        fault_of(orjson.dumps({"kind": "slow", "endpoint": "e" * 201}))


@pytest.mark.parametrize(
    "body", [b'{"target": "x"}', b'{"target": "x", "requests": "5", "clients": 1}', b"7"], ids=["part", "kind", "no"]
)
def test_what_is_no_burst_is_refused(body: bytes, tmp_path: Path) -> None:
    page, _ = actions(tmp_path)
    with pytest.raises(LocalStackError, match="body: "):
        page.send(body)


def test_a_burst_is_bounded_before_anything_is_sent(tmp_path: Path) -> None:
    page, _ = actions(tmp_path)
    with pytest.raises(LocalStackError, match="requests: got 501"):
        page.send(b'{"target": "x", "requests": 501, "clients": 1}')


def test_a_fault_is_shown_by_what_it_meets_and_how() -> None:
    assert in_force(make("slow", endpoint="e", delay_ms=500, share=0.2)).text == "endpoint e, 500 ms more, 20% of calls"
    assert in_force(make("s3-503", count=3)).text == "every bucket, every operation, 100% of calls, 3 calls left"
    shown = in_force(replace(make("slow", endpoint="e" * 5000), name="n" * 5000))
    assert len(shown.name) == len(shown.text) == MAX_TEXT
