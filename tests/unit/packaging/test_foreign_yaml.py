"""Whatever a YAML file holds, it is plain values of a bounded size, or one reason in a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_packaging.foreign_yaml import read_yaml

MAX_BYTES = 1 << 20
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60))


def read(folder: Path, text: str) -> object:
    (folder / "file.yaml").write_text(text, encoding="utf-8")
    return read_yaml(folder / "file.yaml", max_bytes=MAX_BYTES)


def test_plain_values_and_what_they_share_are_as_written(tmp_path: Path) -> None:
    text = "name: n\nversion: 1\nbuilt: 2026-01-02\nlist: &one [1, 2.5, null, true]\nagain: *one\n"
    found = read(tmp_path, text)
    assert isinstance(found, dict)
    assert (found["name"], found["version"], str(found["built"])) == ("n", 1, "2026-01-02")
    assert found["list"] == found["again"] == [1, 2.5, None, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "maximum nesting depth"),
        ("{" * 100_000, "maximum nesting depth"),
        ("- " * 100_000, "maximum nesting depth"),
        ("a: &a [*a]", "unfold to more than 100000 values"),
        (LAUGHS, "unfold to more than 100000 values"),
        (MERGES, "merge"),
        ("a: !!python/object/apply:os.getpid []", "could not determine a constructor"),
        ("x" * (MAX_BYTES + 1), "more than 1048576 bytes"),
        ("a: \x00", "unacceptable character"),
    ],
    ids=["lists", "mappings", "items", "itself", "laughs", "merges", "python", "large", "zero"],
)
def test_what_would_run_grow_or_recurse_is_one_reason(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
