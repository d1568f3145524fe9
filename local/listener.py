"""Loopback ports of the stack's own servers, and how such a server tells its parent that it answers."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from local.snapshot import WAY_OUT
from serving.errors import LocalStackError

HOST = "127.0.0.1"
_BACKLOG = 512
_SETTLED = range(20_000, 32_768)
"""Below the ports that Linux gives to outgoing connections (ip_local_port_range begins at 32768) and macOS's 49152."""
_TRIES = 50


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


def settled_port() -> int:
    """Give a free loopback port that no connection of this machine takes by chance while nobody listens there."""
    for port in random.sample(_SETTLED, k=_TRIES):
        with contextlib.suppress(LocalStackError), bind(port):
            return port
    raise LocalStackError(f"ports {_SETTLED.start} to {_SETTLED.stop - 1} of {HOST}: got none free; give --port")


def refuse_taken(ports: Mapping[str, int], *, asked: Mapping[str, int], state_dir: Path) -> None:
    """Refuse to bring a kept stack back where its ports are not to be had.

    Raises:
        LocalStackError: somebody else has one of them, or another one is asked for.

    """
    for name, port in ports.items():
        if asked[name] not in {0, port}:
            raise LocalStackError(
                f"{name}: got port {asked[name]}; allowed: {port}, where the stack kept in {state_dir} answers; "
                f"{WAY_OUT}"
            )
        try:
            bind(port).close()
        except LocalStackError as error:
            raise LocalStackError(
                f"{name}: port {port}, where the stack kept in {state_dir} answers, is in use by another process; "
                f"end that process, or {WAY_OUT}"
            ) from error


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
