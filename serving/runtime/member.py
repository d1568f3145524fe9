"""One of several processes that serve a port together: what it hears from the one that watches it, and tells it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from serving.runtime.exposition import Board
from serving.runtime.routes import ModelApp
from serving.runtime.settings import Membership

_STDIN, _STDOUT = 0, 1
_PUBLISHED_EACH_S = 1.0


class Member:
    """Ready only once its parent says so on standard input, and gone when that ends: nobody would watch it any more.

    Its `/metrics` are those of all members.
    """

    def __init__(self, membership: Membership, app: ModelApp, *, stop: Callable[[], None]) -> None:
        self._board = Board(membership.folder)
        self._app = app
        self._own = app.exposition
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(_STDIN, self._hear)
        self._publishing = asyncio.ensure_future(self._keep_publishing())
        app.exposition = self._exposition

    def close(self) -> None:
        """Leave the last numbers."""
        self._publishing.cancel()
        self._loop.remove_reader(_STDIN)
        self._publish()

    def _hear(self) -> None:
        if os.read(_STDIN, 64):
            self._app.repository.opened = True
            self._publish()
            os.write(_STDOUT, b"ready\n")
        else:
            self._loop.remove_reader(_STDIN)
            self._stop()

    def _exposition(self) -> str:
        self._publish()
        return self._board.text()

    def _publish(self) -> None:
        self._board.write(self._own(), process=os.getpid())

    async def _keep_publishing(self) -> None:
        while True:
            self._publish()
            await asyncio.sleep(_PUBLISHED_EACH_S)
