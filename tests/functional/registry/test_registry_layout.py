"""What may become a key, and a path on somebody's disk."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.aws.registry.layout import check_digest, check_files, file_key, files_prefix
from serving.errors import RegistryError
from serving.spec.manifest import FileEntry, tree_sha256

DIGEST = "a" * 64


def entries(*paths: str) -> tuple[FileEntry, ...]:
    return tuple(FileEntry(path=path, size_bytes=1, sha256=DIGEST) for path in paths)


@pytest.mark.parametrize(
    "paths",
    [
        ("../a",),
        ("a/../b",),
        ("/etc/passwd",),
        ("a//b",),
        ("a/",),
        ("",),
        (".",),
        ("./a",),
        ("a\\b",),
        ("a\x00b",),
        ("a\nb",),
        ("a\udcff",),  # how Python names a file that is no UTF-8
        ("a", "a/b"),
        ("a", "a"),
        ("x" * 1000,),
        (),
    ],
    ids=repr,
)
def test_paths_that_are_no_files_below_one_folder_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(RegistryError, match="allowed"):
        check_files("toy", DIGEST, entries(*paths))


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4, unique=True))
def test_whatever_is_let_through_stays_below_its_folder_and_in_its_prefix(paths: list[str]) -> None:
    try:
        check_files("toy", DIGEST, entries(*paths))
    except RegistryError:
        return
    for path in paths:
        assert ".." not in PurePosixPath(path).parts
        assert not PurePosixPath(path).is_absolute()
        assert str(PurePosixPath(path)) == path
        assert file_key("toy", DIGEST, path) == files_prefix("toy", DIGEST) + path


@pytest.mark.parametrize("digest", ["", "a" * 63, "A" * 64, "a" * 65, "../" + "a" * 61, "a" * 63 + "\n"])
def test_a_digest_is_64_lower_case_digits(digest: str) -> None:
    with pytest.raises(RegistryError, match="64"):
        check_digest(digest)


def test_the_digest_of_a_tree_is_that_of_its_sorted_list_as_sha256sum_would_hash_it() -> None:

    listed = f"{DIGEST}  1  a.txt\n{DIGEST}  1  b/c.txt\n".encode()
    assert tree_sha256(entries("b/c.txt", "a.txt")) == hashlib.sha256(listed).hexdigest()
