"""What each scene promises, held against what it found: pure, one function a scene."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cli.demo.findings import Deployed, Drifted, Outage, Released, Served
from cli.demo.tally import Tally
from serving.release.decide import DecisionKind

_COMPLETE: Final = "CREATE_COMPLETE"
_IN_SERVICE: Final = "InService"
_ALARM: Final = "ALARM"
_OK: Final = "OK"
_WHOLE: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One thing that a scene shows, what was seen, and whether that is it."""

    text: str
    seen: str
    kept: bool


def deployed(found: Deployed) -> tuple[Promise, ...]:
    """Ask for complete stacks and endpoints in service, at least one of each."""
    stacks = sum(status == _COMPLETE for status in found.stacks.values())
    endpoints = sum(status == _IN_SERVICE for status in found.endpoints.values())
    return (
        Promise(
            text="cdk deploy completes every stack" if found.by_cdk else "what cdk deployed before is brought back",
            seen=f"{stacks} of {len(found.stacks)} stacks complete",
            kept=0 < stacks == len(found.stacks),
        ),
        Promise(
            text="every endpoint is in service",
            seen=f"{endpoints} of {len(found.endpoints)} InService",
            kept=0 < endpoints == len(found.endpoints),
        ),
    )


def served(found: Served) -> tuple[Promise, ...]:
    """Ask for an answer to every request, and from the function what each route should give."""
    promises = [_none_lost("every route answers", found.routes)]
    if found.function_wanted:
        right = sum(found.function.get(route) == wanted for route, wanted in found.function_wanted.items())
        promises.append(
            Promise(
                text="the HTTP API's function answers as the stage says",
                seen=f"{right} of {len(found.function_wanted)} routes",
                kept=right == len(found.function_wanted),
            )
        )
    return tuple(promises)


def promoted(found: Released) -> tuple[Promise, ...]:
    """Ask that the better version came step by step, by evidence, to all of the traffic."""
    shares = tuple(dict.fromkeys(look.share for look in found.looks))
    return (
        _decided(found, DecisionKind.PROMOTE),
        Promise(
            text="traffic moved step by step",
            seen=", ".join(f"{share:.0%}" for share in (*shares, found.weights.get(found.challenger, 0.0))),
            kept=shares == found.ramp and found.weights.get(found.challenger) == _WHOLE,
        ),
        _all_from(found, found.challenger),
        Promise(text="the alias production names it", seen=found.alias, kept=found.alias == found.challenger),
        _none_lost("no request is lost meanwhile", found.visits + found.after),
    )


def rolled_back(found: Released) -> tuple[Promise, ...]:
    """Ask that the worse version was stopped by statistics, never had all traffic, and lost it again."""
    allowed = found.ramp[-1]
    return (
        _decided(found, DecisionKind.ROLL_BACK),
        Promise(
            text="traffic was never all on it",
            seen=f"weight {found.highest_weight:.0%}, answers {found.highest_share:.1%} at most",
            kept=found.highest_weight <= allowed < _WHOLE and found.highest_share < _WHOLE,
        ),
        _all_from(found, found.production),
        Promise(
            text="the alias production stays",
            seen=found.alias,
            kept=found.alias == found.production and found.weights.get(found.challenger, 0.0) == 0.0,
        ),
        _none_lost("no request is lost meanwhile", found.visits + found.after),
    )


def survived(found: tuple[Outage, ...]) -> tuple[Promise, ...]:
    """Ask of each fault that it was met, that every visitor had an answer, and that nothing of it remained."""
    return tuple(promise for outage in found for promise in _outage(outage))


def drifted(found: Drifted) -> tuple[Promise, ...]:
    """Ask for quiet while the people are those of the baseline, and for the alarm once they are others."""
    first, last = (found.windows[0], found.windows[-1]) if found.windows else (None, None)
    return (
        Promise(
            text="no alarm while inputs are as trained",
            seen=f"PSI {first.score:.2f}, {first.alarm_state}" if first is not None else "no window",
            kept=first is not None and first.alarm_state == _OK and first.score <= found.alarm_size,
        ),
        Promise(
            text="shifted inputs raise it",
            seen=f"{last.worst_feature} PSI {last.score:.2f}, {last.alarm_state}" if last is not None else "no window",
            kept=last is not None and last.alarm_state == _ALARM and last.score > found.alarm_size,
        ),
    )


def taken_down(*, left: bool) -> tuple[Promise, ...]:
    """Ask that no process of the stack is left."""
    seen = "some still run" if left else "none runs"
    return (Promise(text="no process of the stack is left", seen=seen, kept=not left),)


def _outage(found: Outage) -> tuple[Promise, ...]:
    if found.degrades:
        promised, met = "answers are degraded, not missing", found.during.degraded > 0
        seen = f"{found.during.degraded:,} degraded"
    else:
        promised, met = "the old version goes on", _taken_back(found) and found.during.degraded == 0
        seen = _deployment(found)
    return (
        _none_lost(f"{found.text}: no request is lost", found.during),
        Promise(text=f"{found.text}: {promised}", seen=seen, kept=met),
        Promise(
            text=f"{found.text}: nothing of it remains",
            seen=f"{found.after.degraded:,} degraded of {found.after.sent:,}, {found.recovered_s:.1f} s later",
            kept=found.after.sent > 0 and found.after.all_answered and found.after.degraded == 0,
        ),
    )


def _taken_back(found: Outage) -> bool:
    taken = found.deployment
    return taken is not None and taken.after == taken.before != taken.asked and taken.status == _IN_SERVICE


def _deployment(found: Outage) -> str:
    if found.deployment is None:
        return "no deployment"
    kept = "the old config" if _taken_back(found) else f"config {found.deployment.after}"
    return f"{found.deployment.status} on {kept}, {found.during.degraded:,} degraded"


def _decided(found: Released, wanted: DecisionKind) -> Promise:
    words = "promoted" if wanted is DecisionKind.PROMOTE else "rolled back"
    return Promise(
        text=f"{found.challenger} is {words} by the evidence",
        seen=": ".join((found.decision, *found.reasons[:1])),
        kept=found.decision == wanted,
    )


def _all_from(found: Released, version: str) -> Promise:
    total = sum(found.after.by_version.values())
    return Promise(
        text=f"then all traffic is on {version}",
        seen=f"{found.after.by_version.get(version, 0):,} of {total:,} answers",
        kept=total > 0 and found.after.by_version == {version: total} and found.weights.get(version) == _WHOLE,
    )


def _none_lost(text: str, tally: Tally) -> Promise:
    seen = f"{tally.answered:,} of {tally.sent:,} answered"
    rest = [
        f"{count:,} {name}" for name, count in (("shed", tally.shed), ("refused", tally.errors), ("lost", tally.lost))
    ]
    return Promise(
        text=text,
        seen=", ".join((seen, *(part for part in rest if not part.startswith("0 ")))),
        kept=tally.sent > 0 and tally.errors == 0 and tally.lost == 0,
    )
