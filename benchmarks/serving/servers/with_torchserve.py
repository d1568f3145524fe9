"""TorchServe: a handler of a whole batch, without torch: rows in, scores out, in the shape of the first request."""

from __future__ import annotations

import numpy as np
import orjson
from graph import Graph, row_of_bytes, row_of_list


class Handler:
    """What TorchServe's worker calls."""

    def initialize(self, context):
        """Load."""
        self._graph = Graph()

    def handle(self, data, context):
        """Give a body for each request."""
        bodies = [request.get("body", request.get("data")) for request in data]
        as_json = isinstance(bodies[0], dict)
        rows = [row_of_list(body["x"]) if as_json else row_of_bytes(bytes(body)) for body in bodies]
        scores = self._graph.run(np.stack(rows))
        if not as_json:
            return [row.tobytes() for row in scores]
        return [orjson.dumps({"y": row}, option=orjson.OPT_SERIALIZE_NUMPY) for row in scores]
