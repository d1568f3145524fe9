"""The demo's clients: what no answer comes to is counted as lost, and an interrupt ends them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat

import pytest

from cli.demo.tally import Tally
from cli.demo.traffic import LOST, Answer, Ask, send

CLIENTS = 4


class Server(BaseHTTPRequestHandler):
    """Answers `{}` to `/answered` and hangs up on the rest."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/answered":
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(name="url")
def url_fixture() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_connection_that_is_closed_without_an_answer_is_a_lost_request(url: str) -> None:
    answers = send(url, [Ask(route="/hung-up", body={}), Ask(route="/answered", body={})], clients=1)
    assert [answer.status for answer in answers] == [LOST, 200]
    assert Tally.of(answers).lost == 1


def test_every_request_is_answered_once(url: str) -> None:
    asks = [Ask(route="/answered", body={}, tag=number) for number in range(40)]
    answers = send(url, asks, clients=CLIENTS)
    assert sorted(answer.ask.tag for answer in answers) == list(range(40))  # type: ignore[type-var]


def test_an_interrupt_lets_each_client_end_its_request_and_send_no_other(url: str) -> None:
    seen: list[Answer] = []

    def interrupted(answer: Answer) -> None:
        seen.append(answer)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send(url, repeat(Ask(route="/answered", body={})), clients=CLIENTS, on_answer=interrupted)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("client")] == []
