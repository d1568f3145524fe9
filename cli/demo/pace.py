"""How much of everything a demo does: the whole story, or the short one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Visits before each look at a release, in its canary and in its decision stage, and the most looks."""

    canary: int
    decision: int
    at_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One length of the story; counts are of requests, `outages` names the faults that are asked for."""

    name: str
    better: Looks
    worse: Looks
    after: int
    others: int
    lambda_routes: bool
    outages: tuple[str, ...]
    visits_an_outage: int
    visits_a_window: int
    shortened: tuple[str, ...] = ()


# A worse version needs its looks late: until 1,200 visits an arm, chance may show it as merely no better, and the
# release would end inconclusive before it could be rolled back.
_WORSE = Looks(canary=1_200, decision=2_400, at_most=8)

FULL = Pace(
    name="full",
    better=Looks(canary=600, decision=600, at_most=24),
    worse=_WORSE,
    after=400,
    others=100,
    lambda_routes=True,
    outages=("error", "slow", "unhealthy"),
    visits_an_outage=400,
    visits_a_window=600,
)
FAST = Pace(
    name="fast",
    better=Looks(canary=1_200, decision=2_400, at_most=8),
    worse=_WORSE,
    after=200,
    others=10,
    lambda_routes=False,
    outages=("error",),
    visits_an_outage=200,
    visits_a_window=300,
    shortened=(
        "one look a stage of a release where the whole demo looks more often",
        "one fault of three: the endpoint that fails; none that is slow, no deployment of unhealthy containers",
        "half the requests in a window of drift, a tenth on the other routes",
        "no calls of the HTTP API's Lambda function",
    ),
)
