"""`streamhub registry push · pull · verify · list · show · retain`: versions, which never change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit, progress_console
from cli.progress import progress_bar
from cli.registry.options import (
    MAX_DAYS,
    Actor,
    Bucket,
    Name,
    PackageGroup,
    Version,
    open_packages,
    open_registry,
    plain,
    require_actor,
    unknown_model,
    version_line,
)
from model_packaging.manifest_file import manifest_path, read_manifest
from serving.errors import RegistryError

app = typer.Typer()


@app.command()
def push(
    package: Annotated[Path, typer.Argument(help="A model.tar.gz or a .model folder, its manifest beside it.")],
    *,
    bucket: Bucket,
    actor: Actor,
    model_package_group: PackageGroup = "",
    as_json: JsonFlag = False,
) -> None:
    """Store a package; an interrupted push is resumed, the same bytes again change nothing, others are refused."""
    require_actor(actor)
    if not package.exists():
        raise RegistryError(f"{package}: got no such file; allowed what `streamhub package` wrote; check the path")
    manifest = read_manifest(manifest_path(package))
    with progress_bar(f"{manifest.name} {manifest.version}") as progress:
        registry = open_registry(bucket)
        registered = registry.push(package, manifest, actor=actor, progress=progress)
    if registry.manifest(manifest.name, manifest.version) != manifest:
        note = "its bytes are there already, with a manifest that says something else: that one stays"
        progress_console.print(f"note: {manifest.name} {manifest.version}: {note} (streamhub registry show)")
    document, lines = plain(registered), [version_line(registered)]
    if model_package_group:
        made = open_packages(model_package_group).register(registered, manifest)
        document["model_package"] = plain(made)
        lines.append(f"model package {made.arn}: {made.status}")
    emit(document, as_json=as_json, lines=lines)


@app.command()
def pull(
    name: Name,
    version: Version,
    *,
    bucket: Bucket,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("dist"),
    as_json: JsonFlag = False,
) -> None:
    """Fetch a version with its manifest, every byte checked; an interrupted pull is resumed."""
    registry = open_registry(bucket)
    with progress_bar(f"{name} {version}") as progress:
        path = registry.pull(name, version, out, progress=progress)
    document = {**plain(registry.registered(name, version)), "path": str(path)}
    emit(document, as_json=as_json, lines=[f"{path}  sha256 {document['sha256']}"])


@app.command()
def verify(name: Name, version: Version, *, bucket: Bucket, as_json: JsonFlag = False) -> None:
    """Read every byte of a version in the bucket and compare it with the manifest."""
    registry = open_registry(bucket)
    with progress_bar(f"{name} {version}") as progress:
        registered = registry.verify(name, version, progress=progress)
    emit({"ok": True, **plain(registered)}, as_json=as_json, lines=[f"ok: {version_line(registered)}"])


@app.command("list")
def list_versions(
    name: Annotated[str | None, typer.Argument(help="One model; all of them when left out.")] = None,
    *,
    bucket: Bucket,
    as_json: JsonFlag = False,
) -> None:
    """List versions by name and semantic version."""
    registry = open_registry(bucket)
    found = registry.versions(name)
    if name is not None and not found:
        raise unknown_model(name, registry)
    emit({"versions": [plain(model) for model in found]}, as_json=as_json, lines=[version_line(m) for m in found])


@app.command()
def show(name: Name, version: Version, *, bucket: Bucket, as_json: JsonFlag = False) -> None:
    """Show one version: where it is, who pushed it, what was decided about it, and its manifest."""
    registry = open_registry(bucket)
    registered, manifest = registry.registered(name, version), registry.manifest(name, version)
    decisions = registry.approvals.decisions(name, version)
    document = {
        **plain(registered),
        "manifest": plain(manifest),
        "decisions": [plain(decision) for decision in decisions],
    }
    lines = [version_line(registered), f"image {manifest.image}; licence {manifest.licence}"]
    lines += [f"{each.decision} by {each.actor} at {each.decided_at.isoformat()}: {each.reason}" for each in decisions]
    lines += [f"metric {key}: {value:g}" for key, value in sorted(manifest.metrics.items())]
    lines += [f"file {entry.path}: {entry.size_bytes} bytes, sha256 {entry.sha256}" for entry in manifest.files]
    emit(document, as_json=as_json, lines=lines)


@app.command()
def retain(
    name: Name,
    version: Version,
    *,
    bucket: Bucket,
    days: Annotated[int, typer.Option(min=1, max=MAX_DAYS, help="How long from now on.")],
    as_json: JsonFlag = False,
) -> None:
    """Lock a version's objects for longer than the bucket does by itself; nothing is ever shortened."""
    until = (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    done = open_registry(bucket).retention.retain(name, version, until=until)
    line = f"{name} {version}: {done.locked} of {done.objects} objects locked anew until {until.isoformat()}"
    emit(plain(done), as_json=as_json, lines=[f"{line} ({done.mode}); the others were locked for longer"])
