"""The whole benchmark: environments, models, servers, rounds; one peer's failure is a row that says why."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from benchmarks.serving import environments, in_process, load
from benchmarks.serving.graphs import write_archive
from benchmarks.serving.instance import Instance, start
from benchmarks.serving.invariants import seen, tried
from benchmarks.serving.launch import Site
from benchmarks.serving.models import MODELS, OUTPUT, BenchModel
from benchmarks.serving.peers import OURS, Peer, Setting
from benchmarks.serving.plan import Plan
from benchmarks.serving.processes import hardware
from benchmarks.serving.results import Results, Started
from benchmarks.serving.rounds import Rounds, Told
from cli.demo.result import machine
from serving.errors import StreamHubError
from serving.protocol.tensors import Array

_SPARE_PORTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What every server of one model is set up with."""

    model: BenchModel
    graph: Path
    archive: Path
    answer: Path
    expected: Array
    client: load.Client
    folder: Path


class Wanted(NamedTuple):
    """One server to start: who, at which setting, by which Python."""

    peer: Peer
    setting: Setting
    python: Path


def run(chosen: Sequence[Peer], plan: Plan, *, cache: Path, told: Told) -> Results:
    """Measure the chosen peers on both models and give everything that was found.

    Raises:
        BenchmarkError: there is no C compiler for the load client.

    """
    installed, missing = _installed(chosen, cache, told)
    program = load.compiled(cache)
    results = Results(machine={**machine(), **hardware()}, repeats=plan.repeats)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="streamhub-bench-") as temporary:
        for model in MODELS:
            kit = _kit(model, Path(temporary) / model.name, program)
            results.started += [_not_run(kit, peer, "best", why) for peer, why in missing]
            _measure(kit, installed, plan, results, told)
    results.invariants += seen(results)
    results.seconds = time.monotonic() - began_s
    return results


def _installed(
    chosen: Sequence[Peer], cache: Path, told: Told
) -> tuple[list[tuple[Peer, Path]], list[tuple[Peer, str]]]:
    pythons, missing = [], []
    for peer in chosen:
        try:
            pythons.append((peer, environments.install(cache, peer, told=told)))
        except (StreamHubError, OSError) as error:
            told(str(error))
            missing.append((peer, str(error)))
    return pythons, missing


def _kit(model: BenchModel, folder: Path, program: Path) -> Kit:
    folder.mkdir()
    archive = write_archive(model, folder)
    graph = folder / f"{model.name}.onnx"
    expected = in_process.expected(model, graph)
    tensor = {"name": OUTPUT, "datatype": "FP32", "shape": [1, model.outputs], "data": expected[0].tolist()}
    answer = folder / "answer.json"
    answer.write_bytes(orjson.dumps({"model_name": model.name, "model_version": "1", "outputs": [tensor]}))
    client = load.Client(program=program, folder=folder)
    return Kit(
        model=model, graph=graph, archive=archive, answer=answer, expected=expected, client=client, folder=folder
    )


def _measure(kit: Kit, installed: Sequence[tuple[Peer, Path]], plan: Plan, results: Results, told: Told) -> None:
    wanted = [Wanted(peer, setting, python) for peer, python in installed for setting in plan.settings(peer, kit.model)]
    for one in wanted:
        if one.peer.alone:
            with _running(kit, [one], plan, results, told) as rounds:
                results.closed += rounds.closed_loops()
    with _running(kit, [each for each in wanted if not each.peer.alone], plan, results, told) as rounds:
        results.closed += rounds.closed_loops()
        results.in_process += rounds.floors()
        results.open += rounds.searches()
        results.overload += rounds.overloads()
        results.invariants += tried([each for each in rounds.instances if each.peer.name == OURS])


@contextmanager
def _running(kit: Kit, wanted: Sequence[Wanted], plan: Plan, results: Results, told: Told) -> Iterator[Rounds]:
    """Start servers, give the rounds over those that came up, end them and note how each fared."""
    with ExitStack() as stack:
        instances = []
        for each in wanted:
            told(f"{kit.model.name}: starting {each.peer.name} ({each.setting})")
            try:
                instance = _start(kit, each)
            except (StreamHubError, OSError) as error:
                told(str(error))
                results.started.append(_not_run(kit, each.peer, each.setting, str(error)))
            else:
                stack.callback(instance.end)
                instances.append(instance)
        rounds = Rounds(model=kit.model, graph=kit.graph, plan=plan, instances=list(instances), told=told)
        yield rounds
        results.started += [_ran(each, rounds.failed.get(each.name, "")) for each in instances]


def _start(kit: Kit, wanted: Wanted) -> Instance:
    peer, setting = wanted.peer, wanted.setting
    folder = kit.folder / f"{peer.name}-{setting}"
    folder.mkdir()
    port, *spare_ports = _free_ports()
    site = Site(
        python=wanted.python,
        model=kit.model,
        graph=kit.graph,
        archive=kit.archive,
        answer=kit.answer,
        window_ms=peer.windows_ms[setting],
        port=port,
        spare_ports=tuple(spare_ports),
        folder=folder,
    )
    return start(peer, setting, site, expected=kit.expected, client=kit.client)


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(1 + _SPARE_PORTS)]
        return [each.getsockname()[1] for each in sockets]


def _not_run(kit: Kit, peer: Peer, setting: Setting, why: str) -> Started:
    return Started(model=kit.model.name, peer=peer.name, setting=setting, version=peer.version, why=why)


def _ran(instance: Instance, why: str) -> Started:
    return Started(
        model=instance.site.model.name,
        peer=instance.peer.name,
        setting=instance.setting,
        version=instance.peer.version,
        start_s=instance.start_s,
        idle_mib=instance.idle_mib,
        why=why,
    )
