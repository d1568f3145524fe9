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
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers `{"answer": name, …}`, or what the body asks for: status, sleep_s, until, die, say, give, parts, raw."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: dict[str, str]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        wish = json.loads(raw) if self.headers["content-type"] == "application/json" else {}
        if wish.get("die"):
            os._exit(3)
        time.sleep(wish.get("sleep_s", 0))
        while "until" in wish and not Path(wish["until"]).exists():
            time.sleep(0.01)
        document = {
            "answer": self.model["name"],
            "size": len(raw),
            "pid": os.getpid(),
            "mark": os.environ.get("MARK"),
            "headers": {key.lower(): value for key, value in self.headers.items()},
        }
        if "raw" in wish:
            self.wfile.write(wish["raw"].encode())
            self.close_connection = True
            return
        body = wish["say"].encode() if "say" in wish else json.dumps(document).encode()
        self.send_response(wish.get("status", int(self.model.get("status", "200"))))
        for name, value in wish.get("give", {}).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        if "parts" in wish:
            self.stream(wish)
            return
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, wish: dict[str, Any]) -> None:
        """Send `parts` as chunks; waits `pause_s`, or for a file `until_each`, between them; may `break` off."""
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, part in enumerate(wish["parts"]):
            time.sleep(wish.get("pause_s", 0) if number else 0)
            while number and "until_each" in wish and not Path(wish["until_each"]).exists():
                time.sleep(0.01)
            self.wfile.write(f"{len(part):x}\r\n{part}\r\n".encode())
        if wish.get("break"):
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

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
