"""Rules on what a model promises: its name, versions, traffic, time, features and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ENDPOINT_API
from serving.spec.stage import endpoint_name

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_SAGEMAKER_NAME_CHARS = 63
_ROUTE = re.compile(r"/v1(/[a-z][a-z0-9-]*)+", re.ASCII)


def name_is_usable(model: ModelSpec) -> Iterator[Finding]:
    """A name becomes part of an endpoint name and an S3 key."""
    if not _NAME.fullmatch(model.name):
        yield "name", repr(model.name), "lower-case letters, digits and _", "rename the model and its folder", ""
    longest = endpoint_name("staging", model.slug)
    if len(longest) > _SAGEMAKER_NAME_CHARS:
        yield "name", f"{len(longest)} characters in {longest}", "at most 63", "shorten the name", ENDPOINT_API


def versions_are_semantic(model: ModelSpec) -> Iterator[Finding]:
    """The registry orders versions by semantic version."""
    if not model.versions:
        yield "versions", "none", 'at least one [versions."X.Y.Z"]', "add the trained version", ""
    for version in model.versions:
        if not _SEMVER.fullmatch(version):
            yield f"versions.{version}", repr(version), "X.Y.Z", "name it by semantic version", "semver.org"


def budget_fits_the_p99(model: ModelSpec) -> Iterator[Finding]:
    """The parts of the p99 add up to at most the p99."""
    budget = model.budget
    for key, value in (("invoke_ms", budget.invoke_ms), ("overhead_ms", budget.overhead_ms)):
        if value <= 0:
            yield f"budget.{key}", str(value), "above 0", "give it a share of the p99", ""
    if budget.feature_read_ms < 0:
        yield "budget.feature_read_ms", f"{budget.feature_read_ms:g}", "0 or more", "give it its share of the p99", ""
    spent = budget.feature_read_ms + budget.invoke_ms + budget.overhead_ms
    if spent > model.slo.p99_ms:
        yield "budget", f"{spent:g} ms in all", f"at most slo.p99_ms = {model.slo.p99_ms:g}", "shrink a part", ""
    if budget.deadline_ms < model.slo.p99_ms:
        yield (
            "budget.deadline_ms",
            f"{budget.deadline_ms:g}",
            f"at least {model.slo.p99_ms:g}",
            "raise the deadline",
            "",
        )


def promises_are_possible(model: ModelSpec) -> Iterator[Finding]:
    """Traffic and time are above nought, and the route is a path below the API's version."""
    for key, value in (("slo.peak_qps", model.slo.peak_qps), ("slo.p99_ms", model.slo.p99_ms)):
        if value <= 0:
            yield key, f"{value:g}", "above 0", "say what is promised", ""
    if not _ROUTE.fullmatch(model.api.route):
        yield "api.route", repr(model.api.route), "/v1/ and lower-case words with - and /", "correct it", ""


def features_have_defaults(model: ModelSpec) -> Iterator[Finding]:
    """A row that is missing is answered with its defaults, one a field."""
    for index, view in enumerate(model.features):
        key = f"features[{index}]"
        if len(view.defaults) != len(view.fields):
            yield (
                f"{key}.defaults",
                f"{len(view.defaults)} values",
                f"{len(view.fields)}, one a field",
                "complete it",
                "",
            )
        if len(set(view.fields)) != len(view.fields):
            yield f"{key}.fields", "a name twice", "distinct names", "rename one", ""
        if view.max_age_s <= 0:
            yield f"{key}.max_age_s", f"{view.max_age_s:g}", "above 0", "say when a row is stale", ""


def thresholds_name_labels(model: ModelSpec) -> Iterator[Finding]:
    """A threshold stands for a label that the model gives, between 0 and 1."""
    for section in ("block_above", "review_above"):
        for label, value in getattr(model.api, section).items():
            key = f"api.{section}.{label}"
            if label not in model.api.labels:
                yield key, repr(label), f"one of {', '.join(model.api.labels)}", "name a label of api.labels", ""
            if not 0 <= value <= 1:
                yield key, f"{value:g}", "0 to 1", "correct it", ""


RULES: tuple[Rule, ...] = (
    name_is_usable,
    versions_are_semantic,
    budget_fits_the_p99,
    promises_are_possible,
    features_have_defaults,
    thresholds_name_labels,
)
