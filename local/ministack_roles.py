"""ministack's IAM and Lambda: functions get keys of their role, and the role's policies are given for these keys."""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from local.permissions.caller import Caller, Policies
from local.permissions.policy import Statement, statements

_RUNTIME = "ministack.core.lambda_runtime"
_LAMBDA = "ministack.services.lambda_svc"
_EVALUATOR = "ministack.core.iam_evaluator"
_IAM = "ministack.services.iam"
_STS = "ministack.services.sts"

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    _RUNTIME: ("execution_credentials", "_account_region_from_function_config", "reset"),
    _LAMBDA: ("execution_credentials",),
    _EVALUATOR: ("_resolve_managed_policy_document",),
    _IAM: ("_roles",),
    _STS: ("register_session",),
}
"""Every name of ministack that this module touches."""


def end_functions() -> None:
    """End the processes of functions and wait for them; by themselves they end some time behind the gateway."""
    importlib.import_module(_RUNTIME).reset()


class FunctionRoles:
    """The sessions of functions, for one region's ministack; it gives every function that starts its own key."""

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}
        self._roles = importlib.import_module(_IAM)._roles
        self._managed = importlib.import_module(_EVALUATOR)._resolve_managed_policy_document
        for name in (_RUNTIME, _LAMBDA):
            setattr(importlib.import_module(name), "execution_credentials", self.credentials)  # noqa: B010 - untyped

    def credentials(self, function: Mapping[str, Any]) -> dict[str, str]:
        """Give the environment's keys for a function's process: of its role, the same for all its processes."""
        account, _ = importlib.import_module(_RUNTIME)._account_region_from_function_config(function)
        arn, role = str(function["FunctionArn"]), str(function["Role"])
        digest = hashlib.sha256(f"{arn} {role}".encode()).hexdigest()
        key, secret, token = f"ASIA{digest[:16].upper()}", digest[16:56], digest[24:]
        caller = Caller(
            account=account,
            role=role.rpartition("/")[2],
            path=f"{role.partition(':role')[2].rpartition('/')[0]}/",
            session=str(function["FunctionName"]),
            function_arn=arn,
        )
        self._callers[key] = caller
        importlib.import_module(_STS).register_session(
            key,
            {
                "Arn": caller.arn,
                "UserId": f"{caller.role}:{caller.session}",
                "SecretAccessKey": secret,
                "SessionToken": token,
            },
        )
        return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}

    def caller(self, access_key: str) -> Caller | None:
        """Give whose key it is; None for keys that no function was given."""
        return self._callers.get(access_key)

    def policies(self, caller: Caller) -> Policies:
        """Give the role's policies as they are now; none at all for a role that does not exist.

        Raises:
            PolicyError: one of them is none that IAM would have taken.

        """
        role = self._roles.get_scoped(caller.account, None, caller.role)
        if role is None:
            return Policies(())
        managed = [self._managed(arn, caller.account) for arn in role.get("AttachedPolicies", ())]
        documents = [*(role.get("InlinePolicies") or {}).values(), *managed]
        boundary = role.get("PermissionsBoundary")
        limits = _statements([self._managed(boundary, caller.account)]) if boundary else None
        return Policies(_statements(documents), limits)


def _statements(documents: Sequence[Any]) -> tuple[Statement, ...]:
    texts = [found if isinstance(found, str) else orjson.dumps(found).decode() for found in documents if found]
    return tuple(statement for text in texts for statement in _parsed(text))


@lru_cache(maxsize=256)
def _parsed(document: str) -> tuple[Statement, ...]:
    return statements(document)
