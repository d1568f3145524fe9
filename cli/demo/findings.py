"""What each scene of the demo found; values only, measured in this run."""

from __future__ import annotations

from dataclasses import dataclass, field

from cli.demo.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What stands: CloudFormation's stacks and SageMaker's endpoints with their statuses.

    `by_cdk` says whether this run deployed it, or began from what an earlier one had deployed from the same inputs.
    """

    by_cdk: bool
    stacks: dict[str, str]
    endpoints: dict[str, str]
    models: list[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Requests of the routes that release nothing here; statuses of the HTTP API's function beside the wanted ones."""

    routes: Tally
    function: dict[str, int] = field(default_factory=dict)
    function_wanted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a release: relative uplift of the challenger and its always-valid bounds, fractions of 1.

    `weights` are the endpoint's at that time, by version; `visits` are what the clients saw since the look before.
    """

    stage: int
    state: str
    share: float
    impressions: int
    estimate: float | None
    lower: float | None
    upper: float | None
    decision: str
    rule: str
    reason: str
    weights: dict[str, float]
    visits: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """One release from its start to where the endpoint stands at the end; `after` are visits sent then.

    `truth` is the relative uplift that the simulated world gives the challenger; the release has to find it out.
    """

    challenger: str
    production: str
    ramp: tuple[float, ...]
    truth: float
    looks: tuple[Look, ...]
    decision: str
    reasons: tuple[str, ...]
    weights: dict[str, float]
    alias: str
    after: Tally

    @property
    def visits(self) -> Tally:
        """All visits while the release was under way."""
        return sum((look.visits for look in self.looks), Tally())

    @property
    def highest_weight(self) -> float:
        """The largest part of the endpoint's traffic that the challenger's weight gave it at any look, 0 to 1."""
        return max((look.weights.get(self.challenger, 0.0) for look in self.looks), default=0.0)

    @property
    def highest_share(self) -> float:
        """The largest part of the answers of one look's visits that came from the challenger, 0 to 1."""
        return max((look.visits.share(self.challenger) for look in self.looks), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment that the endpoint took back: its config before and after, and what the endpoint says of it."""

    asked: str
    before: str
    after: str
    status: str
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One fault: what it was, visits while it lasted and once nothing of it was seen any more.

    `degrades` says whether its visitors get degraded answers meanwhile, or none that differs. `recovered_s` is how long
    after its end the first visitor was answered as before.
    """

    kind: str
    text: str
    degrades: bool
    during: Tally
    recovered_s: float
    after: Tally
    deployment: Deployment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftWindow:
    """One drift run: the largest score of any feature, and the alarm's state after it."""

    label: str
    visits: int
    score: float
    drifted_share: float
    worst_feature: str
    alarm_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """Windows of requests against the version's baseline, in order: the same people first, then changed ones."""

    alarm_size: float
    windows: tuple[DriftWindow, ...]
