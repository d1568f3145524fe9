"""`python -m serving.runtime --archive FILE`: one JSON line on stdout when ready, then serve until SIGTERM."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import orjson

from serving.errors import StreamHubError
from serving.runtime.server import run
from serving.runtime.settings import Limits, ServerSettings

DEADLINE_NAME = "STREAMHUB_DEADLINE_MS"


def main(arguments: list[str] | None = None) -> int:
    """Serve; 1 when the archive or the address cannot be used."""
    defaults = Limits()
    parser = argparse.ArgumentParser(prog="serving.runtime", description=__doc__)
    parser.add_argument("--archive", type=Path, required=True, help="a model.tar.gz of `streamhub package`")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 chooses a free one")
    parser.add_argument("--workdir", type=Path, help="unpack here (missing or empty) and leave it")
    parser.add_argument("--threads", type=int, help="ONNX Runtime's threads a run")
    parser.add_argument(
        "--deadline-ms",
        type=_above_zero,
        default=os.environ.get(DEADLINE_NAME),
        help=f"instead of the archive's; {DEADLINE_NAME} says the same where a container has no command line",
    )
    parser.add_argument("--request-timeout-s", type=float, default=defaults.request_timeout_s)
    parser.add_argument("--idle-timeout-s", type=float, default=defaults.idle_timeout_s)
    asked = parser.parse_args(arguments)
    limits = Limits(request_timeout_s=asked.request_timeout_s, idle_timeout_s=asked.idle_timeout_s)
    settings = ServerSettings(
        archive=asked.archive,
        host=asked.host,
        port=asked.port,
        workdir=asked.workdir,
        threads=asked.threads,
        deadline_ms=asked.deadline_ms,
        limits=limits,
    )
    try:
        run(settings, on_ready=_say)
    except StreamHubError as error:
        sys.stderr.write(f"serving.runtime: {error}\n")
        return 1
    return 0


def _above_zero(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"got {text}; allowed a number of milliseconds above 0")
    return value


def _say(document: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(document).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
