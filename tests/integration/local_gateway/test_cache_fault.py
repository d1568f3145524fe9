"""The fault of the cache: a real Valkey answers nothing while it is there, and all it held when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local import valkey
from local.cache_fault import CacheFault
from local.faults import Faults, make
from local.listener import free_port
from serving.aws.features import connect


@pytest.fixture(name="server")
def server_fixture(tmp_path: Path, until: Callable[..., Any]) -> Iterator[tuple[int, int]]:
    port = free_port()
    with subprocess.Popen(valkey.command(port, tmp_path), stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: valkey.answers(port))
            yield port, process.pid
        finally:
            process.kill()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_it_answers_nothing_and_comes_back_with_what_it_held(
    server: tuple[int, int], tmp_path: Path, until: Callable[..., Any]
) -> None:
    (port, pid), faults = server, Faults(tmp_path / "faults")
    client = connect(f"valkey://127.0.0.1:{port}", timeout_s=0.2)
    client.set("feature", "1")
    fault = CacheFault(faults, pid)
    faults.add(make("cache"))
    fault.look()
    until(lambda: state_of(pid) == "T")
    assert not valkey.answers(port)
    faults.remove("cache:*")
    fault.look()
    assert until(lambda: valkey.answers(port))
    assert connect(f"valkey://127.0.0.1:{port}").get("feature") == b"1"


def test_the_server_goes_on_when_who_stopped_it_ends(
    server: tuple[int, int], tmp_path: Path, until: Callable[..., Any]
) -> None:
    (port, pid), faults = server, Faults(tmp_path / "faults")
    faults.add(make("cache"))

    async def while_it_runs() -> None:
        task = asyncio.create_task(CacheFault(faults, pid).run())
        await asyncio.to_thread(until, lambda: state_of(pid) == "T")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(while_it_runs())
    assert until(lambda: valkey.answers(port))


def test_a_server_that_is_gone_is_no_error(server: tuple[int, int], tmp_path: Path) -> None:
    port, pid = server
    faults, gone = Faults(tmp_path / "faults"), pid + 4_000_000
    with pytest.raises(ProcessLookupError):
        os.kill(gone, 0)
    faults.add(make("cache"))
    fault = CacheFault(faults, gone)
    fault.look()
    faults.remove("cache:*")
    fault.look()
    assert valkey.answers(port), "nothing else was stopped"
