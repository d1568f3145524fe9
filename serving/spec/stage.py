"""The types of `stages/<stage>.toml`: what differs between dev, staging and prod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from serving.spec.api_shell import ApiShell
from serving.spec.hosting import DeploymentSpec
from serving.spec.scaling import ScheduleSpec

Slot = Literal["a", "b"]
SLOTS: tuple[Slot, Slot] = ("a", "b")

_CAPTURES_DAYS = 14  # a drift alarm that rose before a holiday can still be looked into


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotVersions:
    """The version each slot holds; only `cdk deploy` changes it."""

    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBatch:
    """The batch endpoint of a model in a stage: naming it deploys it; None takes the model's `[hosting.batch]`.

    It holds the version of `slot`: what git knows of production, which a release may have moved.
    """

    slot: Slot = "a"
    instance_type: str | None = None
    min_count: int | None = None
    max_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSpec:
    """An endpoint of its own: the version of `slot` answers, `version` sees `sampling_percent` of the same requests.

    The answers of the shadow are captured and reach nobody. None takes the model's instance type.
    """

    version: str
    slot: Slot = "a"
    sampling_percent: int = 100
    instance_type: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StageModel:
    """One model in one stage; None takes the model spec's own value.

    `autoscaling = false` takes the scalable targets away: the first of two deploys that change an instance type.
    """

    versions: SlotVersions
    instance_type: str | None = None
    min_count: int | None = None
    max_count: int | None = None
    min_copies: int | None = None
    max_copies: int | None = None
    deadline_ms: float | None = None
    capture_percent: int | None = None
    schedules: tuple[ScheduleSpec, ...] | None = None
    deployment: DeploymentSpec | None = None
    autoscaling: bool = True
    batch: StageBatch | None = None
    shadow: ShadowSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOverride:
    """An image by digest instead of the table's; `ami` is the InferenceAmiVersion that its CUDA needs, on a GPU."""

    uri: str
    ami: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """All that `stages/<stage>.toml` says; account and region come from the file, never from a call."""

    name: str
    account: str
    region: str
    removal: Literal["destroy", "retain"]
    availability_zones: tuple[str, ...]
    cache: Literal["serverless", "replication-group"]
    log_retention_days: int
    models: dict[str, StageModel]
    encryption: Literal["managed", "customer-key"] = "managed"
    alarm_emails: tuple[str, ...] = ()
    image_tags: dict[str, str] = field(default_factory=dict)
    images: dict[str, ImageOverride] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    api: ApiShell = field(default_factory=ApiShell)
    capture_retention_days: int | None = None

    @property
    def captures_kept_days(self) -> int:
        """Days that captured requests are kept: two weeks, or as logs are where those go sooner."""
        if self.capture_retention_days is not None:
            return self.capture_retention_days
        return min(self.log_retention_days, _CAPTURES_DAYS)


def endpoint_name(stage: str, model_slug: str) -> str:
    """The endpoint of a model in a stage: stable for ever, at most 63 characters (docs/adr/0002)."""
    return f"streamhub-{stage}-{model_slug}"


def batch_endpoint_name(stage: str, model_slug: str) -> str:
    """The async endpoint beside it."""
    return f"{endpoint_name(stage, model_slug)}-batch"


def shadow_endpoint_name(stage: str, model_slug: str) -> str:
    """The endpoint that mirrors requests to a version nobody is answered by."""
    return f"{endpoint_name(stage, model_slug)}-shadow"


def component_name(stage: str, model_slug: str, slot: Slot) -> str:
    """The inference component of a slot: a name of its own in the account, for ever like the endpoint's."""
    return f"{endpoint_name(stage, model_slug)}-{slot}"
