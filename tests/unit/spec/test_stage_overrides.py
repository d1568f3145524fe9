"""What a stage may say instead of a model is checked as strictly as the model's own word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.spec import ModelSpec, SlotVersions, StageModel, StageSpec
from serving.spec.load import parse
from serving.spec.manifest import LockedVersion
from serving.spec.rules import stage_problems

NAME = "recommendation_ranker"


def problems(root: Path, *, device: str = "cpu", **overrides: Any) -> list[str]:
    file = f"models/{NAME}/model.toml"
    model = parse((root / file).read_text().replace('device = "cpu"', f'device = "{device}"'), ModelSpec, file=file)
    stage = parse((root / "stages/dev.toml").read_text(), StageSpec, file="stages/dev.toml")
    entry = StageModel(versions=SlotVersions(a="2.0.0", b="3.0.0"), **overrides)
    locks = {NAME: {version: LockedVersion(sha256="0" * 64, size_bytes=1) for version in model.versions}}
    stage = replace(stage, models={NAME: entry})
    return [str(found) for found in stage_problems(stage, {NAME: model}, locks, file="stages/dev.toml", stem="dev")]


@pytest.mark.parametrize("percent", [0, 1, 100])
def test_a_stage_may_capture_any_share(root: Path, percent: int) -> None:
    assert problems(root, capture_percent=percent) == []


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_share_beyond_a_percentage_is_refused(root: Path, percent: int) -> None:
    (found,) = problems(root, capture_percent=percent)
    assert found.startswith(f"stages/dev.toml: models.{NAME}.capture_percent: got {percent}; allowed 0 to 100")


def test_a_minimum_above_the_maximum_is_refused(root: Path) -> None:
    (found,) = problems(root, min_count=3, max_count=2)
    assert f"models.{NAME}.max_count: got 2; allowed at least 3" in found


def test_an_instance_type_without_the_models_device_is_refused(root: Path) -> None:
    (found,) = problems(root, device="gpu", instance_type="ml.c6i.large")
    assert found.startswith(f"stages/dev.toml: models.{NAME}.instance_type: got ml.c6i.large, without a GPU")
    assert problems(root, device="gpu", instance_type="ml.g5.xlarge") == []
    (found,) = problems(root, instance_type="c6i.large")
    assert "'c6i.large'; allowed a type that SageMaker hosts, such as ml.c6i.large" in found


def test_a_deadline_below_the_p99_is_refused(root: Path) -> None:
    (found,) = problems(root, deadline_ms=1)
    assert f"models.{NAME}.deadline_ms: got 1; allowed at least 12" in found
