"""Who asks: a function that runs as its role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from local.permissions.patterns import Context
from local.permissions.policy import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A session of a role, as Lambda makes it for a function; `path` is the role's, which its own ARN alone has."""

    account: str
    role: str
    path: str = "/"
    session: str
    function_arn: str

    @property
    def arn(self) -> str:
        """What a refusal names."""
        return f"arn:aws:sts::{self.account}:assumed-role/{self.role}/{self.session}"

    def context(self, *, region: str, now_s: float) -> Context:
        """Give the global condition keys of its calls, `now_s` in seconds since the epoch.

        The loopback address stands for the TLS connection that the call would be: aws:SecureTransport is true.
        """
        return {
            "aws:principalarn": (f"arn:aws:iam::{self.account}:role{self.path}{self.role}",),
            "aws:principalaccount": (self.account,),
            "aws:principaltype": ("AssumedRole",),
            "aws:resourceaccount": (self.account,),
            "aws:requestedregion": (region,),
            "aws:securetransport": ("true",),
            "aws:viaawsservice": ("false",),
            "aws:principalisawsservice": ("false",),
            "aws:currenttime": (datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),),
            "aws:epochtime": (str(int(now_s)),),
            "aws:sourceip": ("127.0.0.1",),
            "lambda:sourcefunctionarn": (self.function_arn,),
        }


@dataclass(frozen=True, slots=True)
class Policies:
    """What a role may do: its inline and managed policies, and its permissions boundary if it has one."""

    identity: Sequence[Statement]
    boundary: Sequence[Statement] | None = None


class Roles(Protocol):
    """What IAM knows of callers."""

    def caller(self, access_key: str) -> Caller | None:
        """Give whose key it is; None for keys that no function was given: they may do everything."""
        ...

    def policies(self, caller: Caller) -> Policies:
        """Give the role's policies as they are now; none at all for a role that does not exist.

        Raises:
            PolicyError: one of them is none that IAM would have taken.

        """
        ...
