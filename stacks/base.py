"""What all stacks of a stage share: their name, environment, tags and protection."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from constructs import Construct

from serving.spec import StageSpec


class StageStack(Stack):
    """`streamhub-<stage>-<part>` in the stage's account and region; a kept stage is protected from deletion."""

    def __init__(self, scope: Construct, part: str, *, stage: StageSpec, description: str) -> None:
        self._zones = list(stage.availability_zones)
        super().__init__(
            scope,
            f"streamhub-{stage.name}-{part}",
            env=Environment(account=stage.account, region=stage.region),
            description=f"StreamHub Inference, {stage.name}: {description}",
            tags=dict(stage.tags),
            termination_protection=stage.removal == "retain",
        )

    @property
    def availability_zones(self) -> list[str]:
        """The stage file's zones; the base class would ask AWS for the account's."""
        return self._zones
