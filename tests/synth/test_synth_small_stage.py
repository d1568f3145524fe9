"""A stage runs what it names and no more: the ranker alone is a whole stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from serving.spec.load import Project


def test_a_stage_runs_the_ranker_alone(synthesise: Callable[..., Any], project: Project) -> None:
    stage = project.stages["dev"]
    alone = replace(stage, models={"recommendation_ranker": stage.models["recommendation_ranker"]})
    made = synthesise(replace(project, stages={"dev": alone}), "dev")
    endpoints = [found.props["EndpointName"] for found in made.all("AWS::SageMaker::Endpoint")]
    assert endpoints == ["streamhub-dev-recommendation-ranker"]
    types = {
        variant["InstanceType"]
        for config in made.all("AWS::SageMaker::EndpointConfig")
        for variant in config.props["ProductionVariants"]
    }
    assert types == {"ml.c6i.large"}  # no GPU: small and cheap
