"""Pixels as JSON writes them: `octets` gives what a JSON parser gives, and nothing for anything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.protocol.digits import octets

lists = st.lists(st.integers(0, 255), min_size=1, max_size=40)


def written(values: list[int]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


@given(lists)
def test_every_list_is_read(values: list[int]) -> None:
    assert octets(written(values), size=len(values)) == bytes(values)


@given(lists, st.data())
def test_a_text_with_a_character_changed_is_read_as_a_parser_reads_it_or_not_at_all(
    values: list[int], data: st.DataObject
) -> None:
    text = bytearray(written(values))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 1))] = data.draw(
            st.sampled_from([b"", *(bytes([c]) for c in b"09,[]- .e1")])
        )
    got = octets(bytes(text), size=len(values)) if text else None
    if got is None:
        return
    parsed = json.loads(text)
    assert all(type(value) is int for value in parsed)
    assert got == bytes(parsed)
    assert len(parsed) == len(values)


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "[1]", "[1,2,3]", "[1,2", "1,2]", "12", "[1,2]]", "[[1,2]", "[1,2}", "[1[2]", "[1, 2]"),
        *("[01,2]", "[00,2]", "[1,,2]", "[,1,2]", "[256,1]", "[999,1]", "[1000,2]"),
        *("[-1,2]", "[1.5,2]", "[1e2,2]", "[true,2]", '["1",2]'),
    ],
)
def test_what_is_no_list_of_two_such_numbers_is_left_to_the_parser(text: str) -> None:
    assert octets(text.encode(), size=2) is None
