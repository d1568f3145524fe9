"""`python -m local.supervisor`: the parent of the local stack's services, and the one who writes its state.

SIGTERM ends all services, the last started first. SIGUSR1 starts the prediction API, which needs what is deployed
through the others. A service that ends is written down and logged, and the rest goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from local import state as states
from local import valkey
from local.bounds import LOOK_S, bound_logs
from local.children import Child, NotWantedError
from local.environment import clean_environment, stack_environment
from local.listener import free_port
from serving.errors import LocalStackError
from serving.spec.load import load_stage

START_API = signal.SIGUSR1
_PORTS = ("gateway", "api", "valkey", "support")
_END = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_START_S = 60.0
# the gateway ends model servers, which drain, and Lambda workers
_END_S = {"gateway": 15.0}
_log = logging.getLogger("supervisor")


@dataclass(kw_only=True)
class Supervisor:
    """Starts services in order; `children` keeps that order."""

    state_dir: Path
    root: Path
    stage_name: str
    ports: dict[str, int]
    scales: bool = False
    keeps: bool = False
    processes: int = 1
    children: dict[str, Child] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    lock: int | None = None
    ending: bool = False
    received: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the prediction API, which comes last, ever answered."""
        return "api" in self.children and self.children["api"].port > 0

    def run(self) -> int:
        """Start the services and look after them until a signal says to end; 1 if they cannot start."""
        for number in (*_END, signal.SIGCHLD, START_API):
            signal.signal(number, self._hear)
        try:
            self._write()
            self._start_services()
            self._write()
            self._watch()
        except NotWantedError:
            _log.info("asked to end before it had started")
        except LocalStackError as error:
            _log.exception("the stack cannot start")
            self._end_all()
            self._write(failed=str(error))
            return 1
        self._end_all()
        states.forget(self.state_dir)
        return 0

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.ending = self.ending or number in _END
        self.received.put(number)

    def _watch(self) -> None:
        reported: set[str] = set()
        while (received := self._next_signal()) not in _END:
            if received == START_API and "api" not in self.children:
                self._start_api()
            for name, child in self.children.items():
                if child.exit_code is not None and name not in reported:
                    reported.add(name)
                    _log.error("%s ended with code %d: %s", name, child.exit_code, child.last_line())
            self._write()

    def _next_signal(self) -> int:
        while True:
            with contextlib.suppress(queue.Empty):
                return self.received.get(timeout=LOOK_S)
            bound_logs(self.state_dir)

    def _start_services(self) -> None:
        stage = load_stage(self.root, self.stage_name)
        folder = self.state_dir / "services"
        folder.mkdir(parents=True, exist_ok=True)
        cache = self._start_valkey(folder)
        support_port = ("--port", str(self.ports["support"]))
        support = self._python("support", "local.support_server", *support_port, environment=clean_environment({}))
        support.wait_announced(timeout_s=_START_S, unless=lambda: self.ending)
        ports = {"valkey_port": cache.port, "support_port": support.port}
        clock = states.clock_file(self.state_dir)
        environment = stack_environment(stage, gateway_port=self.ports["gateway"], clock=clock, **ports)
        if self.ports["gateway"] == 0:
            # not known before it has started; it tells its own children
            del environment["AWS_ENDPOINT_URL"], environment["AWS_ENDPOINT_URL_S3"]
        arguments = (
            *("--state", str(folder), "--port", str(self.ports["gateway"])),
            *("--valkey-port", str(cache.port), "--valkey-pid", str(cache.pid)),
            *("--stage", stage.name, "--region", stage.region, "--account", stage.account),
            *(("--scale",) if self.scales else ()),
            *(("--keep",) if self.keeps else ()),
            *("--processes", str(self.processes)),
        )
        gateway = self._python("gateway", "local.gateway", *arguments, environment=clean_environment(environment))
        gateway.wait_announced(timeout_s=_START_S, unless=lambda: self.ending)
        self.environment = clean_environment(stack_environment(stage, gateway_port=gateway.port, clock=clock, **ports))

    def _start_valkey(self, folder: Path) -> Child:
        """Give the cache, answering; a free port can be somebody else's a moment later, so others are tried."""
        for last in (False, False, True):
            port = self.ports["valkey"] or free_port()
            command = valkey.command(port, folder, keeps=self.keeps)
            cache = self._child("valkey", command, environment=clean_environment({}))
            try:
                cache.wait_answering(port, process=valkey.process_of, timeout_s=_START_S)
            except LocalStackError:
                if last or self.ports["valkey"]:
                    raise
                cache.end(timeout_s=1)
            else:
                break
        return cache

    def _start_api(self) -> None:
        arguments = ("--port", str(self.ports["api"]))
        child = self._python("api", "lambdas.predict.asgi", *arguments, environment=self.environment)
        try:
            child.wait_announced(timeout_s=_START_S, unless=lambda: self.ending)
        except LocalStackError as error:
            child.end(timeout_s=1)
            _log.error("%s", error)

    def _python(self, name: str, module: str, *arguments: str, environment: dict[str, str]) -> Child:
        return self._child(name, [sys.executable, "-m", module, *arguments], environment=environment)

    def _child(self, name: str, command: list[str], *, environment: dict[str, str]) -> Child:
        log = self.state_dir / "logs" / f"{name}.log"
        # with the lock, the folder is free for the next stack when the last service is gone, not the supervisor alone
        inherited = () if self.lock is None else (self.lock,)
        child = Child(name, command, environment=environment, log=log, inherited=inherited)
        self.children[name] = child
        _log.info("%s runs as process %d", name, child.pid)
        self._write()
        return child

    def _end_all(self) -> None:
        for name, child in reversed(self.children.items()):
            child.end(timeout_s=_END_S.get(name, 5.0))
            _log.info("%s is ended", name)

    def _write(self, *, failed: str = "") -> None:
        services = {name: child.state() for name, child in self.children.items()}
        state = states.StackState(pid=os.getpid(), started=self.started, services=services, failed=failed)
        states.write(self.state_dir, state)


def _end_with_owner(wanted: Callable[[], bool]) -> None:
    """End this supervisor, if `wanted` then, when who started it is gone: its end of our standard input closes."""

    def wait() -> None:
        # not sys.stdin: a reader that still waits in it aborts the interpreter when it ends
        os.read(0, 1)
        if wanted():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="owner", daemon=True).start()


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor; it works in the project's root."""
    parser = argparse.ArgumentParser(prog="python -m local.supervisor", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder of state and logs")
    parser.add_argument("--root", type=Path, required=True, help="the project folder")
    parser.add_argument("--stage", default="dev", help="the stage that will be deployed")
    for name in _PORTS:
        parser.add_argument(f"--{name}-port", type=int, default=0, help=f"port of {name}, 0 for a free one")
    parser.add_argument("--processes", type=int, default=1, help="processes that each variant may have")
    parser.add_argument("--lock", type=int, help="descriptor that holds the folder")
    parser.add_argument("--keep", action="store_true", help="go on from what is kept in the folder, and keep it")
    parser.add_argument("--scale", action="store_true", help="let Application Auto Scaling change counts")
    parser.add_argument(
        "--owned", action="store_true", help="end when standard input closes; without it only until the API runs"
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    supervisor = Supervisor(
        state_dir=arguments.state.resolve(),
        root=arguments.root.resolve(),
        stage_name=arguments.stage,
        ports={name: getattr(arguments, f"{name}_port") for name in _PORTS},
        scales=arguments.scale,
        keeps=arguments.keep,
        processes=arguments.processes,
        lock=arguments.lock,
    )
    _end_with_owner(lambda: arguments.owned or not supervisor.complete)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
