"""`streamhub serve`: the model server on one archive, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from serving.runtime.server import run
from serving.runtime.settings import ServerSettings


def command(
    archive: Annotated[Path, typer.Argument(help="A model.tar.gz that `streamhub package` wrote.")],
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 chooses a free port.")] = 8080,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    as_json: JsonFlag = False,
) -> None:
    """Run the model server on one archive; says so when the model is warm, ends at SIGTERM or Ctrl-C."""

    def say(document: dict[str, object]) -> None:
        url = f"http://{host}:{document['port']}"
        line = f"serving {document['name']} {document['version']} at {url} (POST {url}/invocations)"
        emit({**document, "url": url}, as_json=as_json, lines=[line])

    run(ServerSettings(archive=archive, host=host, port=port), on_ready=say)
