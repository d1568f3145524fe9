"""A service on Fargate says what it runs, what it shows and whom it admits, before anything is built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.spec import ApiShell, StageSpec
from serving.spec.load import parse
from serving.spec.rules import stage_problems

CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
GOOD = ApiShell(  # noqa: S604 - a key of the stage file, no command
    shell="fargate", image_digest=f"sha256:{'a' * 64}", certificate_arn=CERTIFICATE, client_cidrs=("10.30.0.0/16",)
)


def problems(root: Path, api: ApiShell, **stage_keys: Any) -> list[str]:
    stage = parse((root / "stages/dev.toml").read_text(), StageSpec, file="stages/dev.toml")
    stage = replace(stage, models={}, api=api, **stage_keys)
    return [str(found) for found in stage_problems(stage, {}, {}, file="stages/dev.toml", stem="dev")]


def test_a_full_service_is_fine_and_so_is_no_word_about_it(root: Path) -> None:
    assert problems(root, GOOD) == []
    assert problems(root, ApiShell()) == []


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"image_digest": None}, "api.image_digest"),
        ({"image_digest": "latest"}, "api.image_digest"),
        ({"image_digest": f"sha256:{'a' * 63}"}, "api.image_digest"),
        ({"certificate_arn": None}, "api.certificate_arn"),
        ({"certificate_arn": CERTIFICATE.replace("us-east-1", "eu-west-1")}, "api.certificate_arn"),
        ({"certificate_arn": CERTIFICATE.replace("123456789012", "999999999999")}, "api.certificate_arn"),
        ({"client_cidrs": ()}, "api.client_cidrs"),
        ({"client_cidrs": ("0.0.0.0/0",)}, "api.client_cidrs"),
        ({"client_cidrs": ("8.8.8.0/24",)}, "api.client_cidrs"),
        ({"client_cidrs": ("10.0.0.0/7",)}, "api.client_cidrs"),
        ({"client_cidrs": ("10.30.0.1/16",)}, "api.client_cidrs"),
        ({"client_cidrs": ("::/0",)}, "api.client_cidrs"),
        ({"min_tasks": 0}, "api.min_tasks"),
        ({"min_tasks": 3, "max_tasks": 2}, "api.min_tasks"),
        ({"requests_per_task": 0}, "api.requests_per_task"),
    ],
)
def test_what_would_not_run_or_would_be_open_is_refused(root: Path, change: dict[str, Any], key: str) -> None:
    (found,) = problems(root, replace(GOOD, **change))
    assert found.startswith(f"stages/dev.toml: {key}: got ")


def test_a_kept_stage_runs_two_tasks_at_least(root: Path) -> None:
    assert problems(root, replace(GOOD, min_tasks=1)) == []
    (found,) = problems(root, replace(GOOD, min_tasks=1), removal="retain")
    assert found.startswith("stages/dev.toml: api.min_tasks: got 1 (max_tasks 16); allowed 2 to max_tasks")


@pytest.mark.parametrize("key", ["image_digest", "certificate_arn", "client_cidrs"])
def test_what_lambda_does_not_read_is_refused_so_that_nobody_relies_on_it(root: Path, key: str) -> None:
    (found,) = problems(root, ApiShell(**{key: getattr(GOOD, key)}))
    assert found.startswith(f"stages/dev.toml: api.{key}: got ")
