"""What the commands of the registry share: options, the connection, and how records read as lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from serving.errors import ModelNotFoundError
from serving.spec import codec

if TYPE_CHECKING:
    from serving.aws.model_packages import ModelPackages
    from serving.aws.registry import S3ModelRegistry
    from serving.spec.manifest import AliasRecord, RegisteredModel

Bucket = Annotated[str, typer.Option(envvar="STREAMHUB_REGISTRY_BUCKET", help="The registry's bucket.")]
Name = Annotated[str, typer.Argument(help="The model.")]
Version = Annotated[str, typer.Argument(help="The version.")]
AliasName = Annotated[str, typer.Argument(help="The alias, such as production.")]
Actor = Annotated[str, typer.Option(envvar="STREAMHUB_ACTOR", help="Who does it; goes on record.")]
Reason = Annotated[str, typer.Option(help="Why; goes on record.")]

MAX_DAYS = 36_500
"""A century: beyond it dates end."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}", re.ASCII)

PackageGroup = Annotated[
    str, typer.Option("--model-package-group", help="Keep SageMaker's model registry in step: this group.")
]


def open_registry(bucket: str) -> S3ModelRegistry:
    """Connect to the registry of a bucket."""
    from serving.aws.registry import connect  # noqa: PLC0415 - boto3 loads only when a command runs

    return connect(bucket)


def open_packages(group: str) -> ModelPackages:
    """Connect to a group of SageMaker's model registry."""
    from serving.aws.model_packages import connect  # noqa: PLC0415 - boto3 loads only when a command runs

    return connect(group)


def unknown_model(name: str, registry: S3ModelRegistry) -> ModelNotFoundError:
    """Say that a model has no version, and which have."""
    have = ", ".join(sorted({each.name for each in registry.versions()})) or "none"
    return ModelNotFoundError(
        f"model: got {name!r}, of which the registry has no version; it has {have}; push it first"
    )


def require_record(*, actor: str, reason: str) -> None:
    """Refuse what would go on record without who and why, or would not read as one line."""
    require_actor(actor)
    if not reason.strip() or not reason.isprintable():
        raise typer.BadParameter("it goes on record: give --reason, in one line without control characters")


def require_actor(actor: str) -> None:
    """Refuse what would go on record without who."""
    if not actor.strip() or not actor.isprintable():
        raise typer.BadParameter("it goes on record: give --actor, in one line without control characters")


def digest_of(text: str, option: str) -> str:
    """Read a SHA-256; half of one would find nothing, which reads like an answer."""
    digest = text.lower()
    if digest and not _SHA256.fullmatch(digest):
        raise typer.BadParameter(f"{option}: got {text!r}; allowed 64 hexadecimal digits")
    return digest


def commit_of(text: str, option: str) -> str:
    """Read a commit, whole or its beginning."""
    commit = text.lower()
    if commit and not _COMMIT.fullmatch(commit):
        raise typer.BadParameter(f"{option}: got {text!r}; allowed 7 to 64 hexadecimal digits")
    return commit


def moment(text: str) -> datetime:
    """Read an ISO 8601 time; one without a zone is UTC."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"got {text!r}; allowed ISO 8601, such as 2026-11-30T12:00Z") from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def plain(value: object) -> dict[str, Any]:
    """Give a record as JSON has it."""
    found: dict[str, Any] = orjson.loads(codec.to_json(value))
    return found


def version_line(model: RegisteredModel) -> str:
    """Give a version in one line."""
    return f"{model.name} {model.version}  {model.s3_uri}  by {model.created_by} at {model.created_at.isoformat()}"


def move_lines(moves: Sequence[AliasRecord]) -> list[str]:
    """Give moves of aliases, one a line."""
    return [
        f"{each.name} {each.alias} #{each.generation}: {each.previous or '-'} -> {each.version}  "
        f"by {each.actor} at {each.moved_at.isoformat()}: {each.reason}"
        for each in moves
    ]
