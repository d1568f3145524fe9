"""Rules on `[api]` of a stage: a service on Fargate says what it runs, what it shows and whom it admits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from serving.spec.rules.finding import Finding
from serving.spec.stage import StageSpec

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FARGATE_ONLY = ("image_digest", "certificate_arn", "client_cidrs")
_HIGH_AVAILABILITY = 2
_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))  # RFC 1918


def api_findings(stage: StageSpec) -> Iterator[Finding]:
    """Give what is wrong with the shell of the API."""
    api = stage.api
    if api.shell == "lambda":
        for key in _FARGATE_ONLY:
            if value := getattr(api, key):
                yield f"api.{key}", repr(value), 'nothing with shell = "lambda"', 'leave it out, or say "fargate"', ""
        return
    yield from _image(stage)
    yield from _certificate(stage)
    yield from _clients(stage)
    yield from _tasks(stage)


def _image(stage: StageSpec) -> Iterator[Finding]:
    digest = stage.api.image_digest
    if digest is None or not _DIGEST.fullmatch(digest):
        fix = f"push the image to streamhub-{stage.name}-api and give its digest"
        yield "api.image_digest", repr(digest), "sha256: and 64 hex digits", fix, ""


def _certificate(stage: StageSpec) -> Iterator[Finding]:
    """A load balancer takes certificates of its own region (ELB guide, *https-listener-certificates*)."""
    prefix = f"arn:aws:acm:{stage.region}:{stage.account}:certificate/"
    arn = stage.api.certificate_arn
    if arn is None or not arn.startswith(prefix):
        source = "ELB guide, https-listener-certificates"
        yield "api.certificate_arn", repr(arn), f"{prefix}…", "give the ARN of an ACM certificate there", source


def _clients(stage: StageSpec) -> Iterator[Finding]:
    """The load balancer checks no signature: who is let in is the only door (docs/api.md)."""
    if not stage.api.client_cidrs:
        yield "api.client_cidrs", "nothing", "private networks, at least one", "name the networks of the callers", ""
    for text in stage.api.client_cidrs:
        if not _is_private(text):
            yield "api.client_cidrs", repr(text), "a private IPv4 network (RFC 1918)", 'write it as "10.30.0.0/16"', ""


def _is_private(text: str) -> bool:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        return False
    return any(network.subnet_of(private) for private in _PRIVATE)


def _tasks(stage: StageSpec) -> Iterator[Finding]:
    api = stage.api
    lowest = _HIGH_AVAILABILITY if stage.removal == "retain" else 1
    if not lowest <= api.min_tasks <= api.max_tasks:
        got = f"{api.min_tasks} (max_tasks {api.max_tasks})"
        yield "api.min_tasks", got, f"{lowest} to max_tasks", "one task is no service that may lose a zone", ""
    if api.requests_per_task < 1:
        yield (
            "api.requests_per_task",
            str(api.requests_per_task),
            "at least 1",
            "say what a task answers a second",
            "",
        )
