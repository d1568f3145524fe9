"""`streamhub preflight`: what a deploy would do to what is live, before it does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from serving.preflight.compare import compare, compare_templates
from serving.preflight.finding import FailOn, Finding, failing
from serving.preflight.planned import read_planned
from serving.preflight.stage_facts import facts_of
from serving.preflight.templates import read_stacks
from serving.spec.load import load_project


def command(
    *,
    stage: Annotated[str, typer.Option(help="The stage to be deployed.")],
    templates: Annotated[Path | None, typer.Option(help="What cdk synth wrote. Default: cdk.out/<stage>.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with another cdk synth's folder instead of the account; asks no AWS.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option(help="From which findings on to exit with 1.")] = "error",
    root: Annotated[Path, typer.Option(help="The project folder.")] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Compare what would be deployed with what is live; exit 1 when it would fail or do harm."""
    folder = templates if templates is not None else root / "cdk.out" / stage
    if against is not None:
        findings = compare_templates(read_stacks(against), read_stacks(folder), stage=stage)
    else:
        findings = _with_account(stage, folder=folder, root=root)
    bad = failing(findings, fail_on=fail_on)
    emit(
        {"ok": not bad, "stage": stage, "findings": [asdict(finding) for finding in findings]},
        as_json=as_json,
        lines=[*(finding.line for finding in findings), _sum(findings)],
    )
    if bad:
        raise typer.Exit(1)


def _with_account(stage: str, *, folder: Path, root: Path) -> tuple[Finding, ...]:
    from serving.aws.preflight.reader import read_live  # noqa: PLC0415 - boto3 loads only when an account is asked

    facts = facts_of(load_project(root), stage)
    planned = read_planned(folder, stage=stage)
    return compare(planned, read_live(planned, facts), facts)


def _sum(findings: tuple[Finding, ...]) -> str:
    counts = {
        level: sum(finding.level == level for finding in findings) for level in ("error", "warning", "unverified")
    }
    return f"errors: {counts['error']}, warnings: {counts['warning']}, not verified: {counts['unverified']}"
