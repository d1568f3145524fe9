"""The local stack's S3 in a process of its own; run as a module it prints its port as soon as it listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serving.errors import LocalStackError

REGION = "us-east-1"
_ACCOUNT = "123456789012"
_ROOT = Path(__file__).parents[1]


@contextmanager
def local_s3(folder: Path) -> Iterator[str]:
    """Give the address of an S3 that is empty, and ends with the block.

    Raises:
        LocalStackError: it does not start.

    """
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "AWS_EC2_METADATA_DISABLED": "true"}
    with (
        tempfile.TemporaryDirectory(prefix="s3-", dir=folder) as state,
        subprocess.Popen(  # noqa: S603 - this module, by the same Python
            [sys.executable, "-m", "benchmarks.local_s3", state], env=environment, stdout=subprocess.PIPE, text=True
        ) as server,
    ):
        try:
            line = server.stdout.readline() if server.stdout is not None else ""
            if not line:
                raise LocalStackError(f"S3: got exit {server.wait()} at its start; allowed none; run make setup")
            yield f"http://127.0.0.1:{int(line)}"
        finally:
            server.kill()  # it keeps nothing that anybody wants


def _serve(state: Path) -> None:
    import uvicorn  # noqa: PLC0415 - the server's process alone pays for it

    from local import ministack_adapter  # noqa: PLC0415 - as above

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        ministack_adapter.configure(port=port, valkey_port=1, region=REGION, account=_ACCOUNT, state_dir=state)
        app = ministack_adapter.application({})
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="critical", http="httptools"))
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        server.run(sockets=[listening])


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
