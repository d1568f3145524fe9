"""Loopback ports of the stack's own servers, and how such a server tells its parent that it answers."""

from __future__ import annotations

import json
import socket
import sys

import uvicorn

from serving.errors import LocalStackError

HOST = "127.0.0.1"
_BACKLOG = 512


def bind(port: int) -> socket.socket:
    """Take a loopback port, 0 for any free one, and listen.

    Raises:
        LocalStackError: somebody else has it.

    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise LocalStackError(f"port {port} of {HOST} is in use; allowed: a free one; give another or none") from error
    return listener


def free_port() -> int:
    """Give a loopback port that was free a moment ago, for a program that takes no open socket."""
    with bind(0) as listener:
        return int(listener.getsockname()[1])


class AnnouncingServer(uvicorn.Server):
    """Prints `{"port": N}` on stdout once it answers."""

    def __init__(self, config: uvicorn.Config, *, port: int) -> None:
        super().__init__(config)
        self._port = port

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, then say so."""
        await super().startup(sockets)
        sys.stdout.write(json.dumps({"port": self._port}) + "\n")
        sys.stdout.flush()
