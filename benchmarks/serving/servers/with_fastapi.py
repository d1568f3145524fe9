"""FastAPI on uvicorn without batches, tuned: uvloop, httptools, orjson, no access log, bodies read by hand."""

from __future__ import annotations

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from graph import PORT, Graph, row_of_bytes, row_of_list

graph = Graph()
app = FastAPI(openapi_url=None)


@app.get("/ping")
async def ping():
    """Say that the model is there."""
    return Response()


@app.post("/json")
async def with_json(request: Request):
    """Answer a list with a list."""
    row = row_of_list(orjson.loads(await request.body())["x"])
    scores = graph.run(row[None])[0]
    return Response(orjson.dumps({"y": scores}, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


@app.post("/raw")
async def with_bytes(request: Request):
    """Answer bytes with bytes."""
    scores = graph.run(row_of_bytes(await request.body())[None])[0]
    return Response(scores.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=PORT, loop="uvloop", http="httptools", access_log=False, log_level="warning"
    )
