"""A model server of a few lines, speaking the start-up contract and doing what its request says.

The archive is a JSON object: `name`, `fail` to end at once with that text, and `status` to answer with it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Answers `{"answer": name, …}`, or does what the body asks for: status, sleep_s, die."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: dict[str, str]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        wish = json.loads(raw) if self.headers["content-type"] == "application/json" else {}
        if wish.get("die"):
            os._exit(3)
        time.sleep(wish.get("sleep_s", 0))
        document = {
            "answer": self.model["name"],
            "size": len(raw),
            "pid": os.getpid(),
            "mark": os.environ.get("MARK"),
            "headers": {key.lower(): value for key, value in self.headers.items()},
        }
        body = wish["say"].encode() if "say" in wish else json.dumps(document).encode()
        self.send_response(wish.get("status", int(self.model.get("status", "200"))))
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    Handler.model = json.loads(arguments.archive.read_text())
    if "fail" in Handler.model:
        sys.exit(Handler.model["fail"])
    server = ThreadingHTTPServer((arguments.host, arguments.port), Handler)
    server.daemon_threads = True
    print(json.dumps({"port": server.server_address[1], "name": Handler.model["name"]}), flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
