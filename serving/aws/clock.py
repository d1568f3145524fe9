"""What time it is: the machine's, or that of a local stack, which may run faster and be moved.

A local stack's time is one small file, a function of the machine's time, so that all of its processes agree without
asking each other. Functions and commands read it where STREAMHUB_LOCAL_CLOCK names it; on AWS nothing does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from serving.errors import LocalStackError
from serving.spec import codec

VARIABLE = "STREAMHUB_LOCAL_CLOCK"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_SLEW = 0.5
"""How fast, of its pace, the smooth time goes while a moved-back clock has not caught up with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTime:
    """A local stack's time as a function of the machine's; all in seconds since the epoch.

    At the machine's `wall_s` it was `stepped_s`, and goes `pace` times as fast since. `smooth_s` is the time that
    never goes back: after a jump back it slows down until the stepped one has caught up, as leap seconds are smeared.
    `offset_s` is by how much it was moved so far.
    """

    pace: float
    wall_s: float
    stepped_s: float
    smooth_s: float
    offset_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a time that stands still or runs back: whoever waits for it would wait for ever."""
        if self.pace <= 0:
            raise ValueError(f"pace: got {self.pace:g}; allowed: above 0")

    @classmethod
    def started(cls, *, pace: float, wall_s: float) -> Self:
        """Give the time of a new stack: it begins with the machine's."""
        return cls(pace=pace, wall_s=wall_s, stepped_s=wall_s, smooth_s=wall_s)

    def stepped(self, wall_s: float) -> float:
        """Give the time with its jumps, as a host sees it whose clock is set."""
        return self.stepped_s + (wall_s - self.wall_s) * self.pace

    def smooth(self, wall_s: float) -> float:
        """Give the time as services see it: jumps forward are in it, a jump back only slows it down."""
        return max(self.stepped(wall_s), self.smooth_s + (wall_s - self.wall_s) * self.pace * _SLEW)

    def moved_to(self, offset_s: float, *, wall_s: float) -> StackTime:
        """Give the time that is off by so many seconds from now on: it jumps, back if they are less than before."""
        return replace(
            self,
            wall_s=wall_s,
            stepped_s=self.stepped(wall_s) + offset_s - self.offset_s,
            smooth_s=self.smooth(wall_s),
            offset_s=offset_s,
        )

    def at_pace(self, pace: float, *, wall_s: float) -> StackTime:
        """Give the time at another pace from now on."""
        return replace(self, pace=pace, wall_s=wall_s, stepped_s=self.stepped(wall_s), smooth_s=self.smooth(wall_s))


def read(path: Path) -> StackTime:
    """Read a stack's time.

    Raises:
        LocalStackError: there is none, or it is none.

    """
    try:
        return codec.from_json(path.read_bytes(), StackTime)
    except (OSError, ValueError) as error:
        raise LocalStackError(
            f"{path}: got {error}; allowed the time of a local stack; start it: streamhub local up"
        ) from error


def write(path: Path, stack_time: StackTime) -> None:
    """Write a stack's time; a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_bytes(codec.to_json(stack_time))
    scratch.replace(path)


def now(environ: Mapping[str, str] = os.environ) -> datetime:
    """Give the time in UTC: the machine's, but a local stack's own where STREAMHUB_LOCAL_CLOCK names its file.

    Raises:
        LocalStackError: the variable is set and AWS_ENDPOINT_URL is not this machine, or names no stack's time.

    """
    named = environ.get(VARIABLE, "")
    if not named:
        return datetime.now(UTC)
    host = urlsplit(environ.get("AWS_ENDPOINT_URL", "")).hostname
    if host not in _LOOPBACK:
        raise LocalStackError(
            f"{VARIABLE}: got {named} with AWS at {host or 'its own address'}; allowed beside a local stack only; "
            f"unset it"
        )
    return datetime.fromtimestamp(read(Path(named)).stepped(time.time()), UTC)
