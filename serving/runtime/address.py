"""Where a server listens."""

from __future__ import annotations

import socket

from serving.errors import ServerError

BACKLOG = 2048


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind an address without listening; `shared`: other processes of this user may bind it, too.

    Raises:
        ServerError: it is taken, or not of this machine.

    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT if shared else socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise ServerError(
            f"address: got {host}:{port} ({error}); allowed a free port of this machine (0 chooses one); "
            f"stop what listens there or choose another with --port"
        ) from None
    return listener
