"""The ASGI shell on a loopback socket: the same answers as the HTTP API shell, streams, sheds and a clean end."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from lambdas.predict import asgi
from lambdas.predict.asgi import Shell
from lambdas.predict.handler import answer
from lambdas.predict.service import Target
from lambdas.predict.support import Generator
from serving.features.assembly import Layout
from serving.prediction.budget import budget_of
from tests.fakes.prediction import Api, event_of, spec_of

RANK = {"user_id": "user_1", "candidates": ["v1", "v2"], "context": {"hour": 6, "device": "tv", "weekend": False}}
SUPPORT = {"session_id": "s1", "question": "How do I add captions?", "passages": ["Captions are under Edit."]}


def image(color: tuple[int, int, int]) -> str:
    file = io.BytesIO()
    Image.new("RGB", (80, 60), color).save(file, "JPEG")
    return base64.b64encode(file.getvalue()).decode()


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
        assert not task.done()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@pytest.fixture(name="api")
def api_fixture() -> Api:
    """Give the API with one user and two videos."""
    api = Api()
    api.load("user_profile", {"user_1": {"activity": 0.5}})
    api.load("video_stats", {"v1": {"quality": 0.1}, "v2": {"quality": 0.3}})
    return api


def client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=30)


REQUESTS: list[tuple[str, str, bytes]] = [
    ("POST", "/v1/rank", orjson.dumps(RANK)),
    ("POST", "/v1/rank", orjson.dumps({"user_id": 1})),
    ("POST", "/v1/rank", b"{"),
    ("POST", "/v1/rank", b""),
    ("GET", "/v1/rank", b""),
    ("POST", "/v1/moderate", orjson.dumps({"content_id": "c1", "title": "t", "image_base64": image((250, 0, 0))})),
    ("POST", "/v1/moderate", orjson.dumps({"content_id": "c1", "title": "t", "image_base64": "AAAA"})),
    ("POST", "/v1/moderate", orjson.dumps({"content_id": "c1", "title": "t", "thumbnail_url": "https://x.invalid/a"})),
    ("POST", "/v1/thumbnail-score", orjson.dumps({"content_id": "c1", "image_base64": image((9, 9, 9))})),
    ("POST", "/v1/thumbnail-score/batch", b"{}"),
    ("POST", "/v1/support/answer", orjson.dumps(SUPPORT)),
    ("POST", "/v1/support/answer", orjson.dumps({**SUPPORT, "stream": True})),
    ("POST", "/v1/outcomes", orjson.dumps({"prediction_id": "x", "event": "click", "occurred_at": "now"})),
    ("GET", "/healthz", b""),
    ("GET", "/openapi.json", b""),
    ("POST", "/nowhere", b"{}"),
    ("DELETE", "/healthz", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS, ids=lambda value: str(value)[:40])
def test_both_shells_answer_the_same(method: str, path: str, body: bytes) -> None:
    async def over_http() -> httpx.Response:
        async with served(Shell(Api().routes).app()) as url, client(url) as http:
            return await http.request(method, path, content=body)

    by_asgi = asyncio.run(over_http())
    by_lambda: dict[str, Any] = answer(Api().routes, event_of(method, path, body))
    assert (by_asgi.status_code, by_asgi.text) == (by_lambda["statusCode"], by_lambda["body"])
    for name, value in by_lambda["headers"].items():
        assert by_asgi.headers[name] == value


def test_exposures_reach_the_sink_when_the_server_ends(api: Api) -> None:
    async def one_request() -> None:
        async with served(Shell(api.routes).app()) as url, client(url) as http:
            assert (await http.post("/v1/rank", json=RANK)).status_code == 200

    asyncio.run(one_request())
    assert len(api.sink.seen) == 1


def test_100_clients_get_what_one_client_gets(api: Api) -> None:
    async def ask_all() -> tuple[list[Any], list[Any]]:
        async with served(Shell(api.routes).app()) as url, client(url) as http:
            bodies = [{**RANK, "user_id": f"user_{index % 7}"} for index in range(300)]
            alone = [(await http.post("/v1/rank", json=body)).json() for body in bodies[:7]]
            together = await asyncio.gather(*(http.post("/v1/rank", json=body) for body in bodies))
            assert {response.status_code for response in together} == {200}
            return alone, [response.json() for response in together]

    alone, together = asyncio.run(ask_all())
    for index, document in enumerate(together):
        expected = alone[index % 7]
        assert (document["items"], document["variant"]) == (expected["items"], expected["variant"])
    assert len({document["prediction_id"] for document in together}) == 300


def test_what_waits_beyond_the_limit_is_shed_with_retry_after(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_WAITING", 0)

    async def one_request() -> httpx.Response:
        async with served(Shell(api.routes).app()) as url, client(url) as http:
            return await http.post("/v1/rank", json=RANK)

    response = asyncio.run(one_request())
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.json()["type"] == "urn:streamhub:problem:overloaded"


def test_a_body_beyond_the_limit_is_refused_also_when_its_size_is_not_declared(api: Api) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    async def both() -> list[httpx.Response]:
        async with served(Shell(api.routes).app()) as url, client(url) as http:
            declared = await http.post("/v1/rank", content=b" " * 2_000_000)
            return [declared, await http.post("/v1/rank", content=chunks())]

    responses = asyncio.run(both())
    assert [response.status_code for response in responses] == [413, 413]
    assert {response.json()["type"] for response in responses} == {"urn:streamhub:problem:body-too-large"}


def silent() -> Starlette:
    """A generator that begins an answer and never goes on."""

    async def complete(_: Request) -> Response:
        async def lines() -> AsyncIterator[bytes]:
            yield b"data: " + orjson.dumps({"choices": [{"delta": {"content": "The "}}]}) + b"\n\n"
            await asyncio.Event().wait()

        return StreamingResponse(lines(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def test_a_stream_counts_among_the_requests_taken_until_it_ends(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_WAITING", 1)

    async def ask() -> tuple[int, int]:
        async with served(silent()) as generator_url:
            shell = Shell(api.routes, support=support_at(generator_url))
            async with served(shell.app()) as url, client(url) as http:
                body = {**SUPPORT, "stream": True}
                async with http.stream("POST", "/v1/support/answer", json=body) as stream:
                    assert stream.status_code == 200
                    during = (await http.post("/v1/rank", json=RANK)).status_code
                # the server learns a moment later that the client went
                while (after := (await http.post("/v1/rank", json=RANK)).status_code) == 503:
                    pass
                return during, after

    assert asyncio.run(ask()) == (503, 200)


def support_at(generator_url: str) -> tuple[Generator, Target]:
    spec = spec_of("support_rag")
    target = Target(
        spec=spec,
        endpoint="unused",
        versions={"a": "1.0.0", "b": "1.0.0"},
        budget=budget_of(spec.budget),
        layout=Layout.of(spec),
    )
    return Generator.connect(spec, generator_url), target


def stand_in(status: int = 200) -> Starlette:
    """An OpenAI-style server that says the last word of the question."""

    async def complete(request: Request) -> Response:
        asked = orjson.loads(await request.body())
        if status != 200:
            return JSONResponse({"error": "no"}, status_code=status)
        pieces = ["The ", "answer ", "is ", asked["messages"][-1]["content"].split()[-1]]
        if not asked["stream"]:
            return JSONResponse({"choices": [{"message": {"content": "".join(pieces)}}]})

        def lines() -> Iterator[bytes]:
            for piece in pieces:
                yield b"data: " + orjson.dumps({"choices": [{"delta": {"content": piece}}]}) + b"\n\n"
            yield b"data: [DONE]\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def ask_support(api: Api, body: object, *, status: int = 200) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with served(stand_in(status)) as generator_url:
            shell = Shell(api.routes, support=support_at(generator_url))
            async with served(shell.app()) as url, client(url) as http:
                return await http.post("/v1/support/answer", json=body)

    return asyncio.run(ask())


def test_a_question_is_answered_by_the_generator(api: Api) -> None:
    document = ask_support(api, SUPPORT).json()
    assert document["answer"] == "The answer is captions?"
    assert (document["model_version"], document["variant"] in {"a", "b"}) == ("1.0.0", True)


def test_a_stream_is_server_sent_events_from_start_to_end(api: Api) -> None:
    response = ask_support(api, {**SUPPORT, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in response.text.strip().split("\n\n")]
    names = [block[0].removeprefix("event: ") for block in blocks]
    data = [orjson.loads(block[1].removeprefix("data: ")) for block in blocks]
    assert (names[0], names[-1], set(names[1:-1])) == ("start", "end", {"delta"})
    assert "prediction_id" in data[0]
    assert "".join(piece["text"] for piece in data[1:-1]) == "The answer is captions?"
    assert [(row.prediction_id, row.failed) for row in api.sink.seen] == [(data[0]["prediction_id"], False)]


@pytest.mark.parametrize(("status", "problem"), [(503, "overloaded"), (500, "model-failed")])
def test_a_generator_that_fails_is_a_problem(api: Api, status: int, problem: str) -> None:
    assert ask_support(api, SUPPORT, status=status).json()["type"] == f"urn:streamhub:problem:{problem}"
    assert [exposure.failed for exposure in api.sink.seen] == [True]


def test_a_stream_that_fails_ends_with_an_error_event(api: Api) -> None:
    response = ask_support(api, {**SUPPORT, "stream": True}, status=503)
    assert "event: error" in response.text
    assert "event: end" not in response.text
    assert [exposure.failed for exposure in api.sink.seen] == [True]
