"""Ray Serve: one replica, `@serve.batch`, uvicorn's proxy; lists or bytes by path."""

from __future__ import annotations

import signal

import numpy as np
import orjson
import ray
from graph import MAX_ROWS, PORT, WINDOW_MS, Graph, row_of_bytes, row_of_list
from ray import serve
from starlette.responses import Response


@serve.deployment(max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0})
class Scores:
    """One batched method behind two shapes of body."""

    def __init__(self):
        self._graph = Graph()

    @serve.batch(max_batch_size=MAX_ROWS, batch_wait_timeout_s=WINDOW_MS / 1e3)
    async def score(self, rows):
        """Give the scores of each row."""
        return list(self._graph.run(np.stack(rows)))

    async def __call__(self, request):
        """Answer in the shape of the request."""
        body = await request.body()
        if request.url.path == "/raw":
            return Response((await self.score(row_of_bytes(body))).tobytes(), media_type="application/octet-stream")
        scores = await self.score(row_of_list(orjson.loads(body)["x"]))
        return Response(orjson.dumps({"y": scores}, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="warning", object_store_memory=100 << 20)
    quiet = {"enable_access_log": False, "log_level": "WARNING"}
    serve.start(http_options={"host": "127.0.0.1", "port": PORT}, logging_config=quiet)
    serve.run(Scores.bind(), route_prefix="/", logging_config=quiet)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()
    ray.shutdown()
