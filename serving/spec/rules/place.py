"""Rules on a stage itself: where it is, what it is called, who is told, and how long its logs are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from serving.spec.rules.finding import Finding
from serving.spec.stage import StageSpec

_RETENTION_DAYS = frozenset(
    {1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", re.ASCII)
_TAG_TEXT = re.compile(r"[\w\s.:/=+\-@]*")
_MAX_TAGS, _MAX_TAG_KEY, _MAX_TAG_VALUE = 50, 128, 256
_MAX_SUBNETS = 16
_MAX_STAGE_NAME = 32 - len("streamhub--api")
_TWO_ZONES = 2
_TAG_API = "AWS API_Tag"


def name_is_usable(stage: StageSpec) -> Iterator[Finding]:
    """A stage's name becomes part of endpoint, stack and function names."""
    if not _NAME.fullmatch(stage.name):
        yield "name", repr(stage.name), "lower-case letters and digits, single - between", "rename it", ""


def name_is_short(stage: StageSpec) -> Iterator[Finding]:
    """`streamhub-<stage>-api` names a load balancer (32 characters); caches have 40, buckets 63."""
    if len(stage.name) > _MAX_STAGE_NAME:
        got = f"{len(stage.name)} characters"
        source = "ELB API_CreateLoadBalancer, Name"
        yield "name", got, f"at most {_MAX_STAGE_NAME}", "shorten it: it is part of other names", source


def account_is_an_id(stage: StageSpec) -> Iterator[Finding]:
    """An account is twelve digits."""
    if not _ACCOUNT.fullmatch(stage.account):
        yield "account", repr(stage.account), "12 digits", "give the AWS account id", ""


def zones_are_of_the_region(stage: StageSpec) -> Iterator[Finding]:
    """Zones are different ones of the region; a model takes at most 16 subnets, one a zone."""
    zones = stage.availability_zones
    of_region = re.compile(rf"{re.escape(stage.region)}[a-z]")
    right = all(of_region.fullmatch(zone) for zone in zones)
    if not 1 <= len(zones) <= _MAX_SUBNETS or len(set(zones)) < len(zones) or not right:
        allowed = f"different zones of {stage.region}, at least one"
        yield "availability_zones", str(list(zones)), allowed, "name zones of the region", "AWS API_VpcConfig"


def failover_has_two_zones(stage: StageSpec) -> Iterator[Finding]:
    """A replication group with automatic failover has nodes in at least two zones."""
    if stage.cache == "replication-group" and len(set(stage.availability_zones)) < _TWO_ZONES:
        fix = 'name another zone, or use cache = "serverless"'
        source = "ElastiCache API_CreateReplicationGroup, MultiAZEnabled"
        yield "availability_zones", str(list(stage.availability_zones)), "two or more for its cache", fix, source


def logs_are_kept_by_a_known_number(stage: StageSpec) -> Iterator[Finding]:
    """CloudWatch Logs keeps groups for certain numbers of days only."""
    if stage.log_retention_days not in _RETENTION_DAYS:
        allowed = f"one of {', '.join(map(str, sorted(_RETENTION_DAYS)))}"
        yield "log_retention_days", str(stage.log_retention_days), allowed, "choose one", "AWS API_PutRetentionPolicy"


def captures_are_kept_by_whole_days(stage: StageSpec) -> Iterator[Finding]:
    """S3 counts in whole days, from one; ten years are as long as any log is kept."""
    if not 1 <= stage.captures_kept_days <= max(_RETENTION_DAYS):
        got, allowed = str(stage.captures_kept_days), f"1 to {max(_RETENTION_DAYS)}"
        yield (
            "capture_retention_days",
            got,
            allowed,
            "choose how long captures are of use",
            "S3 API_LifecycleExpiration",
        )


def emails_are_addresses(stage: StageSpec) -> Iterator[Finding]:
    """A subscription by email needs an address, once."""
    for index, email in enumerate(stage.alarm_emails):
        if not _EMAIL.fullmatch(email) or stage.alarm_emails.index(email) != index:
            yield f"alarm_emails[{index}]", repr(email), "an address, each once", "correct it", "AWS API_Subscribe"


def tags_are_legal(stage: StageSpec) -> Iterator[Finding]:
    """At most 50 tags; keys to 128 characters and never `aws:`, values to 256."""
    if len(stage.tags) > _MAX_TAGS:
        yield "tags", f"{len(stage.tags)} tags", f"at most {_MAX_TAGS}", "take some out", _TAG_API
    for key, value in stage.tags.items():
        if not 1 <= len(key) <= _MAX_TAG_KEY or not _TAG_TEXT.fullmatch(key) or key.lower().startswith("aws:"):
            allowed = f"1 to {_MAX_TAG_KEY} letters, digits, spaces and .:/=+-@_, not aws:"
            yield f"tags.{key}", repr(key), allowed, "rename it", _TAG_API
        if len(value) > _MAX_TAG_VALUE or not _TAG_TEXT.fullmatch(value):
            allowed = f"up to {_MAX_TAG_VALUE} letters, digits, spaces and .:/=+-@_"
            yield f"tags.{key}", repr(value), allowed, "shorten or reword it", _TAG_API


RULES: tuple[Callable[[StageSpec], Iterable[Finding]], ...] = (
    name_is_usable,
    name_is_short,
    account_is_an_id,
    zones_are_of_the_region,
    failover_has_two_zones,
    logs_are_kept_by_a_known_number,
    captures_are_kept_by_whole_days,
    emails_are_addresses,
    tags_are_legal,
)
