"""How much of everything a demo does: the whole story, or the short one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Visits before the first look at each stage of a release, visits before each further one, and the most looks."""

    canary: int
    decision: int
    further: int
    at_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One length of the story; counts are of requests, `outages` names the faults that are asked for.

    Without `deploys`, what an earlier stack has deployed from the same inputs is brought back where there is such.
    """

    name: str
    deploys: bool
    better: Looks
    worse: Looks
    after: int
    others: int
    lambda_routes: bool
    outages: tuple[str, ...]
    visits_an_outage: int
    visits_a_window: int
    shortened: tuple[str, ...] = ()


_WORSE_DECISION = 2_800
"""A worse version is looked at late: with fewer visits, chance may show it as merely no better, and the release would
end inconclusive before its harm is sure. Simulated with the bounds of the policy `demo`, that happens to 1 of 20 after
1,600 visits and to 1 of 200 after 2,800.
"""

FULL = Pace(
    name="full",
    deploys=True,
    better=Looks(canary=600, decision=600, further=600, at_most=24),
    worse=Looks(canary=2_400, decision=_WORSE_DECISION, further=600, at_most=12),
    after=400,
    others=100,
    lambda_routes=True,
    outages=("error", "slow", "cache", "unhealthy"),
    visits_an_outage=400,
    visits_a_window=600,
)
FAST = Pace(
    name="fast",
    deploys=False,
    better=Looks(canary=1_200, decision=1_200, further=400, at_most=12),
    worse=Looks(canary=1_200, decision=_WORSE_DECISION, further=400, at_most=12),
    after=100,
    others=10,
    lambda_routes=False,
    outages=("error",),
    visits_an_outage=100,
    visits_a_window=300,
    shortened=(
        "no cdk deploy where an earlier stack was deployed from the same inputs: it is brought back",
        "the first look of a stage is a late one, where the whole demo looks often",
        "one fault of four: no slow endpoint, no cache that is down, no deployment of unhealthy containers",
        "half the requests in a window of drift, fewer on the other routes and after each scene",
        "no calls of the HTTP API's Lambda function",
    ),
)
