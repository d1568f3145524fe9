"""ONNX Runtime's wheels send events to their maker unless they are told not to before they are imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["serving.runtime.model", "model_packaging.inference", "model_packaging.quantise"])
def test_whatever_imports_onnx_runtime_keeps_it_silent(module: str, tmp_path: Path) -> None:
    """A runtime that may report writes its session's name to the temporary folder when it is imported."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    code = f"import {module}, os, onnxruntime; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "1\n"
    assert list(tmp_path.iterdir()) == []
