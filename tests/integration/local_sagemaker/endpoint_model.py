"""What AWS documents of an endpoint's life, written down a second time and otherwise than the code: as a calendar.

Sources: SageMaker API reference (CreateEndpoint, UpdateEndpoint, UpdateEndpointWeightsAndCapacities, DeleteEndpoint,
DescribeEndpoint); guide, *Deployment guardrails*. Times are seconds; fleets stand when the test says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCALING_S = 4
DELETING_S = 3

Numbers = dict[str, tuple[float, int]]
"""Weight and instances by variant."""


@dataclass
class Policy:
    """Shares of the new fleet and how long each bakes; how long the old fleet waits; whether an alarm watches."""

    steps: list[tuple[float, int]] = field(default_factory=lambda: [(1.0, 0)])
    termination_s: int = 0
    watched: bool = False


@dataclass
class Coming:
    """A deployment: the calendar of its shares begins when its containers are healthy."""

    config: str
    numbers: Numbers
    policy: Policy
    healthy_at: float | None = None

    def share(self, now: float) -> float:
        """Give the new fleet's part of the traffic at a time."""
        if self.healthy_at is None:
            return 0.0
        at, share = self.healthy_at, 0.0
        for part, wait in self.policy.steps:
            if at > now:
                break
            share = part
            at += wait
        return share

    @property
    def ends_at(self) -> float:
        """When the old fleet is gone."""
        if self.healthy_at is None:
            return float("inf")
        return self.healthy_at + sum(wait for _, wait in self.policy.steps) + self.policy.termination_s


@dataclass
class Known:
    """One endpoint as its owner should see it."""

    status: str
    config: str
    current: Numbers = field(default_factory=dict)
    desired: Numbers = field(default_factory=dict)
    coming: Coming | None = None
    due: float = float("inf")
    failed_before: bool = False


class Documented:
    """All endpoints, and what each call may do to them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ringing = False
        self.endpoints: dict[str, Known] = {}

    def may_create(self, name: str) -> bool:
        """A name is taken until its endpoint is gone."""
        return name not in self.endpoints

    def may_change(self, name: str) -> bool:
        """Only an endpoint in service takes another config, weights or counts."""
        return name in self.endpoints and self.endpoints[name].status == "InService"

    def may_deploy(self, name: str, numbers: Numbers, policy: Policy) -> bool:
        """A policy is for the variants that there are (guide, *deployment-guardrails-exclusions*)."""
        if not self.may_change(name):
            return False
        return policy == Policy() or numbers.keys() == self.endpoints[name].current.keys()

    def create(self, name: str, config: str, numbers: Numbers) -> None:
        self.endpoints[name] = Known(status="Creating", config=config, coming=Coming(config, numbers, Policy()))

    def update(self, name: str, config: str, numbers: Numbers, policy: Policy, kept: set[str]) -> None:
        """Same-named variants keep what is retained: the desired values, not those that are still current."""
        known = self.endpoints[name]
        merged = {
            variant: (
                known.desired[variant][0] if "weight" in kept and variant in known.desired else weight,
                known.desired[variant][1] if "count" in kept and variant in known.desired else count,
            )
            for variant, (weight, count) in numbers.items()
        }
        known.status, known.failed_before = "Updating", False
        known.coming = Coming(config, merged, policy)

    def rescale(self, name: str, changes: Numbers, *, instances: bool) -> None:
        """Desired values count when the endpoint is in service again; without instances all stays as it was."""
        known = self.endpoints[name]
        known.due = self.now + SCALING_S
        if instances:
            known.status, known.desired = "Updating", known.desired | changes
        else:
            known.status = "RollingBack"

    def delete(self, name: str) -> None:
        known = self.endpoints[name]
        if known.status != "Deleting":
            known.status, known.coming, known.due = "Deleting", None, self.now + DELETING_S

    def containers(self, name: str, *, healthy: bool) -> None:
        """The containers of the fleet that is awaited pass their health check, or do not."""
        known = self.endpoints[name]
        coming = known.coming
        assert coming is not None
        if healthy:
            coming.healthy_at = self.now
        else:
            known.coming, known.failed_before = None, True
            known.status = "Failed" if known.status == "Creating" else "InService"
        self.wait(0)

    def ring(self) -> None:
        self.ringing = True

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        for name, known in list(self.endpoints.items()):
            self._pass(name, known)

    def _pass(self, name: str, known: Known) -> None:
        coming = known.coming
        if coming is not None and coming.healthy_at is not None:
            # what takes no time has ended before anybody looks at an alarm
            lasts = coming.ends_at > coming.healthy_at
            if coming.policy.watched and self.ringing and lasts and coming.share(self.now) > 0:
                known.coming, known.status = None, "InService"
            elif coming.ends_at <= self.now:
                known.coming, known.status, known.config = None, "InService", coming.config
                known.current = known.desired = coming.numbers
        if known.due <= self.now:
            known.due = float("inf")
            if known.status == "Deleting":
                del self.endpoints[name]
            else:
                known.status, known.current = "InService", known.desired

    def shares(self, name: str) -> dict[tuple[str, str], float]:
        """Give each variant's part of the requests, by config and variant."""
        known = self.endpoints[name]
        if known.status == "Deleting" or not known.current:
            return {}
        parts = [(known.config, known.current, 1.0)]
        if known.coming is not None:
            share = known.coming.share(self.now)
            parts = [(known.config, known.current, 1 - share), (known.coming.config, known.coming.numbers, share)]
        found = {}
        for config, numbers, share in parts:
            taking = {variant: weight for variant, (weight, count) in numbers.items() if count > 0}
            total = sum(taking.values())
            found |= {(config, variant): share * weight / total for variant, weight in taking.items() if weight * share}
        return found
