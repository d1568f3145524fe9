"""The fault `cache`: the Valkey server's process is stopped while it is there, and goes on when it is removed.

A stopped server keeps its data and its connections, and answers nothing: what a client meets whose cache is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import Final

from local.faults import Faults

_LOOK_S: Final = 0.1
_log = logging.getLogger(__name__)


class CacheFault:
    """Looks at the faults and stops or continues a process by its id."""

    def __init__(self, faults: Faults, pid: int) -> None:
        self._faults = faults
        self._pid = pid
        self._stopped = False

    async def run(self) -> None:
        """Look until cancelled; then the server goes on."""
        try:
            while True:
                self.look()
                await asyncio.sleep(_LOOK_S)
        finally:
            self._go_on()

    def look(self) -> None:
        """Do what the faults ask for now."""
        wanted = any(fault.kind == "cache" for fault in self._faults.all())
        if wanted and not self._stopped:
            _log.warning("Valkey is stopped: a fault was asked for")
            self._stopped = self._send(signal.SIGSTOP)
        elif not wanted:
            self._go_on()

    def _go_on(self) -> None:
        if self._stopped:
            _log.warning("Valkey goes on")
            self._send(signal.SIGCONT)
            self._stopped = False

    def _send(self, number: signal.Signals) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)
            return True
        return False
