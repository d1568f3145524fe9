"""The context columns of the ranker's input: when and on what a list is shown."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import numpy.typing as npt

CONTEXT_FIELDS = ("hour_sin", "hour_cos", "is_mobile", "is_weekend")
_HOURS = 24
_SATURDAY = 5


def context_row(
    *, hour: int | None, device: str | None, weekend: bool | None, now: datetime
) -> npt.NDArray[np.float32]:
    """Give the columns of `CONTEXT_FIELDS`, shape (4,); what is None is taken from `now`, and a desktop."""
    angle = 2 * math.pi * (hour if hour is not None else now.hour) / _HOURS
    is_weekend = weekend if weekend is not None else now.weekday() >= _SATURDAY
    return np.array([math.sin(angle), math.cos(angle), device == "mobile", is_weekend], dtype=np.float32)
