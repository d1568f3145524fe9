"""The local stack as one object: services, the deployed stage, features and prediction API, in that order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
import orjson

from local import state as states
from local import valkey
from local.cdk import command_of
from local.children import last_line
from local.clock import begin, checked_pace
from local.deploy import BYTECODE, Deployment, Progress
from local.environment import bytecode_environment, clean_environment, stack_environment
from local.lifecycle import end, refuse_running, take_lock
from local.listener import HOST
from local.routing import PAGE_PREFIX
from local.state import StackState
from local.supervisor import START_API
from local.world_features import fill
from serving.errors import LocalStackError
from serving.spec.load import load_project

STAGE = "dev"
_START_S = 90.0
_POLL_S = 0.05
# what a stack leaves in its folder; a new one starts without it
_LEFTOVERS = ("services", "logs", "cdk.out", "lambdas", "dist", "tmp")


class LocalStack:
    """One stack in one state folder; as a context manager it is stopped at the end, whatever happens.

    `detached` stacks outlive this process once the API runs; until then, and without it, they end with this process,
    even if it is killed. `pace`, 1 to 240, is how much faster than the machine's its time goes.
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
    ) -> None:
        self._state_dir = state_dir.resolve()
        self._root = root.resolve()
        self._on_progress = on_progress
        self._detached = detached
        self._ports = (port, api_port)
        self._scales = scales
        self._pace = checked_pace(pace)
        self._project = load_project(self._root)
        self._stage = self._project.stage(STAGE)
        self._process: subprocess.Popen[bytes] | None = None
        self._deployment: Deployment | None = None

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
        try:
            self.start_services()
            self.deploy()
            self.load_features()
            self.start_api()
        except BaseException:
            self.stop()
            raise
        return document_of(self._state(), state_dir=self._state_dir, root=self._root)

    def start_services(self) -> None:
        """Start gateway, Valkey and the support stand-in.

        Raises:
            LocalStackError: something is missing, a stack runs in this folder already, or a service cannot start.

        """
        command_of(self._root)
        valkey.binary()
        refuse_running(self._state_dir)
        self._state_dir.mkdir(parents=True, exist_ok=True)
        lock = take_lock(self._state_dir)
        try:
            self._clear()
            begin(states.clock_file(self._state_dir), pace=self._pace)
            self._on_progress("starting services")
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
        self._deployment.run()

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
        for name in _LEFTOVERS:
            shutil.rmtree(self._state_dir / name, ignore_errors=True)
        for name in ("logs", "tmp"):
            (self._state_dir / name).mkdir()

    def _spawn(self, lock: int) -> None:
        port, api_port = self._ports
        arguments = ["--state", str(self._state_dir), "--root", str(self._root), "--stage", STAGE]
        arguments += ["--port", str(port), "--api-port", str(api_port), *([] if self._detached else ["--owned"])]
        arguments += ["--scale"] if self._scales else []
        with (self._state_dir / "logs" / "supervisor.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a module of this package
                [sys.executable, "-m", "local.supervisor", *arguments],
                cwd=self._root,
                env=clean_environment(
                    # a killed process cannot tidy up: what it unpacked goes with the next start
                    {**bytecode_environment(self._root / BYTECODE), "TMPDIR": str(self._state_dir / "tmp")}
                ),
                stdin=subprocess.PIPE,  # closes when this process is gone
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
            )

    def _wait_for(self, done: Callable[[StackState], bool], *, what: str) -> StackState:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            state = states.read(self._state_dir)
            if state is not None and state.failed:
                raise LocalStackError(state.failed)
            if state is not None and done(state):
                return state
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(_POLL_S)
        raise LocalStackError(f"{what}: not ready; see {self._state_dir / 'logs' / 'supervisor.log'}")

    def _state(self) -> StackState:
        state = states.read(self._state_dir)
        if state is None or not state.answers("gateway"):
            raise LocalStackError(f"no stack runs in {self._state_dir}; start it first: streamhub local up")
        return state


def _api_answers_or_ended(state: StackState) -> bool:
    api = state.services.get("api")
    return api is not None and (api.port > 0 or api.exit_code is not None)


def environment_of(state: StackState, *, state_dir: Path, root: Path) -> dict[str, str]:
    """Give the environment of a running stack."""
    stage = load_project(root).stage(STAGE)
    ports = {name: state.services[name].port for name in ("gateway", "valkey", "support")}
    return stack_environment(
        stage,
        gateway_port=ports["gateway"],
        valkey_port=ports["valkey"],
        support_port=ports["support"],
        clock=states.clock_file(state_dir),
    )


def samples_of(root: Path) -> dict[str, dict[str, Any]]:
    """Give one request of the prediction API a model that has a sample: its route and a body."""
    samples = {}
    for name, model in sorted(load_project(root).models.items()):
        path = root / "models" / name / "samples" / "api.json"
        if path.is_file():
            samples[name] = {"route": model.api.route, "body": orjson.loads(path.read_bytes())}
    return samples


def running_document(state_dir: Path, *, root: Path) -> dict[str, object] | None:
    """Give the document of the stack that is ready in that folder, or None."""
    state = states.read(state_dir)
    if state is None or not states.is_alive(state) or not state.ready:
        return None
    return document_of(state, state_dir=state_dir, root=root)


def document_of(state: StackState, *, state_dir: Path, root: Path) -> dict[str, object]:
    """Give what `streamhub local up` prints: what a client needs to know of a ready stack."""
    environment = environment_of(state, state_dir=state_dir, root=root)
    return {
        "endpoint_url": environment["AWS_ENDPOINT_URL"],
        "api_url": f"http://{HOST}:{state.services['api'].port}",
        "page_url": environment["AWS_ENDPOINT_URL"] + PAGE_PREFIX,
        "env": environment,
        "pid": state.pid,
        "samples": samples_of(root),
    }
