"""Starts TorchServe as SageMaker starts a container: `docker run IMAGE serve`, port 8080 or SAGEMAKER_BIND_TO_PORT.

TorchServe answers /ping and, with one model loaded, /invocations by itself. Its own launcher would stay in front as
process 1 and pass no SIGTERM on, so the command it makes (ts/model_server.py of 0.12.0, the last release) is run here.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEMPORARY = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - the container's own


def command(home: Path) -> list[str]:
    """Give the command of a TorchServe installed below `home`."""
    return [
        "java",
        f"-Dmodel_server_home={home}",
        f"-Djava.io.tmpdir={TEMPORARY}",
        "-cp",
        str(home / "ts" / "frontend" / "*"),
        "org.pytorch.serve.ModelServer",
        *("--python", sys.executable),
        *("-f", str(HERE / "config.properties")),
        *("-s", str(HERE / "models")),
        "-ncs",  # no snapshots: a restart loads what the image says
    ]


if __name__ == "__main__":
    found = importlib.util.find_spec("ts")
    if found is None or found.origin is None:
        sys.exit("ts: got no TorchServe in this image; allowed a base image that has it; build with another --base")
    os.environ["TS_INFERENCE_ADDRESS"] = f"http://0.0.0.0:{os.environ.get('SAGEMAKER_BIND_TO_PORT', '8080')}"
    os.environ["LOG_LOCATION"] = os.environ["METRICS_LOCATION"] = TEMPORARY
    arguments = command(Path(found.origin).parents[1])
    os.execvp(arguments[0], arguments)  # noqa: S606 - this process becomes the server
