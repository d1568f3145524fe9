"""One running server: started on its core, asked, stopped for a while, measured, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import urllib3

from benchmarks.serving import processes
from benchmarks.serving.launch import Site
from benchmarks.serving.load import OK, Client, Load, framed
from benchmarks.serving.peers import NOOP, Peer, Setting
from benchmarks.serving.results import Sample
from benchmarks.serving.statistics import Latency
from benchmarks.serving.wires import Kind
from serving.errors import BenchmarkError
from serving.protocol.tensors import Array

READY_WITHIN_S = 90.0
ENDS_WITHIN_S = 10.0
TOLERANCE = 1e-4
"""Batched sums add in another order, and JSON has fewer digits; more is another answer."""

_SAME_FOR_ALL = {"ORT_DISABLE_TELEMETRY": "1"}
"""From 1.29 on ONNX Runtime uploads what it is used for, with threads of its own."""

_WARM_SHARE = 0.2
_POLL_S = 0.01
_LOG_CHARACTERS = 200


@dataclass(slots=True, kw_only=True)
class Instance:
    """A server process with its model; `expected` holds the scores of each distinct request, `[requests, outputs]`."""

    peer: Peer
    setting: Setting
    site: Site
    expected: Array
    client: Client
    process: subprocess.Popen[bytes]
    requests: Mapping[Kind, Path]
    start_s: float
    idle_mib: float

    @property
    def name(self) -> str:
        """Peer and setting."""
        return f"{self.peer.name} ({self.setting})"

    def closed_loop(self, kind: Kind, *, clients: int, seconds: float) -> Sample:
        """Ask with so many clients for a while.

        Raises:
            BenchmarkError: it ended, or answered nothing.

        """
        before_s = processes.cpu_s(self.process.pid)
        load = self.client.drive(self.site.port, self.requests[kind], connections=clients, seconds=seconds)
        used_s = processes.cpu_s(self.process.pid) - before_s
        good = load.statuses.get(OK, 0)
        if not good:
            raise BenchmarkError(f"{self.peer.name}: got no answer of 200 in {seconds:g} s; {self.log_end()}")
        latency = Latency.of(load.latency_s[int(len(load.records) * _WARM_SHARE) :])
        return Sample(
            rate=good / load.wall_s,
            p50_ms=latency.p50_ms,
            p90_ms=latency.p90_ms,
            p99_ms=latency.p99_ms,
            cpu_us=used_s / load.answered * 1e6,
            client_share=load.cpu_s / load.wall_s,
            failed=len(load.records) - good,
            wrong=self._wrong(kind, load),
        )

    def open_loop(
        self, kind: Kind, *, rate: float, connections: int, seconds: float, seed: int, patience_s: float = 0
    ) -> Load:
        """Ask at the times of a Poisson process; `patience_s` as in `Client.drive`."""
        return self.client.drive(
            self.site.port,
            self.requests[kind],
            connections=connections,
            seconds=seconds,
            rate=rate,
            patience_s=patience_s,
            seed=seed,
        )

    def _wrong(self, kind: Kind, load: Load) -> int:
        if self.peer.name == NOOP:
            return 0
        decode = self.peer.routes[kind].wire.decode
        wrong = 0
        for connection, body in enumerate(load.bodies):
            if body:
                expected = self.expected[connection % len(self.expected)]
                try:
                    wrong += not np.allclose(decode(body), expected, rtol=TOLERANCE, atol=TOLERANCE)
                except (ValueError, KeyError, TypeError):
                    wrong += 1
        return wrong

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let the server run inside; elsewhere it is stopped, so that servers do not disturb each other."""
        processes.send_signal(processes.tree(self.process.pid), signal.SIGCONT)
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop it until it is `awake` again, unless it runs alone anyway."""
        if not self.peer.alone:
            processes.send_signal(processes.tree(self.process.pid), signal.SIGSTOP)

    def log_end(self) -> str:
        """Give the last line of what it wrote."""
        return _end_of(self.site.folder / "log")

    def end(self) -> None:
        """Ask it to end, and end what is left of it."""
        started = processes.tree(self.process.pid)
        processes.send_signal(started, signal.SIGCONT)
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDS_WITHIN_S)
        # who outlived its parent is found by its session, who left the session was its descendant before
        processes.send_signal({*started, *processes.tree(self.process.pid)}, signal.SIGKILL)
        self.process.wait()


def start(peer: Peer, setting: Setting, site: Site, *, expected: Array, client: Client) -> Instance:
    """Start a server and wait for its first answer of 200.

    Raises:
        BenchmarkError: it ended, or did not answer in time; what it said is in the text.

    """
    command = peer.command(site)
    rows = site.model.rows()
    requests = {}
    for kind, route in peer.routes.items():
        path = route.path.format(model=site.model.name)
        requests[kind] = site.folder / f"{kind}.requests"
        requests[kind].write_bytes(framed([route.wire.request(site.model, row, path=path) for row in rows]))
    log = site.folder / "log"
    began_s = time.monotonic()
    # who runs alone is Ray, which gives up when its parts are not up in 30 s: one busy core is too little for that
    core = nullcontext() if peer.alone else processes.pinned(processes.SERVER_CORE)
    with log.open("wb") as file, core:
        process = _spawn(command.arguments, {**os.environ, **_SAME_FOR_ALL, **command.environment}, site.folder, file)
    instance = Instance(
        peer=peer,
        setting=setting,
        site=site,
        expected=expected,
        client=client,
        process=process,
        requests=requests,
        start_s=0.0,
        idle_mib=0.0,
    )
    try:
        _wait_for_an_answer(instance, rows[0])
    except BaseException:  # Ctrl-C included: nothing stays behind
        instance.end()
        raise
    instance.start_s = time.monotonic() - began_s
    instance.idle_mib = processes.pss_bytes(process.pid) / 2**20
    processes.pin(processes.tree(process.pid), processes.SERVER_CORE)
    instance.stop()
    return instance


def _spawn(
    arguments: list[str], environment: Mapping[str, str], folder: Path, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the table of peers
        arguments, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


def _wait_for_an_answer(instance: Instance, row: Array) -> None:
    peer, site = instance.peer, instance.site
    route = peer.routes["json"]
    url = f"http://127.0.0.1:{site.port}{route.path.format(model=site.model.name)}"
    body = route.wire.body(site.model, row)
    until_s = time.monotonic() + READY_WITHIN_S
    with urllib3.PoolManager(retries=False) as pool:
        while instance.process.poll() is None and time.monotonic() < until_s:
            with suppress(urllib3.exceptions.HTTPError):
                headers = {"Content-Type": route.wire.content_type}
                answer = pool.request("POST", url, body=body, headers=headers, timeout=READY_WITHIN_S)
                if answer.status == OK:
                    return
            time.sleep(_POLL_S)
    ended = instance.process.poll()
    what = f"did not answer within {READY_WITHIN_S:g} s" if ended is None else f"ended with {ended}"
    raise BenchmarkError(f"{peer.name}: {what}; {instance.log_end()}")


def _end_of(log: Path) -> str:
    lines = log.read_bytes().decode(errors="replace").split("\n")
    return next((line.strip()[:_LOG_CHARACTERS] for line in reversed(lines) if line.strip()), "it wrote nothing")
