"""What clients may get wrong, by accident or on purpose: each gets an error of its own, and the server stays well."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Talk = Callable[..., list[tuple[int, dict[str, str], bytes]]]
X = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
PICK = {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [1]}
GOOD = json.dumps({"inputs": [X, PICK]}).encode()
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def post(body: bytes, *headers: str, path: str = "/invocations", length: int | None = None) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: x", *headers]
    lines.append(f"content-length: {len(body) if length is None else length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*chunks: bytes, extra: bytes = b"") -> bytes:
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    head = b"POST /invocations HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + pieces + b"0\r\n" + extra + b"\r\n"


def inputs(*tensors: object) -> bytes:
    return post(json.dumps({"inputs": list(tensors)}).encode())


def binary_header(*, size: int) -> tuple[bytes, int]:
    header = json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": size}},
                PICK,
            ]
        }
    ).encode()
    return header, len(header)


RAW = np.ones(4, dtype="<f4").tobytes()
HEAD, HEAD_SIZE = binary_header(size=16)
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "no body": (post(b""), 400, "got nothing"),
    "no JSON": (post(b"{"), 400, "no JSON"),
    "a list": (post(b"[]"), 400, "list"),
    "no inputs": (post(b"{}"), 400, "inputs"),
    "an unknown input": (inputs({**X, "name": "z"}, PICK), 400, "'z'"),
    "a missing input": (inputs(X), 400, "exactly 'x', 'pick'"),
    "an input twice": (inputs(X, X), 400, "twice"),
    "another type": (inputs({**X, "datatype": "FP64"}, PICK), 400, "FP32"),
    "no type": (inputs({**X, "datatype": "FP31"}, PICK), 400, "datatype"),
    "another rank": (inputs({**X, "shape": [4]}, PICK), 400, "shape"),
    "another size": (inputs({**X, "shape": [1, 3], "data": [1, 2, 3]}, PICK), 400, "[rows, 4]"),
    "no rows": (inputs({**X, "shape": [0, 4], "data": []}, {**PICK, "shape": [0, 1], "data": []}), 400, "rows"),
    "rows that differ": (inputs(X, {**PICK, "shape": [2, 1], "data": [1, 1]}), 400, "same in every input"),
    "a text for a number": (inputs({**X, "data": [1, 2, 3, "4"]}, PICK), 400, "FP32"),
    "a fraction for an integer": (inputs(X, {**PICK, "data": [1.5]}), 400, "INT64"),
    "an unknown output": (post(json.dumps({"inputs": [X, PICK], "outputs": [{"name": "q"}]}).encode()), 400, "'q'"),
    "a header size that is no number": (post(GOOD, f"content-type: {BINARY}x"), 400, "header size"),
    "a header size beyond the body": (post(GOOD, f"content-type: {BINARY}{len(GOOD) + 1}"), 400, "header size"),
    "a header size of 0": (post(GOOD, f"content-type: {BINARY}0"), 400, "no JSON"),
    "raw bytes cut short": (post(HEAD + RAW[:-1], f"content-type: {BINARY}{HEAD_SIZE}"), 400, "raw bytes"),
    "raw bytes too many": (post(HEAD + RAW + b"x", f"content-type: {BINARY}{HEAD_SIZE}"), 400, "after the last"),
    "a time that is none": (post(GOOD, "x-streamhub-timeout-ms: soon"), 400, "Timeout-Ms"),
    "a time of not a number": (post(GOOD, "x-streamhub-timeout-ms: nan"), 400, "Timeout-Ms"),
    "a body compressed otherwise": (post(GOOD, "content-encoding: br"), 415, "gzip, deflate or identity"),
    "a body that is not as compressed as it says": (post(GOOD, "content-encoding: gzip"), 400, "no gzip"),
    "a body that no model reads": (post(GOOD, "content-type: image/png"), 415, "application/json"),
    "rows for a model of two inputs": (post(b"1,2", "content-type: text/csv"), 415, "application/json"),
    "Triton's type with a blank in it": (
        post(GOOD, f"content-type: {BINARY.replace(';', '; ')}{len(GOOD)}"),
        415,
        "this very text",
    ),
    "Triton's type without its size": (post(GOOD, f"content-type: {BINARY.partition(';')[0]}"), 415, "very text"),
    "a header size below 0": (post(GOOD, f"content-type: {BINARY}-1"), 400, "header size"),
    "a header size of digits without end": (post(GOOD, f"content-type: {BINARY}{'9' * 400}"), 400, "header size"),
    "an answer that nobody can give": (post(GOOD, "accept: image/png"), 406, "application/json"),
    "a session": (post(GOOD, "x-amzn-sagemaker-session-id: NEW_SESSION"), 400, "Session-Id"),
    "a model beside the one here": (post(GOOD, "x-amzn-sagemaker-target-model: a.tar.gz"), 400, "Target-Model"),
    "custom attributes too long": (
        post(GOOD, f"x-amzn-sagemaker-custom-attributes: {'a' * 1025}"),
        400,
        "Custom-Attributes",
    ),
    "an inference id too long": (post(GOOD, f"x-amzn-sagemaker-inference-id: {'a' * 65}"), 400, "Inference-Id"),
    "shared memory": (b"GET /v2/systemsharedmemory/status HTTP/1.1\r\nhost: x\r\n\r\n", 501, "shared memory"),
    "an unknown path": (b"GET /nope HTTP/1.1\r\nhost: x\r\n\r\n", 404, "/invocations"),
    "an unknown model": (post(GOOD, path="/v2/models/other/infer"), 404, "linear"),
    "an unknown version": (post(GOOD, path="/v2/models/linear/versions/9/infer"), 404, "linear"),
    "another method": (b"GET /invocations HTTP/1.1\r\nhost: x\r\n\r\n", 405, "POST"),
    "options": (b"OPTIONS /ping HTTP/1.1\r\nhost: x\r\n\r\n", 405, "GET"),
    "no path at all": (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", 404, "/invocations"),
    "a path with dots": (b"GET /v2/../ping HTTP/1.1\r\nhost: x\r\n\r\n", 404, "/invocations"),
    "a path with a zero byte": (b"GET /v2/models/%zz%00 HTTP/1.1\r\nhost: x\r\n\r\n", 404, "/invocations"),
}
CLOSED: dict[str, tuple[bytes, int, str]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "HTTP"),
    "a length that is no number": (b"POST /invocations HTTP/1.1\r\ncontent-length: ten\r\n\r\n", 400, "HTTP"),
    "two lengths": (b"POST /invocations HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", 400, "HTTP"),
    "length and chunks": (
        b"POST /invocations HTTP/1.1\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "HTTP",
    ),
    "a chunk size that is no number": (chunked()[:-5] + b"zz\r\n", 400, "HTTP"),
    "an announced body too large": (post(b"", length=25_000_001), 413, "25000000"),
    "a head too large": (b"GET /ping HTTP/1.1\r\nx: " + b"a" * 40_000 + b"\r\n\r\n", 431, "32768"),
    "a path too long": (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", 431, "32768"),
    "a head without end": (b"GET /ping HTTP/1.1\r\nx: " + b"a" * 2_000_000, 431, "32768"),
    "chunk extensions without end": (chunked()[:-5] + b"1;" + b"a" * 2_000_000, 431, "32768"),
    "trailers without end": (chunked(b"x")[:-2] + b"t: " + b"a" * 2_000_000, 431, "32768"),
    "an unknown expectation": (post(GOOD, "expect: the-inquisition"), 417, "100-continue"),
    "lines that end in LF alone": (b"GET /ping HTTP/1.1\nhost: x\n\n", 400, "HTTP"),
    "one line that ends in LF alone": (b"GET /ping HTTP/1.1\r\nhost: x\n\r\n", 400, "HTTP"),
    "lines that end in CR alone": (b"GET /ping HTTP/1.1\rhost: x\r\r\n\r\n", 400, "HTTP"),
    "a header over two lines": (b"GET /ping HTTP/1.1\r\nhost: x\r\n y\r\n\r\n", 400, "HTTP"),
    "a zero byte in a header": (b"GET /ping HTTP/1.1\r\nhost: x\r\na: b\x00c\r\n\r\n", 400, "HTTP"),
    "a header without a name": (b"GET /ping HTTP/1.1\r\n: x\r\n\r\n", 400, "HTTP"),
    "a blank before a colon": (b"POST /invocations HTTP/1.1\r\ncontent-length : 1\r\n\r\nx", 400, "HTTP"),
    "the same length twice": (post(GOOD, f"content-length: {len(GOOD)}"), 400, "HTTP"),
    "a list of lengths": (b"POST /invocations HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\nx", 400, "HTTP"),
    "a length with a sign": (b"POST /invocations HTTP/1.1\r\ncontent-length: +1\r\n\r\nx", 400, "HTTP"),
    "a length below 0": (b"POST /invocations HTTP/1.1\r\ncontent-length: -1\r\n\r\nx", 400, "HTTP"),
    "a length beyond 64 bits": (post(b"", length=10**25), 400, "HTTP"),
    "an empty length": (b"POST /invocations HTTP/1.1\r\ncontent-length: \r\n\r\nx", 400, "HTTP"),
    "chunks and length": (
        b"POST /invocations HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        400,
        "HTTP",
    ),
    "chunks of another coding": (chunked(GOOD).replace(b": chunked", b": gzip, chunked"), 501, "chunked alone"),
    "chunks that are not the last coding": (chunked(GOOD).replace(b": chunked", b": chunked, gzip"), 400, "HTTP"),
    "chunks by nearly that name": (chunked(GOOD).replace(b": chunked", b": xchunked"), 501, "chunked alone"),
    "chunks in HTTP/1.0": (chunked(GOOD).replace(b"HTTP/1.1", b"HTTP/1.0"), 400, "transfer-encoding"),
    "a chunk size below 0": (chunked()[:-5] + b"-1\r\n", 400, "HTTP"),
    "a chunk size beyond 64 bits": (chunked()[:-5] + b"f" * 17 + b"\r\n", 400, "HTTP"),
    "chunks whose lines end in LF": (chunked()[:-5] + b"1\nx\n0\n\n", 400, "HTTP"),
    "two hosts": (b"GET /ping HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n", 400, "host: got it twice"),
    "two types of one body": (post(GOOD, "content-type: text/csv", "content-type: a/b"), 400, "content-type"),
    "two sizes of one header": (
        post(GOOD, "inference-header-content-length: 1", "inference-header-content-length: 2"),
        400,
        "twice",
    ),
    "HTTP/0.9": (b"GET /ping\r\n\r\n", 505, "HTTP/1.1"),
    "HTTP/1.2": (b"GET /ping HTTP/1.2\r\nhost: x\r\n\r\n", 400, "HTTP"),
    "the first bytes of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "HTTP"),
    "a method that is none": (b"FOO /ping HTTP/1.1\r\nhost: x\r\n\r\n", 400, "HTTP"),
    "a method in small letters": (b"get /ping HTTP/1.1\r\nhost: x\r\n\r\n", 400, "HTTP"),
    "a blank in the path": (b"GET /pi ng HTTP/1.1\r\nhost: x\r\n\r\n", 400, "HTTP"),
    "a path of other bytes": (b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n", 400, "HTTP"),
    "every byte there is": (bytes(range(256)), 400, "HTTP"),
    "an upgrade with a body": (post(GOOD, "connection: upgrade", "upgrade: h2c"), 501, "leave upgrade out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_request_gets_its_reason_and_keeps_its_connection(linear: Any, talk: Talk, name: str) -> None:
    data, status, text = REFUSED[name]
    wrong, right = talk(linear, data + post(GOOD), answers=2)
    assert (wrong[0], right[0]) == (status, 200)
    assert list(json.loads(wrong[2])) == ["error"]
    assert text in json.loads(wrong[2])["error"]


@pytest.mark.parametrize("name", CLOSED)
def test_a_request_without_a_readable_end_gets_its_reason_and_is_closed(linear: Any, talk: Talk, name: str) -> None:
    data, status, text = CLOSED[name]
    answers = talk(linear, data, answers=-1)
    assert [answer[0] for answer in answers] == [status]
    assert answers[0][1]["connection"] == "close"
    assert text in json.loads(answers[0][2])["error"]
    assert talk(linear, post(GOOD))[0][0] == 200


def test_a_client_that_still_sends_a_body_too_large_reads_why(linear: Any) -> None:
    with linear.client() as http:
        answer = http.post("/invocations", content=b"x" * 26_000_000)
        assert answer.status_code == 413
        answer = http.post("/invocations", content=(b"x" * 1_000_000 for _ in range(26)))
        assert answer.status_code == 413


def test_pipelined_requests_are_answered_in_order(linear: Any, talk: Talk) -> None:
    """The slow way through the worker and the quick ones around it: the answers keep the order of the questions."""
    ping = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
    answers = talk(linear, post(GOOD) + ping + post(b"{") + post(GOOD) + b"GET /v2 HTTP/1.1\r\n\r\n", answers=5)
    assert [answer[0] for answer in answers] == [200, 200, 400, 200, 200]
    assert json.loads(answers[0][2])["outputs"][0]["data"] == [24.5]
    assert answers[1][2] == b""
    assert json.loads(answers[4][2])["name"] == "streamhub"


def test_hundreds_of_pipelined_requests_are_all_answered(linear: Any, talk: Talk) -> None:
    answers = talk(linear, post(GOOD) * 150, answers=150)
    assert {answer[0] for answer in answers} == {200}


def test_a_request_may_come_byte_by_byte_and_in_chunks(linear: Any, read: Talk) -> None:
    for data in (
        post(GOOD),
        chunked(GOOD[:7], GOOD[7:]),
        chunked(*(bytes([byte]) for byte in GOOD), extra=b"t: 1\r\n"),
    ):
        with socket.create_connection(("127.0.0.1", linear.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(len(data)):
                connection.sendall(data[at : at + 1])
            assert read(connection, answers=1)[0][0] == 200


def test_a_trailer_changes_nothing(linear: Any, talk: Talk) -> None:
    assert talk(linear, chunked(GOOD, extra=b"content-encoding: gzip\r\n"))[0][0] == 200


def test_expect_100_continue_is_answered_before_the_body(linear: Any, read: Talk) -> None:
    with socket.create_connection(("127.0.0.1", linear.port)) as connection:
        connection.sendall(post(b"", "expect: 100-continue", length=len(GOOD)))
        assert read(connection, answers=1)[0][0] == 100
        connection.sendall(GOOD)
        assert read(connection, answers=1)[0][0] == 200


@pytest.mark.parametrize(
    "head", [b"POST /invocations HTTP/1.0\r\n", b"POST /invocations HTTP/1.1\r\nconnection: close\r\n"]
)
def test_a_client_that_wants_to_be_closed_is_closed(linear: Any, talk: Talk, head: bytes) -> None:
    answers = talk(linear, head + b"content-length: %d\r\n\r\n" % len(GOOD) + GOOD, answers=-1)
    assert [answer[0] for answer in answers] == [200]
    assert answers[0][1]["connection"] == "close"


def test_an_offer_to_upgrade_is_declined_by_answering(linear: Any, talk: Talk) -> None:
    upgrade = b"GET /ping HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    assert [answer[0] for answer in talk(linear, upgrade, answers=-1)] == [200]


def test_clients_that_drip_or_say_nothing_are_closed(start: Any, talk: Talk) -> None:
    with start("linear", "--request-timeout-s", "0.3", "--idle-timeout-s", "0.3") as server:
        for drip in (b"GET /pi", b"POST /invocations HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc"):
            answers = talk(server, drip, answers=-1)
            assert [answer[0] for answer in answers] == [408]
        assert talk(server, b"", answers=-1) == []
        assert [answer[0] for answer in talk(server, post(GOOD), answers=-1)] == [200]


def test_a_client_that_does_not_read_costs_nobody_else(linear: Any, talk: Talk) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", linear.port))
        connection.setblocking(False)
        sent = 0
        try:
            while sent < 50_000_000:  # the server stops reading long before
                sent += connection.send(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 100)
        except BlockingIOError:
            pass
        assert sent < 50_000_000
        assert talk(linear, post(GOOD))[0][0] == 200


@pytest.mark.parametrize(
    "target", ["http://here/ping", "HTTP://here:8080/ping?x=1", "/ping?x=/nope", "/v2/models/line%61r/ready"]
)
def test_a_path_may_be_written_in_every_way_the_rfcs_know(linear: Any, talk: Talk, target: str) -> None:
    assert talk(linear, f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())[0][0] == 200


def test_head_is_get_without_its_body(linear: Any) -> None:
    head = b"HEAD %s HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    for path, status in ((b"/v2", 200), (b"/nope", 404), (b"/invocations", 405)):
        with socket.create_connection(("127.0.0.1", linear.port)) as connection:
            connection.sendall(head % path)
            with connection.makefile("rb") as stream:
                got = stream.read()
        assert got.startswith(b"HTTP/1.1 %d " % status)
        assert got.endswith(b"\r\n\r\n")
        assert b"content-length: 0" not in got


def test_a_client_that_says_it_sends_no_more_is_answered_what_is_ready(linear: Any, read: Talk) -> None:
    with socket.create_connection(("127.0.0.1", linear.port)) as connection:
        connection.sendall(post(GOOD))
        answered = read(connection, answers=1)
        connection.sendall(post(GOOD)[:-5])
        connection.shutdown(socket.SHUT_WR)  # in the middle of a request: nobody waits for the rest
        assert (answered[0][0], connection.recv(1)) == (200, b"")


def test_chunk_extensions_are_passed_over(linear: Any, talk: Talk) -> None:
    assert talk(linear, chunked(GOOD).replace(b"%x\r\n" % len(GOOD), b'%x;a="b"\r\n' % len(GOOD)))[0][0] == 200
