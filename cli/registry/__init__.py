"""`streamhub registry`: versions that never change and aliases that move, in S3."""

import typer

from cli.registry import aliases, audit, imports, versions

app = typer.Typer(no_args_is_help=True)
for part in (versions, imports, aliases, audit):
    app.add_typer(part.app)
