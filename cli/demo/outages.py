"""Faults in the demo: asked for, met by visitors, taken away, and looked at once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.demo.findings import Deployment, Outage
from cli.demo.pace import Pace
from cli.demo.tally import Tally
from cli.demo.visitors import CLIENTS, Visitors
from local.faults import Faults, make
from serving.errors import LocalStackError

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient

_SHARE = 0.5
_SLOW_MS = 5_000.0
"""Longer than the whole deadline of an answer, so that the fallback has to give it."""

_SLOW_ROUNDS = 2
_SETTLES_S = 60.0


class Outages:
    """Lets faults of the local stack meet the visitors of one endpoint."""

    def __init__(
        self,
        endpoint: str,
        *,
        services: Path,
        sagemaker: SageMakerClient,
        visitors: Visitors,
        pace: Pace,
        say: Callable[[str], None],
    ) -> None:
        self._endpoint = endpoint
        self._faults = Faults(services)
        self._sagemaker = sagemaker
        self._visitors = visitors
        self._count = pace.visits_an_outage
        self._say = say
        self._scenes: dict[str, Callable[[], Outage]] = {
            "error": self.failing,
            "slow": self.slow,
            "cache": self.cache_down,
            "unhealthy": self.unhealthy_deployment,
        }

    def meet(self, kind: str) -> Outage:
        """Let one kind of fault happen."""
        outage = self._scenes[kind]()
        self._say(f"{outage.text}: {outage.during.answered:,} answers, {outage.during.degraded:,} degraded")
        return outage

    def failing(self) -> Outage:
        """Let the container answer 500 to half of the calls."""
        with self._fault("error", endpoint=self._endpoint, share=_SHARE):
            during = self._visitors.visit(self._count)
        return self._outage("error", "the container fails half of its calls", during)

    def slow(self) -> Outage:
        """Let every answer take longer than its deadline."""
        with self._fault("slow", endpoint=self._endpoint, delay_ms=_SLOW_MS):
            during = self._visitors.visit(_SLOW_ROUNDS * CLIENTS)
        return self._outage("slow", "the endpoint is slower than the deadline", during)

    def cache_down(self) -> Outage:
        """Let the feature cache answer nobody."""
        with self._fault("cache"):
            during = self._visitors.visit(self._count)
        return self._outage("cache", "the feature cache is down", during)

    def unhealthy_deployment(self) -> Outage:
        """Deploy containers that fail their health check, by SageMaker's own UpdateEndpoint, while visitors come."""
        before = self._config()
        asked = f"{self._endpoint}-unhealthy"
        described = self._sagemaker.describe_endpoint_config(EndpointConfigName=before)
        self._sagemaker.create_endpoint_config(
            EndpointConfigName=asked, ProductionVariants=described["ProductionVariants"]
        )
        try:
            with self._fault("unhealthy", endpoint=self._endpoint):
                self._sagemaker.update_endpoint(
                    EndpointName=self._endpoint, EndpointConfigName=asked, RetainAllVariantProperties=True
                )
                during = self._visits_until_settled()
        finally:
            self._sagemaker.delete_endpoint_config(EndpointConfigName=asked)
        ended = self._sagemaker.describe_endpoint(EndpointName=self._endpoint)
        deployment = Deployment(
            asked=asked,
            before=before,
            after=ended["EndpointConfigName"],
            status=ended["EndpointStatus"],
            failure=ended.get("FailureReason", ""),
        )
        return self._outage("unhealthy", "a deployment of unhealthy containers", during, deployment=deployment)

    def _visits_until_settled(self) -> Tally:
        end, during = time.monotonic() + _SETTLES_S, Tally()
        while self._status() == "Updating" or not during.sent:
            if time.monotonic() > end:
                raise LocalStackError(f"endpoint {self._endpoint}: waited {_SETTLES_S:g} s until its deployment ends")
            during += self._visitors.visit(CLIENTS)
        return during

    def _outage(self, kind: str, text: str, during: Tally, *, deployment: Deployment | None = None) -> Outage:
        return Outage(
            kind=kind,
            text=text,
            degrades=deployment is None,
            during=during,
            recovered_s=self._visitors.wait_for_whole(),
            after=self._visitors.visit(self._count),
            deployment=deployment,
        )

    @contextmanager
    def _fault(self, kind: str, **options: Any) -> Iterator[None]:  # noqa: ANN401 - the options of a fault
        fault = make(kind, **options)
        self._faults.add(fault)
        try:
            yield
        finally:
            self._faults.remove(fault.name)

    def _config(self) -> str:
        return self._sagemaker.describe_endpoint(EndpointName=self._endpoint)["EndpointConfigName"]

    def _status(self) -> str:
        return self._sagemaker.describe_endpoint(EndpointName=self._endpoint)["EndpointStatus"]
