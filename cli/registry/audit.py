"""`streamhub registry lineage · gc`: what ran where and came of what, and what nobody needs any more."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import JsonFlag, emit
from cli.registry.options import (
    MAX_DAYS,
    Bucket,
    commit_of,
    digest_of,
    moment,
    open_registry,
    plain,
    unknown_model,
)
from serving.errors import ModelNotFoundError

if TYPE_CHECKING:
    from serving.aws.registry import S3ModelRegistry
    from serving.aws.registry.lineage import Tenure, Use

app = typer.Typer()

_DEFAULT_GRACE_DAYS = 14


@app.command()
def lineage(
    name: Annotated[str | None, typer.Argument(help="The model; all of them when left out.")] = None,
    *,
    bucket: Bucket,
    alias: Annotated[str, typer.Option(help="What this alias of the model pointed at, and when.")] = "",
    at: Annotated[str, typer.Option(help="With --alias: in this moment alone, as ISO 8601; UTC without a zone.")] = "",
    data_sha256: Annotated[str, typer.Option(help="Versions that were trained on this data.")] = "",
    training_commit: Annotated[str, typer.Option(help="Versions that were trained by this commit.")] = "",
    file_sha256: Annotated[str, typer.Option(help="Versions that hold this file.")] = "",
    sha256: Annotated[str, typer.Option(help="Versions with these bytes.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Say what an alias pointed at, or which versions came of given data, commit or file and where they ran."""
    from serving.aws.registry.lineage import Sources  # noqa: PLC0415 - boto3 loads only when a command runs

    sources = Sources(
        data_sha256=digest_of(data_sha256, "--data-sha256"),
        training_commit=commit_of(training_commit, "--training-commit"),
        file_sha256=digest_of(file_sha256, "--file-sha256"),
        sha256=digest_of(sha256, "--sha256"),
    )
    if bool(alias) == (sources != Sources()) or (at and not alias) or (alias and name is None):
        raise typer.BadParameter("give NAME --alias ALIAS [--at TIME], or what to look for, such as --data-sha256")
    registry = open_registry(bucket)
    if alias and name is not None:
        found = _held(registry, name, alias, at)
        emit({"tenures": [plain(each) for each in found]}, as_json=as_json, lines=[_tenure(each) for each in found])
        return
    if name is not None and not registry.versions(name):
        raise unknown_model(name, registry)
    uses = registry.uses(sources, name=name)
    lines = [line for use in uses for line in _use(use)] or ["no version"]
    emit({"uses": [plain(use) for use in uses]}, as_json=as_json, lines=lines)


@app.command()
def gc(
    *,
    bucket: Bucket,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")] = False,
    grace_days: Annotated[
        float, typer.Option(min=0, max=MAX_DAYS, help="Keep what was written within so many days.")
    ] = _DEFAULT_GRACE_DAYS,
    as_json: JsonFlag = False,
) -> None:
    """Remove bytes that no version, alias or approval names, and uploads that nobody ended."""
    done = open_registry(bucket).collector.collect(grace=timedelta(days=grace_days), dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    lines = [
        f"{verb} {each.name} sha256 {each.sha256}: {each.objects} objects, {each.size_bytes} bytes, "
        f"written {each.modified_at.isoformat()}"
        for each in done.removed
    ]
    lines += [f"{verb} upload of {each.key}, begun {each.begun_at.isoformat()}" for each in done.uploads]
    lines += [f"kept {each.name} sha256 {each.sha256}: {each.why}" for each in done.kept]
    lines += [f"{verb} {len(done.removed)} digests, {done.freed_bytes} bytes, {len(done.uploads)} uploads"]
    emit({**plain(done), "freed_bytes": done.freed_bytes}, as_json=as_json, lines=lines)


def _held(registry: S3ModelRegistry, name: str, alias: str, at: str) -> list[Tenure]:
    from serving.aws.registry import lineage as decided  # noqa: PLC0415 - boto3 loads only when a command runs

    held = [each for each in registry.tenures(name) if each.alias == alias]
    if not held:
        have = ", ".join(each.alias for each in registry.aliases(name)) or "none"
        raise ModelNotFoundError(f"{name}: alias: got {alias!r}, which never pointed anywhere; it has {have}")
    if not at:
        return held
    found = decided.at(held, alias, moment(at))
    if found is None:
        raise ModelNotFoundError(
            f"{name}: alias {alias!r}: got {at}; allowed {held[0].since.isoformat()} or later, when it was first moved"
        )
    return [found]


def _tenure(each: Tenure) -> str:
    until = each.until.isoformat() if each.until is not None else "now"
    return (
        f"{each.name} {each.alias}: {each.version} from {each.since.isoformat()} to {until}  sha256 {each.sha256}  "
        f"by {each.actor}: {each.reason}"
    )


def _use(use: Use) -> list[str]:
    model = use.registered
    line = f"{model.name} {model.version}  sha256 {model.sha256}  commit {use.training_commit or '-'}"
    return [line, *(f"  {_tenure(each)}" for each in use.tenures)]
