"""The committed ONNX weights, opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnxruntime as ort
import pytest

Opener = Callable[[str, str], ort.InferenceSession]


@pytest.fixture(scope="session", name="opened")
def opened_fixture(root: Path) -> Opener:
    """Give a session of a model's version."""

    def open_version(model: str, version: str) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        path = root / "models" / model / "weights" / f"{version}.onnx"
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    return open_version
