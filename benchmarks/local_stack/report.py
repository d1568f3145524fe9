"""A run as JSON, as Markdown and as lines for a person; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.local_stack.figures import TARGET_ADDED_MS, Added, Sample, added, medians

COMMAND = ".venv/bin/streamhub bench local"


def document(samples: Sequence[Sample], machine: Mapping[str, object], *, rounds: int) -> dict[str, object]:
    """Give the JSON document of a run."""
    ours = added(samples, "InvokeEndpoint", "model server", 1)
    return {
        "machine": dict(machine),
        "rounds": rounds,
        "target": {"added_p50_ms": TARGET_ADDED_MS, "measured_ms": ours.p50_ms, "met": met(ours)},
        "added": [asdict(each) for each in comparisons(samples)],
        "medians": [asdict(each) for each in medians(samples)],
        "samples": [asdict(each) for each in samples],
    }


def met(ours: Added) -> bool:
    """Whether InvokeEndpoint adds no more than it may."""
    return ours.p50_ms <= TARGET_ADDED_MS


def comparisons(samples: Sequence[Sample]) -> list[Added]:
    """Give what the stack adds to the model server, and boto3 to the stack."""
    clients = sorted({each.clients for each in samples if each.way == "InvokeEndpoint"})
    stack = [added(samples, "InvokeEndpoint", "model server", count) for count in clients]
    return [*stack, added(samples, "boto3", "InvokeEndpoint", 1)]


def lines(samples: Sequence[Sample]) -> list[str]:
    """Give what a person reads at the end."""
    told = [
        f"{each.way} adds to {each.to}, {_clients(each.clients)}: p50 {each.p50_ms:+.2f} ms, "
        f"p90 {each.p90_ms:+.2f} ms, CPU {each.server_cpu_us:+.0f} us of the servers, "
        f"{each.client_cpu_us:+.0f} us of the client"
        for each in comparisons(samples)
    ]
    ours = added(samples, "InvokeEndpoint", "model server", 1)
    return [*told, f"{'met' if met(ours) else 'MISSED'}: at most {TARGET_ADDED_MS:g} ms added at the p50"]


def markdown(samples: Sequence[Sample], machine: Mapping[str, object], *, rounds: int) -> str:
    """Give the whole report."""
    facts = ", ".join(f"{key} {value}" for key, value in machine.items())
    ours = added(samples, "InvokeEndpoint", "model server", 1)
    target = (
        f"Target: InvokeEndpoint adds at most {TARGET_ADDED_MS:g} ms to the p50, one client, HTTP client without "
        f"botocore. Measured: {ours.p50_ms:.2f} ms ({'met' if met(ours) else '**missed**'})."
    )
    rows = [
        f"| {each.way} | {each.clients} | {each.p50_ms:.2f} | {each.p90_ms:.2f} | {each.p99_ms:.2f} | "
        f"{each.rate:,.0f} | {each.server_cpu_us:.0f} | {each.client_cpu_us:.0f} |"
        for each in medians(samples)
    ]
    more = [
        f"| {each.way} to {each.to} | {each.clients} | {each.p50_ms:+.2f} | {each.p90_ms:+.2f} | "
        f"{each.server_cpu_us:+.0f} | {each.client_cpu_us:+.0f} |"
        for each in comparisons(samples)
    ]
    return "\n".join(
        [
            "# What the local stack adds to a model server",
            "",
            f"Written by `{COMMAND}`: {rounds} rounds, {facts}.",
            "",
            target,
            "",
            "| way | clients | p50 ms | p90 ms | p99 ms | a second | CPU of the servers, us | CPU of the client, us |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            "| adds | clients | p50 ms | p90 ms | CPU of the servers, us | CPU of the client, us |",
            "| --- | --- | --- | --- | --- | --- |",
            *more,
            "",
            _HOW,
        ]
    )


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


_HOW = """\
The ways take turns within a round, each round in another order; figures are medians over rounds, differences are taken
within a round. *model server* is the runtime on the ranker of `bench serving`, asked by the C client at `/invocations`.
*InvokeEndpoint* is the same client, body and archive through the gateway of `local up`: routing, the choice of a
variant, metrics. *boto3* is one boto3 client over the same gateway. CPU of the servers is of the gateway with its model
server, or of the model server alone. Every answer is compared with the model server's.
"""
