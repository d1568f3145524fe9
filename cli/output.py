"""How every command speaks: one JSON document on stdout with `--json`, plain lines without; progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import orjson
import typer
from rich.console import Console

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; logs go to stderr.")]

progress_console = Console(stderr=True)
"""Where progress bars and notes go, so that stdout holds the answer alone."""

_out = Console(soft_wrap=True)


def emit(document: Mapping[str, object], *, as_json: bool, lines: list[str] | None = None) -> None:
    """Print the answer: the document as JSON, or its human lines (default: `key: value`)."""
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY) + b"\n")
        sys.stdout.buffer.flush()
        return
    for line in lines if lines is not None else [f"{key}: {value}" for key, value in document.items()]:
        _out.print(line, markup=False, highlight=False)
