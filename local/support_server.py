"""`python -m local.support_server`: stands in for the support generator, so that the route can be tried without a GPU.

It speaks the OpenAI chat protocol, streaming too, and writes no text of its own: it says that it is a stand-in and
quotes what it was given.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from local.listener import HOST, AnnouncingServer, bind

MODEL = "stand-in"
_NOTICE = "This is the local stand-in for the support model: it quotes its input and understands nothing."
_QUOTED_CHARACTERS = 400
_BAD_REQUEST = 400


def answer_to(messages: list[dict[str, Any]]) -> str:
    """Give the notice and the start of the last user message."""
    asked = next((message["content"] for message in reversed(messages) if message.get("role") == "user"), "")
    return f"{_NOTICE} You asked: {str(asked)[:_QUOTED_CHARACTERS]}"


def chunks_of(text: str, *, answer_id: str, created: int) -> Iterator[dict[str, Any]]:
    """Give the chunks of a streamed answer: role, words, end."""
    words = text.split(" ")
    pieces = [word if number == 0 else f" {word}" for number, word in enumerate(words)]
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces), {}]
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        yield {
            "id": answer_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": MODEL,
            "choices": [choice],
        }


async def complete(request: Request) -> Response:
    """Answer `POST /v1/chat/completions`."""
    try:
        body = orjson.loads(await request.body())
        messages = body["messages"]
        text = answer_to(messages)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        problem = {"message": f"the body is no chat request: {error!r}", "type": "invalid_request_error"}
        return JSONResponse({"error": problem}, status_code=_BAD_REQUEST)
    answer_id, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
    if body.get("stream") is True:
        events = (f"data: {json.dumps(chunk)}\n\n" for chunk in chunks_of(text, answer_id=answer_id, created=created))
        return StreamingResponse(_with_end(events), media_type="text/event-stream")
    prompt = sum(len(str(message.get("content", "")).split()) for message in messages)
    words = len(text.split())
    message = {"role": "assistant", "content": text}
    return JSONResponse(
        {
            "id": answer_id,
            "object": "chat.completion",
            "created": created,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words},
        }
    )


def _with_end(events: Iterator[str]) -> Iterator[str]:
    yield from events
    yield "data: [DONE]\n\n"


async def models(_request: Request) -> Response:
    """Answer `GET /v1/models`."""
    return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "local"}]})


async def health(_request: Request) -> Response:
    """Answer `GET /health`."""
    return Response(status_code=200)


def create_app() -> Starlette:
    """Give the ASGI application."""
    return Starlette(
        routes=[
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
        ]
    )


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m local.support_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="loopback port, 0 for a free one")
    arguments = parser.parse_args(argv)
    listener = bind(arguments.port)
    config = uvicorn.Config(create_app(), host=HOST, log_level="warning", access_log=False, lifespan="off")
    AnnouncingServer(config, port=int(listener.getsockname()[1])).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
