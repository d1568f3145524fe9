"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(done: Callable[[], Any], *, within_s: float = 60.0, every_s: float = 0.05) -> Any:
    """Give the first true value; what is awaited is another process's work."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found := done():
            return found
        time.sleep(every_s)
    raise AssertionError(f"not within {within_s:g} s")
