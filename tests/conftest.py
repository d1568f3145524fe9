"""What every test may rely on: the project's root; sockets only where a folder allows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

import serving  # noqa: F401 - silences ONNX Runtime before any test imports it

ROOT = Path(__file__).parent.parent
settings.register_profile("patient", deadline=None)  # a slow host is no fault of what is tested
settings.load_profile("patient")
OFFLINE = ("tests/unit", "tests/functional", "tests/synth")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Forbid sockets in every test that has no business with one (moto answers without)."""
    for item in items:
        if item.path.relative_to(ROOT).as_posix().startswith(OFFLINE):
            item.add_marker(pytest.mark.disable_socket)


@pytest.fixture(scope="session", name="root")
def root_fixture() -> Path:
    """Give the project's root folder."""
    return ROOT
