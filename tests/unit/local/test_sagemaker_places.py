"""S3 guide, *Naming objects*: a key is any sequence of characters, in which a URL's `?`, `#` and `[` mean nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sagemaker.places import place_of


@given(bucket=st.text("abc-.", min_size=3), key=st.text())
def test_a_place_is_the_bucket_and_whatever_follows_its_slash(bucket: str, key: str) -> None:
    assert place_of(f"s3://{bucket}/{key}") == (bucket, key)


@pytest.mark.parametrize("uri", ["s3://models", "s3://models/"])
def test_a_bucket_alone_has_an_empty_key(uri: str) -> None:
    assert place_of(uri) == ("models", "")
