"""LitServe: one worker, batches, the fast queue; lists, or base64 where the request has it."""

from __future__ import annotations

import base64

import litserve
import numpy as np
from graph import MAX_ROWS, PORT, WINDOW_MS, Graph, row_of_bytes, row_of_list


class Scores(litserve.LitAPI):
    """The four hooks."""

    def setup(self, device):
        """Load."""
        self._graph = Graph()

    def decode_request(self, request):
        """Give a row."""
        return row_of_bytes(base64.b64decode(request["b"])) if "b" in request else row_of_list(request["x"])

    def batch(self, inputs):
        """Give a batch."""
        return np.stack(inputs)

    def predict(self, x):
        """Give the scores."""
        return self._graph.run(x)

    def unbatch(self, output):
        """Give one answer each."""
        return list(output)

    def encode_response(self, output):
        """Give what becomes JSON."""
        return {"y": output.tolist()}


if __name__ == "__main__":
    api = Scores(max_batch_size=MAX_ROWS, batch_timeout=max(WINDOW_MS, 1) / 1e3)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True, timeout=30)
    server.run(host="127.0.0.1", port=PORT, log_level="warning", generate_client_file=False, access_log=False)
