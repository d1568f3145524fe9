"""Rules on where a model runs: counts, time-outs, and what one mode has that another has not."""

from __future__ import annotations

from collections.abc import Iterator

from serving.spec.hosting import HostingMode
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ENDPOINT_API, VARIANT_API, ZERO_GUIDE

_INVOKE_LIMIT_MS = 60_000
_ASYNC_LIMIT_MS = 3_600_000


def counts_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """A plain real-time variant cannot scale to zero: only async endpoints and inference components can."""
    hosting = model.hosting
    lowest = 1 if hosting.mode is HostingMode.REALTIME else 0
    if hosting.min_count < lowest:
        fix = "use mode async or components"
        yield "hosting.min_count", str(hosting.min_count), f"at least {lowest}", fix, ZERO_GUIDE
    if hosting.max_count < max(1, hosting.min_count):
        allowed = f"at least {max(1, hosting.min_count)}"
        yield "hosting.max_count", str(hosting.max_count), allowed, "raise it, or lower min_count", VARIANT_API


def timeouts_are_in_range(model: ModelSpec) -> Iterator[Finding]:
    """SageMaker takes 60 to 3,600 s for start-up and download."""
    for key in ("startup_timeout_s", "download_timeout_s"):
        value = getattr(model.hosting, key)
        if not 60 <= value <= 3600:  # noqa: PLR2004 # AWS's own range, said in the docstring
            yield f"hosting.{key}", str(value), "60 to 3600", "correct it", VARIANT_API


def deadline_is_within_the_call(model: ModelSpec) -> Iterator[Finding]:
    """A container must answer within 60 s, and within an hour on an async endpoint."""
    limit_ms = _ASYNC_LIMIT_MS if model.hosting.mode is HostingMode.ASYNC else _INVOKE_LIMIT_MS
    if model.budget.deadline_ms > limit_ms:
        got = f"{model.budget.deadline_ms:g}"
        source = "AWS API_runtime_InvokeEndpoint"
        yield "budget.deadline_ms", got, f"at most {limit_ms} in mode {model.hosting.mode}", "shorten it", source


def modes_have_their_own_tables(model: ModelSpec) -> Iterator[Finding]:
    """Components need `[hosting.component]`, which is of no use elsewhere; only a real-time model has a batch twin."""
    hosting = model.hosting
    if hosting.mode is HostingMode.COMPONENTS and hosting.component is None:
        allowed = "[hosting.component] with accelerators and memory_mib"
        yield "hosting.component", "nothing", allowed, "say what one copy takes", ENDPOINT_API
    if hosting.mode is not HostingMode.COMPONENTS and hosting.component is not None:
        yield "hosting.component", f"a table in mode {hosting.mode}", "mode components", "leave it out", ""
    if hosting.mode is not HostingMode.REALTIME and hosting.batch is not None:
        yield "hosting.batch", f"a table in mode {hosting.mode}", "mode realtime", "leave it out", ""


RULES: tuple[Rule, ...] = (
    counts_are_legal,
    timeouts_are_in_range,
    deadline_is_within_the_call,
    modes_have_their_own_tables,
)
