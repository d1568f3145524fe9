"""`streamhub registry`: versions that never change and aliases that move, in S3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from cli.output import JsonFlag, emit
from serving.errors import ModelNotFoundError
from serving.spec import codec

if TYPE_CHECKING:
    from serving.aws.registry import S3ModelRegistry
    from serving.spec.manifest import AliasRecord, RegisteredModel

app = typer.Typer(no_args_is_help=True)

Bucket = Annotated[str, typer.Option(envvar="STREAMHUB_REGISTRY_BUCKET", help="The registry's bucket.")]
Name = Annotated[str, typer.Argument(help="The model.")]
AliasName = Annotated[str, typer.Argument(help="The alias, such as production.")]
Actor = Annotated[str, typer.Option(envvar="STREAMHUB_ACTOR", help="Who does it; goes on record.")]
Reason = Annotated[str, typer.Option(help="Why; goes on record.")]


def _registry(bucket: str) -> S3ModelRegistry:
    from serving.aws.registry import connect  # noqa: PLC0415 - boto3 loads only when a command runs

    return connect(bucket)


@app.command()
def push(
    archive: Annotated[Path, typer.Argument(help="A model.tar.gz with its manifest beside it.")],
    *,
    bucket: Bucket,
    actor: Actor,
    as_json: JsonFlag = False,
) -> None:
    """Store an archive; the same bytes again change nothing, other bytes under a version are refused."""
    from model_packaging.build import manifest_path, read_manifest  # noqa: PLC0415 - ONNX loads only for this command

    registered = _registry(bucket).push(archive, read_manifest(manifest_path(archive)), actor=actor)
    emit(_plain(registered), as_json=as_json, lines=[_line(registered)])


@app.command("list")
def list_versions(
    name: Annotated[str | None, typer.Argument(help="One model; all of them when left out.")] = None,
    *,
    bucket: Bucket,
    as_json: JsonFlag = False,
) -> None:
    """List versions by name and semantic version."""
    registry = _registry(bucket)
    found = registry.versions(name)
    if name is not None and not found:
        raise _unknown(name, registry)
    emit({"versions": [_plain(model) for model in found]}, as_json=as_json, lines=[_line(model) for model in found])


@app.command()
def show(
    name: Name,
    version: Annotated[str, typer.Argument(help="The version.")],
    *,
    bucket: Bucket,
    as_json: JsonFlag = False,
) -> None:
    """Show one version: where it is, who pushed it, and its manifest."""
    registry = _registry(bucket)
    registered, manifest = registry.registered(name, version), registry.manifest(name, version)
    document = {**_plain(registered), "manifest": _plain(manifest)}
    lines = [_line(registered), f"image {manifest.image}; licence {manifest.licence}"]
    lines += [f"metric {key}: {value:g}" for key, value in sorted(manifest.metrics.items())]
    lines += [f"file {entry.path}: {entry.size_bytes} bytes, sha256 {entry.sha256}" for entry in manifest.files]
    emit(document, as_json=as_json, lines=lines)


@app.command()
def alias(
    name: Name,
    alias: AliasName,
    version: Annotated[str | None, typer.Argument(help="Where to point it; left out: say where it points.")] = None,
    *,
    bucket: Bucket,
    actor: Actor = "",
    reason: Reason = "",
    as_json: JsonFlag = False,
) -> None:
    """Say where an alias points, or point it at a version."""
    registry = _registry(bucket)
    if version is not None:
        _require(actor=actor, reason=reason)
        record = registry.move_alias(name, alias, version, actor=actor, reason=reason)
    elif (found := registry.alias(name, alias)) is not None:
        record = found
    else:
        have = ", ".join(each.alias for each in registry.aliases(name)) or "none"
        raise ModelNotFoundError(f"{name}: alias: got {alias!r}; allowed {have}; give a version to make it")
    emit(_plain(record), as_json=as_json, lines=_moves([record]))


@app.command()
def rollback(
    name: Name, alias: AliasName, *, bucket: Bucket, actor: Actor, reason: Reason, as_json: JsonFlag = False
) -> None:
    """Point an alias at the version it pointed at before."""
    _require(actor=actor, reason=reason)
    record = _registry(bucket).roll_back_alias(name, alias, actor=actor, reason=reason)
    emit(_plain(record), as_json=as_json, lines=_moves([record]))


@app.command()
def history(name: Name, *, bucket: Bucket, as_json: JsonFlag = False) -> None:
    """Show every move of a model's aliases, oldest first."""
    registry = _registry(bucket)
    moves = registry.history(name)
    if not moves and not registry.versions(name):
        raise _unknown(name, registry)
    emit({"moves": [_plain(record) for record in moves]}, as_json=as_json, lines=_moves(moves))


def _unknown(name: str, registry: S3ModelRegistry) -> ModelNotFoundError:
    have = ", ".join(sorted({each.name for each in registry.versions()})) or "none"
    return ModelNotFoundError(
        f"model: got {name!r}, of which the registry has no version; it has {have}; push it first"
    )


def _require(*, actor: str, reason: str) -> None:
    if not actor.strip() or not reason.strip():
        raise typer.BadParameter("a move goes on record: give --actor and --reason")


def _plain(value: object) -> dict[str, object]:
    plain: dict[str, object] = orjson.loads(codec.to_json(value))
    return plain


def _line(model: RegisteredModel) -> str:
    return f"{model.name} {model.version}  {model.s3_uri}  by {model.created_by} at {model.created_at.isoformat()}"


def _moves(records: Sequence[AliasRecord]) -> list[str]:
    return [
        f"{each.name} {each.alias} #{each.generation}: {each.previous or '-'} -> {each.version}  "
        f"by {each.actor} at {each.moved_at.isoformat()}: {each.reason}"
        for each in records
    ]
