"""What every test may rely on: the project's root; sockets only where a folder allows them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import uvloop  # noqa: F401 - keeps the socket class that it finds: not that of a test in which sockets are forbidden
from hypothesis import settings

import serving  # noqa: F401 - silences ONNX Runtime before any test imports it

ROOT = Path(__file__).parent.parent
settings.register_profile("patient", deadline=None)  # a slow host is no fault of what is tested
settings.load_profile("patient")
# a runner behind nohup or in the background of a shell ignores these, and every program the tests start would, too
for _ignored, _default in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, _default)
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
