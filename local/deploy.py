"""From a project folder to a deployed stage on the running services: what can run side by side does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from local.cdk import CdkCli
from local.commands import Commands
from local.environment import bytecode_environment, clean_environment
from local.publish import package_all, push_all
from serving.spec import StageSpec
from serving.spec.load import Project

BYTECODE = Path(".streamhub/bytecode")
"""Compiled modules of all stacks of a project."""

Progress = Callable[[str], None]


class Deployment:
    """One deployment of one stage; `work` is the folder for functions, archives, templates and logs."""

    def __init__(
        self,
        project: Project,
        stage: StageSpec,
        *,
        environment: Mapping[str, str],
        work: Path,
        on_progress: Progress,
    ) -> None:
        self._project = project
        self._stage = stage
        self._environment = environment
        self._work = work
        self._on_progress = on_progress
        self._commands = Commands(work / "logs")
        self._python = bytecode_environment(project.root / BYTECODE)
        self._cdk = CdkCli(project.root, environment={**environment, **self._python}, commands=self._commands)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Build, bootstrap, package, push, deploy.

        Raises:
            StreamHubError: a step failed; the text says which, and where its log is.

        """
        self._on_progress("building functions, templates and archives")
        with ThreadPoolExecutor(max_workers=3, thread_name_prefix="deploy") as pool:
            templates = pool.submit(self._synth)
            bootstrap = pool.submit(self._cdk.bootstrap, account=self._stage.account, region=self._stage.region)
            archives = pool.submit(self._package)
            try:
                self._first(templates, bootstrap)
                self._deploy_registry()
                self._first(archives)
            except BaseException:
                self.stop()
                raise
        self._push(archives.result())
        self._on_progress("deploying every stack")
        self._cdk.deploy("stage", "--all", "--concurrency", "4", out=self._work / "cdk.out")

    def stop(self) -> None:
        """End what runs; `run` raises then."""
        self._stopped.set()
        self._commands.stop()

    @staticmethod
    def _first(*steps: Future[Any]) -> None:
        """Wait for all steps, or raise what the first failing one raised."""
        done, _ = wait(steps, return_when=FIRST_EXCEPTION)
        for step in done:
            step.result()

    def _synth(self) -> None:
        root, lambdas = self._project.root, self._work / "lambdas"
        build = [sys.executable, "-m", "lambdas.build", "--target", "local", "--out", str(lambdas)]
        self._commands.run("lambdas", build, folder=root, environment=clean_environment(self._python))
        self._cdk.synth(stage=self._stage.name, lambdas=lambdas, out=self._work / "cdk.out")

    def _package(self) -> list[Path]:
        return package_all(self._project, self._stage, out=self._work / "dist", stopped=self._stopped)

    def _deploy_registry(self) -> None:
        self._on_progress("deploying the registry")
        stack = f"streamhub-{self._stage.name}-registry"
        self._cdk.deploy("registry", stack, "--exclusively", out=self._work / "cdk.out")

    def _push(self, archives: list[Path]) -> None:
        self._on_progress(f"pushing {len(archives)} versions")
        push_all(
            archives,
            bucket=self._environment["STREAMHUB_REGISTRY_BUCKET"],
            endpoint_url=self._environment["AWS_ENDPOINT_URL"],
            region=self._stage.region,
        )
