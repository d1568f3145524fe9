"""Moments of a stack: taken on request, of a kept one every few seconds and at the end; a start goes on from the last.

A moment is all of AWS at once: what ministack holds, and the files of our own services. A stack that is killed goes
on from its last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from local.clock import FILE as CLOCK
from local.snapshot import Snapshot

TAKE_MOMENT = signal.SIGUSR1
"""Asks the gateway to write what it holds now."""

INTERVAL_S = 10.0
_RETRY_S = 0.5
FILE = "snapshot.sqlite"
_OURS = "ours/"
_NOT_OURS = frozenset({CLOCK})  # the stack's time does not go back with it
_log = logging.getLogger(__name__)


class Held(Protocol):
    """What one process holds in memory."""

    def changes(self) -> bool:
        """Say whether something is half done that cannot be continued."""

    def capture(self) -> tuple[dict[str, str], dict[str, bytes]]:
        """Give documents by name, and the bytes that they name by digest."""

    def restore(self, documents: Mapping[str, str], blobs: Mapping[str, bytes]) -> None:
        """Put them back."""


def bring_back(held: Held, *, folder: Path, snapshot: Snapshot) -> None:
    """Put the last moment into memory and into the files of `folder`.

    Raises:
        LocalStackError: it is damaged, or was never taken.

    """
    documents, blobs = snapshot.read()
    ours = {name.removeprefix(_OURS): text for name, text in documents.items() if name.startswith(_OURS)}
    for file in _files(folder):
        if file.name not in ours:
            file.unlink()  # younger than the moment
    for name, text in ours.items():
        scratch = folder / f"{name}.tmp"
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(folder / name)
    held.restore({name: text for name, text in documents.items() if not name.startswith(_OURS)}, blobs)


class Checkpoints:
    """Takes moments of memory and of the JSON files in `folder`: when asked; if it `keeps`, all the while and last."""

    def __init__(self, held: Held, *, folder: Path, snapshot: Snapshot, keeps: bool) -> None:
        self._held = held
        self._folder = folder
        self._snapshot = snapshot
        self._keeps = keeps
        self._asked = asyncio.Event()
        self._writing = asyncio.Lock()

    def ask(self) -> None:
        """Have a moment taken now, or as soon as nothing is half done."""
        self._asked.set()

    async def run(self) -> None:
        """Take moments until cancelled; one that fails is logged, and the next one is tried."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), INTERVAL_S if self._keeps else None)
            asked = self._asked.is_set()
            self._asked.clear()  # before: who asks while one is being written wants a later one
            if not await self._try():
                if asked:
                    self._asked.set()
                await asyncio.sleep(_RETRY_S)

    async def end(self) -> None:
        """Take the last one, when all services have written what they had."""
        if self._keeps:
            await self._try()

    async def take(self) -> bool:
        """Take one, unless something is half done; say whether it was taken.

        Raises:
            LocalStackError: it cannot be written.

        """
        async with self._writing:
            if self._held.changes():
                return False
            at_s = time.time()  # before: who asks from here on is to get a later one
            documents, blobs = self._held.capture()
            ours = {f"{_OURS}{file.name}": file.read_text(encoding="utf-8") for file in _files(self._folder)}
            await asyncio.to_thread(self._snapshot.write, documents | ours, blobs, at_s=at_s)
        return True

    async def _try(self) -> bool:
        try:
            return await self.take()
        except Exception:  # noqa: BLE001 - whatever one moment lacks, the stack goes on, and the next one is tried
            _log.exception("no moment of the stack could be kept")
            return False


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.json") if file.name not in _NOT_OURS]
