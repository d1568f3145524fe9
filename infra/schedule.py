"""Run a function every so often."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.function import ServiceFunction

_RETRIES = 2


class Schedule(Construct):
    """A rule that invokes the function with a fixed event at a fixed rate; a late event is dropped for the next."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        function: ServiceFunction,
        every: Duration,
        event: Mapping[str, str],
        description: str,
    ) -> None:
        super().__init__(scope, id_)
        events.Rule(
            self,
            "Rule",
            description=description,
            schedule=events.Schedule.rate(every),
            targets=[
                targets.LambdaFunction(
                    function.function,
                    event=events.RuleTargetInput.from_object(dict(event)),
                    retry_attempts=_RETRIES,
                    max_event_age=every,
                )
            ],
        )
