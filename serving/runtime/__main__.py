"""`python -m serving.runtime --archive FILE`: one JSON line on stdout when ready, then serve until SIGTERM.

`serve`, as SageMaker starts a container, is the same for the model in /opt/ml/model, on all addresses.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import orjson

from serving.errors import ServerError, StreamHubError
from serving.runtime.container import Container, container
from serving.runtime.processes import Group, supervise
from serving.runtime.settings import SLOW_MS, Limits, Membership, ServerSettings

DEADLINE_NAME = "STREAMHUB_DEADLINE_MS"
MAX_BODY_NAME = "STREAMHUB_MAX_BODY_BYTES"
SLOW_NAME = "STREAMHUB_SLOW_MS"
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - SageMaker reaches a container from outside
_MIB = 1 << 20


def main(arguments: list[str] | None = None) -> int:
    """Serve; 1 when the archive or the address cannot be used."""
    try:
        told = container(os.environ)
        asked = _parser(told).parse_args(arguments)
        settings = _settings(asked, told)
        if asked.processes > 1:
            return supervise(_group(settings, asked.processes, arguments), on_ready=_say)
        from serving.runtime.server import run  # noqa: PLC0415 - who only watches others needs no numpy

        run(settings, on_ready=_say)
    except StreamHubError as error:
        sys.stderr.write(f"serving.runtime: {error}\n")
        return 1
    return 0


def serve() -> int:
    """Serve as a container does; the console entry `serve`."""
    return main(["serve", *sys.argv[1:]])


def _parser(told: Container) -> argparse.ArgumentParser:
    defaults = Limits()
    parser = argparse.ArgumentParser(prog="serving.runtime", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("serve",), help="as a container: the model of /opt/ml/model")
    parser.add_argument("--archive", type=Path, help="a model.tar.gz of `streamhub package`, or its unpacked folder")
    parser.add_argument("--model-repository", type=Path, help="a folder of archives that clients may load by name")
    parser.add_argument("--load-model", action="append", default=[], help="one of these to start with; '*': all")
    parser.add_argument("--models-root", type=Path, help="SageMaker's multi-model API, for models below this folder")
    parser.add_argument("--model-memory-mib", type=int, help="for all models that come and go together")
    parser.add_argument("--host", help="the address to listen on: 127.0.0.1, or with serve all")
    parser.add_argument("--port", type=int, default=told.port, help="0 chooses a free one")
    parser.add_argument("--workdir", type=Path, help="unpack here (missing or empty) and leave it")
    parser.add_argument("--threads", **_counted("threads"), help="ONNX Runtime's threads a run; measured if left out")
    parser.add_argument("--workers", **_counted("workers"), help="batches computed at once; measured if left out")
    parser.add_argument("--cores", type=int, help="to choose threads for; the control group's if left out")
    parser.add_argument("--processes", **_counted("processes", "1"), help="servers of one model on one port")
    parser.add_argument("--refuse-large", action="store_true", help="more rows than a batch are a 400, as by Triton")
    parser.add_argument("--member", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--late", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--deadline-ms",
        type=_milliseconds,
        default=os.environ.get(DEADLINE_NAME),
        help=f"instead of the archive's; {DEADLINE_NAME} says the same where a container has no command line",
    )
    parser.add_argument(
        "--max-body-bytes",
        type=_bytes,
        default=os.environ.get(MAX_BODY_NAME, defaults.max_body_bytes),
        help=f"of a request, decompressed; {MAX_BODY_NAME} says the same",
    )
    parser.add_argument(
        "--slow-ms",
        type=_slow,
        default=os.environ.get(SLOW_NAME, SLOW_MS),
        help=f"log answers that took as long; 0 logs all; {SLOW_NAME} says the same",
    )
    parser.add_argument("--request-timeout-s", type=float, default=defaults.request_timeout_s)
    parser.add_argument("--idle-timeout-s", type=float, default=defaults.idle_timeout_s)
    return parser


def _settings(asked: argparse.Namespace, told: Container) -> ServerSettings:
    contained = asked.command == "serve"
    archive, models_root = asked.archive, asked.models_root
    if contained and archive is None and asked.model_repository is None:
        if told.multi_model:
            models_root = models_root or told.models
        else:
            archive = told.model
    return ServerSettings(
        archive=archive,
        model_name=told.model_name,
        model_repository=asked.model_repository,
        load_models=tuple(asked.load_model),
        models_root=models_root,
        model_memory_bytes=asked.model_memory_mib * _MIB if asked.model_memory_mib is not None else None,
        host=asked.host or (_ALL_ADDRESSES if contained else "127.0.0.1"),
        port=asked.port,
        safe_ports=told.safe_ports,
        workdir=asked.workdir,
        threads=asked.threads,
        workers=asked.workers,
        cores=asked.cores,
        refuse_large=asked.refuse_large,
        member=Membership(folder=asked.member, late=asked.late) if asked.member is not None else None,
        deadline_ms=asked.deadline_ms,
        slow_ms=asked.slow_ms,
        limits=Limits(
            max_body_bytes=asked.max_body_bytes,
            request_timeout_s=asked.request_timeout_s,
            idle_timeout_s=asked.idle_timeout_s,
        ),
    )


def _group(settings: ServerSettings, processes: int, arguments: list[str] | None) -> Group:
    if settings.archive is None:
        raise ServerError(
            f"processes: got {processes} with models that come and go; allowed 1, because a client would load into one "
            f"of them; name one archive, or start one process"
        )
    return Group(
        count=processes,
        arguments=tuple(sys.argv[1:] if arguments is None else arguments),
        host=settings.host,
        port=settings.port,
        archive=settings.archive,
        drain_s=settings.limits.drain_s,
    )


def _bytes(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {text}; allowed a number of bytes from 1")
    return value


def _slow(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"got {text}; allowed a number of milliseconds from 0")
    return value


def _counted(name: str, otherwise: str | None = None) -> dict[str, Any]:
    """Take a number of 1 or more from the command line, or where a container has none from its environment."""
    return {"type": _count, "default": os.environ.get(f"STREAMHUB_{name.upper()}", otherwise)}


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"got {text!r}; allowed a whole number of 1 or more")
    return int(text)


def _milliseconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"got {text}; allowed a number of milliseconds above 0")
    return value


def _say(document: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(document).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
