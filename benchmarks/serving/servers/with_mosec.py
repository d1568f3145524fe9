"""mosec: one worker, dynamic batches, orjson; a route for each shape of body."""

from __future__ import annotations

import sys

import numpy as np
import orjson
from graph import MAX_ROWS, PORT, WINDOW_MS, Graph, row_of_bytes, row_of_list
from mosec import Runtime, Server, Worker


class Scores(Worker):
    """What both routes share: rows in, scores out."""

    def __init__(self):
        super().__init__()
        self._graph = Graph()

    def forward(self, data):
        """Give the scores of each row."""
        return list(self._graph.run(np.stack(data)))


class Json(Scores):
    """Lists."""

    def deserialize(self, data):
        """Give a row."""
        return row_of_list(orjson.loads(data)["x"])

    def serialize(self, data):
        """Give the answer's body."""
        return orjson.dumps({"y": data}, option=orjson.OPT_SERIALIZE_NUMPY)


class Raw(Scores):
    """Bytes."""

    resp_mime_type = "application/octet-stream"

    def deserialize(self, data):
        """Give a row."""
        return row_of_bytes(data)

    def serialize(self, data):
        """Give the answer's body."""
        return data.tobytes()


if __name__ == "__main__":
    window_ms = max(1, round(WINDOW_MS))  # 0 means its default, 10
    sys.argv[1:] = ["--port", str(PORT), "--address", "127.0.0.1", "--capacity", "4096", "--log-level", "warning"]
    server = Server()
    routes = {"/json": Json, "/raw": Raw}
    server.register_runtime(
        {path: [Runtime(worker, max_batch_size=MAX_ROWS, max_wait_time=window_ms)] for path, worker in routes.items()}
    )
    server.run()
