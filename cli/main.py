"""The entry point: finds the command group, maps errors to one line and an exit code (0 done, 1 refused, 2 usage)."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections.abc import Container
from types import FrameType
from typing import NoReturn

import typer

from serving.errors import StreamHubError

# command → (module, help); a module has `app` (a group) or `command` (one function).
# Imported only when asked for: `check` must not pay for ONNX Runtime.
COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("cli.check", "Validate specs and stages; print every problem at once."),
    "package": ("cli.package", "Build one version's archive and manifest."),
    "context": ("cli.context", "A TorchServe archive or a bento as an image's build context."),
    "verify": ("cli.verify", "Open an archive as its container would and run its sample."),
    "registry": ("cli.registry", "The S3 registry: push, pull, approve, alias, rollback, lineage, gc, …"),
    "bench": ("cli.bench", "Benchmarks beside peers, in one run: serving, packaging, push."),
    "serve": ("cli.serve", "Run the model server on one archive."),
    "local": ("cli.local", "SageMaker on this machine: up, status, down."),
    "features": ("cli.features", "The feature cache: load, get, check."),
    "release": (
        "cli.release",
        "Releases: start, status, tick, pause, promote, rollback, history, sample-size, …",
    ),
    "drift": ("cli.drift", "Drift: run against a version's baseline, and show it."),
    "preflight": ("cli.preflight", "What a deploy would do to what is live, before it does."),
    "demo": ("cli.demo.command", "The whole life of a model on this machine."),
}


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SIGNALLED = frozenset(128 + number for number in (signal.SIGINT, *_ENDING))
"""How a shell tells that a signal ended a process; typer makes the first of a KeyboardInterrupt."""


def build(imported: Container[str]) -> typer.Typer:
    """Give the application; commands that are not to be imported are only named, which is all that `--help` needs."""
    app = typer.Typer(
        add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="StreamHub Inference."
    )
    for name, (module, text) in COMMANDS.items():
        if name not in imported:
            app.command(name, help=text)(_only_named)
            continue
        loaded = importlib.import_module(module)
        if hasattr(loaded, "app"):
            app.add_typer(loaded.app, name=name, help=text)
        else:
            app.command(name, help=text)(loaded.command)
    return app


def _only_named() -> None:
    """Stand for a command that was not asked for."""


def main() -> None:
    """Run `streamhub`; any signal that ends a command does so as Ctrl-C does: nothing half written stays behind."""
    received = _heard_signals()
    try:
        asked = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
        build({asked})()
    except StreamHubError as error:
        sys.stderr.write(f"streamhub: {error}\n")
        sys.exit(1)
    except SystemExit as ended:
        if ended.code in _SIGNALLED:
            with contextlib.suppress(OSError):  # its terminal may be what went away
                sys.stderr.write("streamhub: interrupted; what it had started is ended\n")
                sys.stderr.flush()
        raise
    except OSError as error:
        if received:
            sys.exit(128 + received[0])
        # a full disk, a folder that may not be written: where it happens nothing better can be said of it
        sys.stderr.write(f"streamhub: {_told(error)}\n")
        sys.exit(1)


def _heard_signals() -> list[int]:
    """Leave with 128 + number at a signal; give the list of those that came."""
    received: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        received.append(number)
        sys.exit(128 + number)

    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asked for it
            signal.signal(number, leave)
    return received


def _told(error: OSError) -> str:
    where = error.filename2 or error.filename or "a file or a connection"
    got = error.strerror or str(error) or type(error).__name__
    return f"{where}: got {got}; allowed what this user may read and write; check path, space and permissions"
