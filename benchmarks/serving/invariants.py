"""The five promises of the model server on the real one: two are tried here, three read from the measurements."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from http.client import HTTPException, HTTPResponse
from typing import Literal

import numpy as np

from benchmarks.serving.instance import TOLERANCE, Instance
from benchmarks.serving.load import OK
from benchmarks.serving.models import MODERATOR, WINDOW_MS
from benchmarks.serving.peers import OURS
from benchmarks.serving.results import Invariant, Results
from benchmarks.serving.wires import OIP_BINARY
from serving.protocol.tensors import Array

GOODPUT_SHARE = 0.95

_ASKERS = 24
_ANSWER_WITHIN_S = 10.0
_DRAIN_WITHIN_S = 28.0
_SHED = (503, 504)
"""An answer, though not of the model: on a busy machine some are too late."""

Fate = Literal["right", "wrong", "shed", "lost"]
_RESET = struct.pack("ii", 1, 0)
"""struct linger: closing sends a reset, as a client that was killed does."""


def seen(results: Results) -> list[Invariant]:
    """Read three of the promises from what was measured."""
    ours = [each for each in results.closed if each.cell.peer == OURS]
    lone = [each for each in ours if each.cell.clients == 1]
    found = []
    if lone:
        slowest = max(lone, key=lambda each: each.p50_ms)
        p50 = f"p50 {slowest.p50_ms:.2f} ms, {slowest.cell.model} {slowest.cell.kind}; window {WINDOW_MS} ms"
        found.append(Invariant(name="a lone request does not wait", held=slowest.p50_ms < WINDOW_MS, measured=p50))
    if ours:
        wrong, failed = sum(each.wrong for each in ours), sum(each.failed for each in ours)
        measured = f"{wrong} wrong and {failed} refused in {sum(each.runs for each in ours)} closed loops"
        found.append(Invariant(name="batched answers equal single ones", held=not wrong, measured=measured))
    for each in results.overload:
        if each.load == 1.5:  # noqa: PLR2004 - the load of the promise
            held = each.share >= GOODPUT_SHARE
            measured = f"{each.share:.2f} of {each.capacity:.0f}/s"
            found.append(Invariant(name=f"goodput at 1.5 x capacity, {each.model}", held=held, measured=measured))
    return found


def tried(ours: Sequence[Instance]) -> list[Invariant]:
    """Try the other two on our server, where a batch takes long enough to be interrupted; it has ended afterwards."""
    found = []
    for instance in ours:
        if instance.site.model is MODERATOR:
            with instance.awake():
                found += [_cancelled_mates(instance), _drain(instance)]
    return found


def _cancelled_mates(instance: Instance) -> Invariant:
    with ExitStack() as stack:
        asked = _all_asked(instance, stack)
        for connection in asked[::2]:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.close()
        fates = Counter(_fate(connection, instance, 2 * index + 1) for index, connection in enumerate(asked[1::2]))
    name = "who stays is answered when batch-mates leave"
    return Invariant(name=name, held=not fates["lost"] + fates["wrong"], measured=_told(fates))


def _drain(instance: Instance) -> Invariant:
    with ExitStack() as stack:
        asked = _all_asked(instance, stack)
        fates = Counter([_fate(asked[0], instance, 0)])  # the others were read while it was computed
        instance.process.send_signal(signal.SIGTERM)
        fates.update(_fate(connection, instance, index) for index, connection in enumerate(asked[1:], 1))
    try:
        status = instance.process.wait(_DRAIN_WITHIN_S)
    except subprocess.TimeoutExpired:
        status = -1
    held = not fates["lost"] + fates["wrong"] and status == 0
    measured = f"{_told(fates)}, exit status {status}"
    return Invariant(name="SIGTERM loses no accepted request", held=held, measured=measured)


def _told(fates: Counter[Fate]) -> str:
    return ", ".join(f"{count} {fate}" for fate, count in sorted(fates.items()))


def _all_asked(instance: Instance, stack: ExitStack) -> list[socket.socket]:
    """Connect, ask each connection once, so that it is surely accepted, and leave the second question unanswered."""
    model, address = instance.site.model, ("127.0.0.1", instance.site.port)
    path = instance.peer.routes["binary"].path.format(model=model.name)
    requests = [OIP_BINARY.request(model, row, path=path) for row in model.rows()[:_ASKERS]]
    asked = [stack.enter_context(socket.create_connection(address, timeout=_ANSWER_WITHIN_S)) for _ in requests]
    for index, (connection, request) in enumerate(zip(asked, requests, strict=True)):
        connection.sendall(request)
        _fate(connection, instance, index)
    for connection, request in zip(asked, requests, strict=True):
        connection.sendall(request)
    return asked


def _fate(connection: socket.socket, instance: Instance, index: int) -> Fate:
    response = HTTPResponse(connection)
    try:
        response.begin()
        body = response.read()
    except (OSError, HTTPException):
        return "lost"
    if response.status in _SHED:
        return "shed"
    scores: Array = OIP_BINARY.decode(body) if response.status == OK else np.array([])
    expected = instance.expected[index]
    right = scores.shape == expected.shape and np.allclose(scores, expected, rtol=TOLERANCE, atol=TOLERANCE)
    return "right" if right else "wrong"
