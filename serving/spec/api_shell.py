"""The type of `[api]` in a stage file: in what the prediction service runs, and who reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiShell:
    """Lambda behind an HTTP API, or the ASGI shell on Fargate behind a private load balancer.

    The other keys are Fargate's; rules ask for those that it cannot do without (serving/spec/rules/api.py).
    """

    shell: Literal["lambda", "fargate"] = "lambda"
    image_digest: str | None = None
    certificate_arn: str | None = None
    client_cidrs: tuple[str, ...] = ()
    min_tasks: int = 2
    max_tasks: int = 16
    requests_per_task: int = 500
