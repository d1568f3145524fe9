"""The client of the HTTP API signs as API Gateway asks, and says in one line why it cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from serving.aws import session
from serving.aws.http_api import SignedApi
from serving.errors import EndpointError


class Echo(BaseHTTPRequestHandler):
    """Answers what it was sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        document = {"path": self.path, "signed": self.headers["Authorization"], "body": json.loads(body)}
        data = b"no json" if self.path == "/text" else json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(name="url")
def url_fixture() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    session._session.cache_clear()  # another test's credentials
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    yield
    session._session.cache_clear()


def test_a_call_is_signed_for_execute_api_in_the_region_of_aws_region(url: str) -> None:
    status, document = SignedApi(url, timeout_s=10).post("/v1/rank", {"user_id": "u"})
    assert status == 200
    assert document["body"] == {"user_id": "u"}
    signed = str(document["signed"])
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-central-1/execute-api/aws4_request" in signed


def test_an_answer_that_is_no_json_is_an_error_of_ours(url: str) -> None:
    with pytest.raises(EndpointError, match="POST /text"):
        SignedApi(url, timeout_s=10).post("/text", {})


def test_a_host_that_does_not_answer_is_an_error_of_ours() -> None:
    with pytest.raises(EndpointError, match="POST /v1/rank"):
        SignedApi("http://127.0.0.1:9", timeout_s=1).post("/v1/rank", {})


def test_no_region_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    with pytest.raises(EndpointError, match="set AWS_REGION"):
        session.signer("execute-api")
