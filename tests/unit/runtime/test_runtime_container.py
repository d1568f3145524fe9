"""What a container is told, which models leave the memory, which files a client reaches: decisions, no server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import NotLoadedError, ServerError
from serving.runtime.container import Container, container
from serving.runtime.memory import Held, leaving, size_of
from serving.runtime.shelf import Shelf, inside


def test_without_variables_a_container_is_what_sagemaker_s_contract_says() -> None:
    told = container({})
    assert told == Container(port=8080, safe_ports=None, multi_model=False, model_name=None, base=Path("/opt/ml"))
    assert (told.model, told.models) == (Path("/opt/ml/model"), Path("/opt/ml/models"))


def test_variables_are_read_as_sagemaker_writes_them() -> None:
    told = container(
        {
            "SAGEMAKER_BIND_TO_PORT": "8081",
            "SAGEMAKER_SAFE_PORT_RANGE": "13000-13999",
            "SAGEMAKER_MULTI_MODEL": "True",
            "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "ranker",
        }
    )
    assert (told.port, told.safe_ports, told.multi_model, told.model_name) == (8081, (13000, 13999), True, "ranker")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SAGEMAKER_BIND_TO_PORT", "http"),
        ("SAGEMAKER_BIND_TO_PORT", "0"),
        ("SAGEMAKER_BIND_TO_PORT", "65536"),
        ("SAGEMAKER_BIND_TO_PORT", "٨٠٨٠"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9-3"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "13000"),
        ("SAGEMAKER_MULTI_MODEL", "perhaps"),
    ],
)
def test_a_variable_that_sagemaker_does_not_write_is_named(name: str, value: str) -> None:
    with pytest.raises(ServerError, match=name):
        container({name: value})


HELD = st.lists(
    st.builds(
        Held,
        name=st.uuids().map(str),
        size_bytes=st.integers(1, 100),
        used_s=st.floats(0, 100),
        idle=st.booleans(),
    ),
    max_size=8,
)


@given(HELD, st.integers(1, 150), st.integers(1, 300))
def test_only_idle_models_leave_oldest_first_and_no_more_than_needed(held: list[Held], needed: int, limit: int) -> None:
    names = leaving(held, needed_bytes=needed, limit_bytes=limit)
    idle = sorted((each for each in held if each.idle), key=lambda each: each.used_s)
    least = sum(each.size_bytes for each in held if not each.idle) + needed
    if names is None:
        assert least > limit
        return
    assert least <= limit
    assert list(names) == [each.name for each in idle[: len(names)]]
    kept = [each.size_bytes for each in held if each.name not in names]
    assert sum(kept) + needed <= limit
    if names:
        last = next(each.size_bytes for each in held if each.name == names[-1])
        assert sum(kept) + last + needed > limit


def test_a_model_is_counted_with_twice_its_files(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/model.onnx").write_bytes(bytes(3_000_000))
    (tmp_path / "config.pbtxt").write_bytes(bytes(1_000))
    assert size_of(tmp_path) - size_of(tmp_path / "nothing") == 2 * 3_001_000


def test_a_shelf_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="--model-repository: got"):
        Shelf(tmp_path / "nothing")


def test_a_shelf_gives_the_newest_archive_and_unpacked_folders_and_nothing_behind_links(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    (shelf / "ready/ready").mkdir(parents=True)
    (shelf / "ready/ready/streamhub.json").touch()
    (shelf / "empty").mkdir()
    outside = tmp_path / "outside-1.0.0.model.tar.gz"
    outside.touch()
    (shelf / outside.name).symlink_to(outside)
    for name in ("a-2.0.0", "a-10.0.0", "a-9.9.9", "b-1.0", "b-01.0.0", "-1.0.0"):
        (shelf / f"{name}.model.tar.gz").touch()
    assert Shelf(shelf).sources() == {
        "a": shelf.resolve() / "a-10.0.0.model.tar.gz",
        "ready": shelf.resolve() / "ready",
    }


@pytest.mark.parametrize(
    "url", ["/etc/passwd", "models/x", "{root}/../x", "{root}/link", "{root}/none", "s3://b/k", ""]
)
def test_a_url_leads_nowhere_but_below_the_root(tmp_path: Path, url: str) -> None:
    root = tmp_path / "models"
    root.mkdir()
    (tmp_path / "x").touch()
    (root / "link").symlink_to(tmp_path / "x")
    with pytest.raises(NotLoadedError):
        inside(root, url.format(root=root))
