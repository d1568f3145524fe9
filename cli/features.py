"""`streamhub features`: load rows into the feature cache, look at some, check what is there."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from serving.aws.features import ValkeyFeatures, checked_url, connect, features_url
from serving.errors import FeatureStoreError
from serving.features.jsonl import read_rows
from serving.features.rows import decode
from serving.features.views import View, views_of
from serving.spec.bundle import find_bundle

READ_TIMEOUT_MS = 2_000.0
CHECKED_KEYS = 1_000

app = typer.Typer(no_args_is_help=True)

UrlOption = Annotated[
    str | None, typer.Option("--url", help="The cache; default STREAMHUB_LOCAL_FEATURES_URL or STREAMHUB_FEATURES_URL.")
]
RootOption = Annotated[Path, typer.Option(help="The project folder, where STREAMHUB_SPECS_DIR is not set.")]


@app.command()
def load(
    file: Annotated[Path, typer.Argument(help='JSON lines: {"view","id","written_at","values":{field: number}}.')],
    *,
    url: UrlOption = None,
    root: RootOption = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Write rows; a row older than the stored one is skipped. One bad line, and nothing is written."""
    views = _views(root)
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise FeatureStoreError(f"{file}: got {error.strerror}; allowed a readable file; correct the path") from error
    rows = sorted(read_rows(lines, views, file=str(file)), key=lambda row: row.view.name)
    store = _store(url)
    counts = {}
    for name, group in groupby(rows, key=lambda row: row.view.name):
        of_view = list(group)
        written = store.write(((row.key, row.data) for row in of_view), ttl_s=views[name].ttl_s)
        counts[name] = {"rows": len(of_view), "written": written, "skipped": len(of_view) - written}
    emit(
        {"file": str(file), "views": counts},
        as_json=as_json,
        lines=[f"{name}: {count['written']} written, {count['skipped']} skipped" for name, count in counts.items()],
    )


@app.command()
def get(
    view: Annotated[str, typer.Argument(help="A view of a model's spec.")],
    ids: Annotated[list[str], typer.Argument(help="Entities.")],
    *,
    url: UrlOption = None,
    root: RootOption = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Show rows with their age; exit code 1 when one is missing."""
    found = _view(_views(root), view)
    now = datetime.now(UTC)
    store = _store(url)
    rows = store.read([found.key(entity) for entity in ids], timeout_ms=READ_TIMEOUT_MS)
    shown = [_shown(found, entity, data, now) for entity, data in zip(ids, rows, strict=True)]
    emit({"view": view, "rows": shown}, as_json=as_json, lines=[_line(row) for row in shown])
    if any(data is None for data in rows):
        raise typer.Exit(1)


@app.command()
def check(*, url: UrlOption = None, root: RootOption = Path(), as_json: JsonFlag = False) -> None:
    """Look at up to 1,000 rows of each view: fresh, stale, or of another shape (exit code 1)."""
    store, now = _store(url), datetime.now(UTC)
    counts = {name: _counted(store, view, now) for name, view in sorted(_views(root).items())}
    wrong = sum(count["foreign"] for count in counts.values())
    lines = [
        f"{name}: {count['fresh']} fresh, {count['stale']} stale, {count['foreign']} of another shape"
        for name, count in counts.items()
    ]
    emit({"ok": not wrong, "views": counts}, as_json=as_json, lines=lines)
    if wrong:
        raise typer.Exit(1)


def _counted(store: ValkeyFeatures, view: View, now: datetime) -> dict[str, int]:
    keys = store.keys(view.key("*"), limit=CHECKED_KEYS)
    rows = store.read(keys, timeout_ms=READ_TIMEOUT_MS)
    counts = Counter(_state(view, data, now) for data in rows if data is not None)
    return {name: counts[name] for name in ("fresh", "stale", "foreign")}


def _state(view: View, data: bytes, now: datetime) -> str:
    try:
        written_at = decode(view, data).written_at
    except FeatureStoreError:
        return "foreign"
    return "stale" if now - written_at > timedelta(seconds=view.spec.max_age_s) else "fresh"


def _shown(view: View, entity: str, data: bytes | None, now: datetime) -> dict[str, object]:
    if data is None:
        return {"id": entity, "found": False}
    row = decode(view, data)
    return {
        "id": entity,
        "found": True,
        "written_at": row.written_at.isoformat(),
        "fresh": _state(view, data, now) == "fresh",
        "values": dict(zip(view.spec.fields, row.values.tolist(), strict=True)),
    }


def _line(row: dict[str, object]) -> str:
    if not row["found"]:
        return f"{row['id']}: missing"
    return f"{row['id']}: {'fresh' if row['fresh'] else 'stale'}, {row['written_at']}, {row['values']}"


def _views(root: Path) -> dict[str, View]:
    bundle = find_bundle(os.environ.get("STREAMHUB_SPECS_DIR"), code_dir=root, project_dir=root)
    return views_of(bundle.models)


def _view(views: dict[str, View], name: str) -> View:
    if name not in views:
        raise FeatureStoreError(f"view: got {name!r}; allowed {', '.join(sorted(views))}; name one of these")
    return views[name]


def _store(url: str | None) -> ValkeyFeatures:
    return ValkeyFeatures(connect(checked_url(url) if url is not None else features_url(os.environ)))
