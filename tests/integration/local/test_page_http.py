"""The page's handlers over HTTP: what they give, what they refuse, and that nothing may leave the origin."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from local.faults import make
from local.page.guard import POLICY
from local.page.server import MAX_BODY_BYTES, STATIC
from local.page.traffic import Burst
from tests.fakes.page import Script, Server, served

HEADERS = {"content-type": "application/json", "x-streamhub-page": "1"}


@dataclass
class Given:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Speaks HTTP to the page, with any header a test likes."""

    script: Script
    server: Server

    def __call__(
        self, method: str, path: str = "", *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Given:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        connection.putrequest(method, f"/_streamhub{path}", skip_host="host" in (headers or {}))
        for name, value in {**(headers or {}), **({"content-length": str(len(body))} if body else {})}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        given = Given(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return given


@pytest.fixture(name="ask", scope="module")
def ask_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    script = Script(folder=tmp_path_factory.mktemp("page"))
    with served(script) as server:
        yield Client(script, server)


@pytest.mark.parametrize("path", ["", "/", "/main.js", "/page.css", "/icon.svg", "/state.json", "/nothing", "/faults"])
def test_every_answer_carries_the_strict_policy(ask: Client, path: str) -> None:
    headers = ask("GET", path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_every_file_of_the_page_is_served_as_what_it_is(ask: Client) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
    for file in STATIC.iterdir():
        given = ask("GET", f"/{file.name}")
        assert (given.status, given.body) == (200, file.read_bytes())
        assert given.headers["content-type"].startswith(kinds[file.suffix])


def test_no_file_of_the_page_names_another_origin_or_writes_markup() -> None:
    for file in STATIC.iterdir():
        text = file.read_text()
        foreign = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'`)]*""", text)) - {"http://www.w3.org/2000/svg"}
        assert foreign == set()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
    index = (STATIC / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", index)


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/static/main.js",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "/index.html/x",
        "//etc/passwd",
        "/\x00",
    ],
    ids=range(7),
)
def test_no_path_leads_out_of_the_page(ask: Client, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", ask.server.port, timeout=10)
    connection.sock = None
    connection.connect()
    assert connection.sock is not None
    connection.sock.sendall(f"GET /_streamhub{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    response = http.client.HTTPResponse(connection.sock)
    response.begin()
    assert response.status in {400, 404}
    connection.close()


def test_a_file_that_is_known_is_not_sent_again(ask: Client) -> None:
    first = ask("GET", "/main.js")
    again = ask("GET", "/main.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert ask("GET", "/main.js", headers={"if-none-match": '"other"'}).status == 200


def test_head_gives_no_body(ask: Client) -> None:
    assert (ask("HEAD", "/state.json").status, ask("HEAD", "/state.json").body) == (200, b"")


def test_the_document_is_versioned_and_never_stored(ask: Client) -> None:
    given = ask("GET", "/state.json")
    assert given.document["version"] == 1
    assert given.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80"])
def test_a_foreign_name_for_this_machine_sees_nothing(ask: Client, host: str) -> None:
    for path in ("", "/state.json", "/main.js"):
        given = ask("GET", path, headers={"host": host})
        assert given.status == 403
        assert b"recommendation" not in given.body


@pytest.mark.parametrize(
    "changed",
    [
        {"content-type": "text/plain"},
        {"x-streamhub-page": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},
    ],
    ids=["a form", "no header", "origin", "sandbox", "cross-site", "rebound"],
)
def test_another_site_changes_nothing(ask: Client, changed: dict[str, str]) -> None:
    given = ask("POST", "/faults", body=b'{"kind": "slow"}', headers={**HEADERS, **changed})
    assert given.status == 403
    assert given.document["error"]
    assert ask.script.faults.all() == ()


def test_nothing_allows_another_origin_to_ask_by_cors(ask: Client) -> None:
    asked = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    given = ask("OPTIONS", "/faults", headers=asked)
    assert given.status == 405
    assert not [name for name in given.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(("method", "path"), [("GET", "/traffic"), ("DELETE", "/faults"), ("PUT", "/state.json")])
def test_other_methods_are_refused_with_those_allowed(ask: Client, method: str, path: str) -> None:
    given = ask(method, path, headers=HEADERS)
    assert given.status == 405
    assert given.headers["allow"]


def test_a_body_beyond_its_bound_is_refused(ask: Client) -> None:
    given = ask("POST", "/faults", body=b" " * (MAX_BODY_BYTES + 1), headers=HEADERS)
    assert given.status == 413


def test_a_fault_comes_and_goes(ask: Client) -> None:
    own = {**HEADERS, "origin": f"http://127.0.0.1:{ask.server.port}", "sec-fetch-site": "same-origin"}
    given = ask("POST", "/faults", body=b'{"kind": "throttle", "share": 0.5}', headers=own)
    assert (given.status, given.document) == (200, {"added": "throttle:*"})
    assert ask.script.faults.all() == (make("throttle", share=0.5),)
    assert [fault["kind"] for fault in ask("GET", "/state.json").document["faults"]] == ["throttle"]
    assert ask("POST", "/faults/remove", body=b'{"name": "throttle:*"}', headers=own).status == 200
    again = ask("POST", "/faults/remove", body=b'{"name": "throttle:*"}', headers=own)
    assert (again.status, "there are no faults" in again.document["error"]) == (400, True)


def test_a_burst_says_what_came_back(ask: Client) -> None:
    body = b'{"target": "route:/v1/rank", "requests": 8, "clients": 2}'
    given = ask("POST", "/traffic", body=body, headers=HEADERS)
    assert given.status == 200
    assert {(row["status"], row["variant"], row["count"]) for row in given.document["rows"]} == {
        (200, "a", 4),
        (200, "b", 2),
        (424, "b", 2),
    }
    assert ask.script.sender.sent[-1] == Burst(target="route:/v1/rank", requests=8, clients=2)
