"""`streamhub registry alias · rollback · history · approve · revoke · protect`: what moves, and what lets it move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import JsonFlag, emit
from cli.registry.options import (
    Actor,
    AliasName,
    Bucket,
    Name,
    PackageGroup,
    Reason,
    Version,
    move_lines,
    open_packages,
    open_registry,
    plain,
    require_record,
    unknown_model,
)
from serving.errors import ModelNotFoundError

if TYPE_CHECKING:
    from serving.aws.model_packages import ApprovalStatus, ModelPackage
    from serving.aws.registry.approval import Approval

app = typer.Typer()


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
    registry = open_registry(bucket)
    if version is not None:
        require_record(actor=actor, reason=reason)
        record = registry.move_alias(name, alias, version, actor=actor, reason=reason)
    elif (found := registry.alias(name, alias)) is not None:
        record = found
    else:
        have = ", ".join(each.alias for each in registry.aliases(name)) or "none"
        raise ModelNotFoundError(f"{name}: alias: got {alias!r}; allowed {have}; give a version to make it")
    emit(plain(record), as_json=as_json, lines=move_lines([record]))


@app.command()
def rollback(
    name: Name,
    alias: AliasName,
    *,
    bucket: Bucket,
    actor: Actor,
    reason: Reason,
    bad_version: Annotated[
        str | None, typer.Option("--from", help="Only if it points at this version now: safe to repeat.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Point an alias at the version it pointed at before."""
    require_record(actor=actor, reason=reason)
    record = open_registry(bucket).roll_back_alias(name, alias, actor=actor, reason=reason, bad_version=bad_version)
    emit(plain(record), as_json=as_json, lines=move_lines([record]))


@app.command()
def history(name: Name, *, bucket: Bucket, as_json: JsonFlag = False) -> None:
    """Show every move of a model's aliases, oldest first."""
    registry = open_registry(bucket)
    moves = registry.history(name)
    if not moves and not registry.versions(name):
        raise unknown_model(name, registry)
    emit({"moves": [plain(record) for record in moves]}, as_json=as_json, lines=move_lines(moves))


@app.command()
def approve(
    name: Name,
    version: Version,
    *,
    bucket: Bucket,
    actor: Actor,
    reason: Reason,
    model_package_group: PackageGroup = "",
    as_json: JsonFlag = False,
) -> None:
    """Approve the bytes of a version, by their digest."""
    require_record(actor=actor, reason=reason)
    made = open_registry(bucket).approvals.approve(name, version, actor=actor, reason=reason)
    _tell(made, _in_step(model_package_group, made, "Approved"), as_json=as_json)


@app.command()
def revoke(
    name: Name,
    version: Version,
    *,
    bucket: Bucket,
    actor: Actor,
    reason: Reason,
    model_package_group: PackageGroup = "",
    as_json: JsonFlag = False,
) -> None:
    """Take the approval of a version's bytes back; aliases stay where they are."""
    require_record(actor=actor, reason=reason)
    made = open_registry(bucket).approvals.revoke(name, version, actor=actor, reason=reason)
    _tell(made, _in_step(model_package_group, made, "Rejected"), as_json=as_json)


@app.command()
def protect(
    name: Name,
    alias: AliasName,
    *,
    bucket: Bucket,
    actor: Actor,
    reason: Reason,
    off: Annotated[bool, typer.Option("--off", help="Let it point at any version again.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Let an alias point at approved digests alone, whoever moves it: people and releases."""
    require_record(actor=actor, reason=reason)
    registry = open_registry(bucket)
    if not registry.versions(name):
        raise unknown_model(name, registry)  # a name mistyped would protect nothing, and nobody would hear of it
    made = registry.approvals.protect(name, alias, required=not off, actor=actor, reason=reason)
    state = "approved digests alone" if made.required else "any version"
    emit(plain(made), as_json=as_json, lines=[f"{name} {alias}: {state}, by {made.actor}: {made.reason}"])


def _in_step(group: str, made: Approval, status: ApprovalStatus) -> ModelPackage | None:
    return open_packages(group).decide(made.sha256, status, reason=f"{made.actor}: {made.reason}") if group else None


def _tell(made: Approval, package: ModelPackage | None, *, as_json: bool) -> None:
    document, lines = plain(made), [f"{made.name} {made.version}: {made.decision} by {made.actor}: {made.sha256}"]
    if package is not None:
        document["model_package"] = plain(package)
        lines.append(f"model package {package.arn}: {package.status}")
    emit(document, as_json=as_json, lines=lines)
