"""BentoML: an adaptive batch of arrays; what `bentoml serve with_bentoml:Scores` runs."""

from __future__ import annotations

import bentoml
import numpy as np
from graph import DTYPE, MAX_ROWS, WINDOW_MS, Graph

_NO_LIMIT_MS = 60_000  # its default


@bentoml.service(workers=1, traffic={"timeout": 30})
class Scores:
    """One batched method."""

    def __init__(self):
        self._graph = Graph()

    @bentoml.api(batchable=True, max_batch_size=MAX_ROWS, max_latency_ms=round(WINDOW_MS) or _NO_LIMIT_MS)
    def predict(self, x: np.ndarray) -> np.ndarray:
        """Give the scores of each row."""
        return self._graph.run(np.asarray(x, dtype=DTYPE))
