"""The local stack as one object: services, the deployed stage, features and prediction API, in that order."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3

from local import images, valkey
from local import kept as keeping
from local import state as states
from local.bounds import drop_unserved
from local.cdk import command_of
from local.checkpoints import TAKE_MOMENT
from local.children import last_line
from local.clock import begin, checked_pace
from local.deploy import Deployment, Progress
from local.documents import STAGE, document_of, environment_of, samples_of
from local.inputs import digest_of_inputs
from local.kept import Kept
from local.launch import launch
from local.lifecycle import end, refuse_running, take_lock
from local.listener import HOST, refuse_taken, settled_port
from local.routing import PAGE_PREFIX
from local.snapshot import WAY_OUT
from local.state import StackState
from local.supervisor import START_API
from local.world_features import fill
from serving.errors import LocalStackError
from serving.spec.load import load_project

_START_S = 90.0
_POLL_S = 0.05
# what a stack leaves in its folder: a kept one goes on without the first, a new one without either
_RUN = ("logs", "tmp")
_STATE = ("services", "cdk.out", "lambdas", "dist", keeping.FOLDER)
_PORTS = ("gateway", "api", "valkey", "support")


class LocalStack:
    """One stack in one state folder; as a context manager it is stopped at the end, whatever happens.

    `detached` stacks outlive this process once the API runs; until then, and without it, they end with this process,
    even if it is killed. `pace`, 1 to 240, is how much faster than the machine's its time goes. With `keep` what the
    stack holds outlives it, and the next one in this folder goes on from there unless it shall be `fresh`.
    """

    def __init__(
        self,
        state_dir: Path,
        root: Path,
        *,
        on_progress: Progress,
        detached: bool = False,
        port: int = 0,
        api_port: int = 0,
        scales: bool = False,
        pace: float = 1.0,
        processes: int = 1,
        keep: bool = False,
        fresh: bool = False,
    ) -> None:
        self._state_dir = state_dir.resolve()
        self._root = root.resolve()
        self._on_progress = on_progress
        self._detached = detached
        self._ports = {**dict.fromkeys(_PORTS, 0), "gateway": port, "api": api_port}
        self._scales = scales
        self._pace = checked_pace(pace)
        self._processes = processes
        self._keep = keep
        self._fresh = fresh
        self._kept: Kept | None = None
        self._deployed = ""
        self._project = load_project(self._root)
        self._stage = self._project.stage(STAGE)
        self._process: subprocess.Popen[bytes] | None = None
        self._deployment: Deployment | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Give the stack, not started yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    @property
    def env(self) -> dict[str, str]:
        """The environment in which an AWS client speaks to this stack."""
        return environment_of(self._state(), state_dir=self._state_dir, root=self._root)

    @property
    def endpoint_url(self) -> str:
        """Where AWS answers."""
        return self.env["AWS_ENDPOINT_URL"]

    @property
    def api_url(self) -> str:
        """Where the prediction API answers."""
        return f"http://{HOST}:{self._state().services['api'].port}"

    @property
    def http_api_url(self) -> str:
        """The deployed HTTP API: each request runs the predict function."""
        apis = boto3.client(
            "apigatewayv2",
            endpoint_url=self.endpoint_url,
            region_name=self._stage.region,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
        ).get_apis()["Items"]
        wanted = f"streamhub-{STAGE}"
        found = next((api["ApiId"] for api in apis if api["Name"] == wanted), None)
        if found is None:
            raise LocalStackError(f"HTTP API {wanted}: not deployed; deploy the stage first")
        # the name that AWS gives it resolves nowhere here
        return f"{self.endpoint_url}/_aws/execute-api/{found}/$default"

    @property
    def page_url(self) -> str:
        """The page about this stack."""
        return f"{self.endpoint_url}{PAGE_PREFIX}"

    @property
    def pid(self) -> int:
        """The supervisor's process."""
        return self._state().pid

    @property
    def samples(self) -> dict[str, dict[str, Any]]:
        """One request a model: its route and a body."""
        return samples_of(self._root)

    def bring_up(self) -> dict[str, object]:
        """Do all steps and give what a client needs to know; on any failure nothing is left running.

        Raises:
            StreamHubError: a step failed.

        """
        inputs = digest_of_inputs(self._root)
        try:
            self.start_services(image=None if self._fresh else images.find(self._root, inputs))
            if self._deployed != inputs:
                self.deploy()
                if not self._deployed:
                    self._take_moment()
                    images.make(self._root, inputs, self._state_dir, ports=self._answering_ports())
            if not valkey.holds_keys(self._state().services["valkey"].port):
                self.load_features()
            self.start_api()
            if self._keep:
                self.keep(inputs)
        except BaseException:
            self.stop()
            raise
        return document_of(self._state(), state_dir=self._state_dir, root=self._root)

    def start_services(self, *, image: Path | None = None) -> None:
        """Start gateway, Valkey and the support stand-in: from what is kept in this folder, else from the image.

        Raises:
            LocalStackError: something is missing, a stack runs in this folder already, what is kept is not whole, or
                a service cannot start.

        """
        command_of(self._root)
        valkey.binary()
        refuse_running(self._state_dir)
        self._state_dir.mkdir(parents=True, exist_ok=True)
        lock = take_lock(self._state_dir)
        try:
            self._kept = None if self._fresh else keeping.read(self._state_dir)
            self._keep = self._keep or self._kept is not None
            self._choose_ports(settled=self._keep or image is not None)
            self._clear()
            self._deployed = self._begin_from(image)
            begin(states.clock_file(self._state_dir), pace=self._pace)
            self._on_progress("bringing back what was deployed" if self._deployed else "starting services")
            self._spawn(lock)
        finally:
            os.close(lock)  # the supervisor's copy holds it while it lives
        self._wait_for(lambda state: state.answers("gateway"), what="services")

    def deploy(self) -> None:
        """Build, bootstrap, package, push and deploy the stage: the templates that go to AWS.

        Raises:
            StreamHubError: a step failed; the text says which, and where its log is.

        """
        self._deployment = Deployment(
            self._project,
            self._stage,
            environment=self.env,
            work=self._state_dir,
            on_progress=self._on_progress,
        )
        if self._ended.is_set():
            self._deployment.stop()
        try:
            self._deployment.run()
        except LocalStackError as error:
            if not self._ended.is_set():
                raise
            log = self._state_dir / "logs" / "supervisor.log"
            raise LocalStackError(f"the stack was ended while it was deployed (log: {log})") from error

    def load_features(self) -> None:
        """Fill the feature cache from the ranker's world.

        Raises:
            FeatureStoreError: the cache does not take them.

        """
        self._on_progress("loading features")
        fill(
            self.env["STREAMHUB_LOCAL_FEATURES_URL"],
            models=self._project.models,
            root=self._root,
            now=datetime.now(UTC),
        )

    def start_api(self) -> None:
        """Start the prediction API.

        Raises:
            LocalStackError: it cannot start.

        """
        self._on_progress("starting the prediction API")
        os.kill(self.pid, START_API)
        state = self._wait_for(_api_answers_or_ended, what="prediction API")
        api = state.services["api"]
        if api.exit_code is not None:
            said = last_line(Path(api.log))
            raise LocalStackError(f"api ended with code {api.exit_code} as it started: {said} (log: {api.log})")

    def keep(self, inputs: str) -> None:
        """Have a moment written and noted that the next stack in this folder goes on from; it has that deployed.

        Raises:
            LocalStackError: the services do not write it.

        """
        self._take_moment()
        record = Kept(made_by=keeping.made_by(), ports=self._answering_ports(), inputs=inputs)
        keeping.write(self._state_dir, record)

    def stop(self) -> None:
        """End everything; a stack that was never started, or is stopped already, is left alone."""
        if self._deployment is not None:
            self._deployment.stop()
        if self._process is None:
            return
        end(self._process.pid, gone=lambda: self._process is None or self._process.poll() is not None)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._process = None

    def _clear(self) -> None:
        states.forget(self._state_dir)
        for name in (*_RUN, *(() if self._kept is not None else _STATE)):
            shutil.rmtree(self._state_dir / name, ignore_errors=True)
        for name in _RUN:
            (self._state_dir / name).mkdir()

    def _begin_from(self, image: Path | None) -> str:
        """Give the digest of what is deployed already, "" where nothing is."""
        if self._kept is not None:
            drop_unserved(self._state_dir / "services")
            return self._kept.inputs
        if image is not None and images.unpack(image, self._state_dir, ports=self._ports):
            return image.name
        return ""

    def _choose_ports(self, *, settled: bool) -> None:
        """A kept stack answers where it did: addresses of queues and functions are part of what it holds."""
        if self._kept is not None:
            known = {**dict.fromkeys(_PORTS, 0), **self._kept.ports}
            refuse_taken(known, asked=self._ports, state_dir=self._state_dir)
            self._ports = known
        elif settled:
            self._ports = {name: port or settled_port() for name, port in self._ports.items()}

    def _take_moment(self) -> None:
        """Have what the services hold written."""
        snapshot = keeping.snapshot_of(self._state_dir)
        asked_s = time.time()
        os.kill(self._state().services["gateway"].pid, TAKE_MOMENT)
        self._wait_for(lambda _: (snapshot.moment() or (0, 0.0))[1] >= asked_s, what="snapshot")

    def _answering_ports(self) -> dict[str, int]:
        return {name: service.port for name, service in self._state().services.items()}

    def _spawn(self, lock: int) -> None:
        arguments = [word for name in _PORTS for word in (f"--{name}-port", str(self._ports[name]))]
        flags = {"--owned": not self._detached, "--scale": self._scales, "--keep": self._keep}
        arguments += ["--processes", str(self._processes)]
        arguments += [*(flag for flag, given in flags.items() if given)]
        self._process = launch(arguments, state_dir=self._state_dir, root=self._root, lock=lock)
        threading.Thread(target=self._end_with, args=(self._process,), name="supervisor", daemon=True).start()

    def _end_with(self, supervisor: subprocess.Popen[bytes]) -> None:
        """End the deployment when the stack under it is ended: the CDK CLI would ask again for a minute."""
        supervisor.wait()
        self._ended.set()
        if self._deployment is not None:
            self._deployment.stop()

    def _wait_for(self, done: Callable[[StackState], bool], *, what: str) -> StackState:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            state = states.read(self._state_dir)
            if state is not None and state.failed:
                raise LocalStackError(self._with_way_out(state.failed))
            if state is not None and done(state):
                return state
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(_POLL_S)
        raise LocalStackError(f"{what}: not ready; see {self._state_dir / 'logs' / 'supervisor.log'}")

    def _with_way_out(self, text: str) -> str:
        return text if self._kept is None or WAY_OUT in text else f"{text}; {WAY_OUT}"

    def _state(self) -> StackState:
        state = states.read(self._state_dir)
        if state is None or not state.answers("gateway"):
            raise LocalStackError(f"no stack runs in {self._state_dir}; start it first: streamhub local up")
        return state


def _api_answers_or_ended(state: StackState) -> bool:
    api = state.services.get("api")
    return api is not None and (api.port > 0 or api.exit_code is not None)
