"""What answers a call of the runtime API: a variant by weight or name, or an inference component; or a refusal."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from local.aws_json import AwsError, Json
from local.faults import EVERY, Fault, Faults
from local.sagemaker.routes import Route, Target
from local.sagemaker.wire import PREFIX, refuse_long, validation
from local.settings import LocalSettings
from serving.errors import EndpointError

_COMPONENT = f"{PREFIX}inference-component"
_UNSERVED = {
    f"{PREFIX}target-model": "TARGET_MODEL_HEADER_NOT_SUPPORTED: the endpoint hosts one model a variant",
    f"{PREFIX}target-container-hostname": "a model here has one container; leave TargetContainerHostname out",
}


class _Refusal(NamedTuple):
    code: str
    status: int
    text: str


_REFUSALS: Mapping[str, _Refusal] = {
    # botocore knows no such error of this call: SageMaker sends the code without a text
    "throttle": _Refusal("ThrottlingException", 400, ""),
    "unavailable": _Refusal("ServiceUnavailable", 503, "The service is unavailable: a fault was asked for."),
    "internal": _Refusal("InternalFailure", 500, "An internal failure occurred: a fault was asked for."),
    "dependency": _Refusal("InternalDependencyException", 530, "An internal dependency failed: a fault was asked for."),
    "not-ready": _Refusal("ModelNotReadyException", 429, "The model is not ready: a fault was asked for."),
}
"""Errors of InvokeEndpoint with their status (botocore's model of the runtime)."""


class ComponentTargets(Protocol):
    """Finds what answers for an inference component."""

    def target(self, endpoint: str, name: str, chance: float) -> Target | None:
        """Give its target, if it is on that endpoint; raise AwsError if it has no copy."""


class Targets:
    """Chooses over the routes that the fleets keep, and refuses what faults and endpoints forbid."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        settings: LocalSettings,
        components: ComponentTargets,
        faults: Faults,
        chance: random.Random,
    ) -> None:
        self._routes = routes
        self._settings = settings
        self._components = components
        self._faults = faults
        self._chance = chance

    def of(self, endpoint: str, sent: Mapping[str, str]) -> Target:
        """Give what answers a call with these headers.

        Raises:
            AwsError: nothing does, as the runtime API says it.

        """
        route = self._route(endpoint, sent)
        if route.asynchronous is not None:
            raise validation(f"Endpoint {endpoint} is an asynchronous endpoint; call InvokeEndpointAsync.")
        if _COMPONENT in sent or route.hosts_components:
            return self._component(endpoint, sent.get(_COMPONENT))
        wanted = sent.get(f"{PREFIX}target-variant")
        chance = self._chance.random()
        try:
            target = route.named(wanted, chance) if wanted is not None else route.choose(chance)
        except EndpointError as error:
            raise validation(f"Endpoint {endpoint}: {error}") from error
        if target is None:
            raise validation(f"Variant {wanted} not found for Request: endpoint {endpoint} has no such variant.")
        return target

    def asynchronous(self, endpoint: str, sent: Mapping[str, str]) -> Json:
        """Give the AsyncInferenceConfig of an endpoint that is called asynchronously.

        Raises:
            AwsError: it is none.

        """
        route = self._route(endpoint, sent)
        if route.asynchronous is None:
            raise validation(f"Endpoint {endpoint} is not an asynchronous endpoint; call InvokeEndpoint.")
        return route.asynchronous

    def meets(self, endpoint: str, kind: str) -> Fault | None:
        """Give the fault of that kind that this call meets, if any."""
        return next((fault for fault in self._met(endpoint) if fault.kind == kind), None)

    def _met(self, endpoint: str) -> Iterator[Fault]:
        for fault in self._faults.all():
            if fault.endpoint in {endpoint, EVERY} and self._chance.random() < fault.share:
                yield fault

    def _route(self, endpoint: str, sent: Mapping[str, str]) -> Route:
        refuse_long(sent)
        for name, message in _UNSERVED.items():
            if name in sent:
                raise validation(message)
        route = self._routes.get(endpoint)
        if route is None:
            raise validation(f"Endpoint {endpoint} of account {self._settings.account} not found.")
        for fault in self._met(endpoint):
            if (refusal := _REFUSALS.get(fault.kind)) is not None:
                raise AwsError(refusal.code, refusal.text, status=refusal.status)
        return route

    def _component(self, endpoint: str, name: str | None) -> Target:
        if name is None:
            raise validation(f"Endpoint {endpoint} hosts inference components; give InferenceComponentName.")
        target = self._components.target(endpoint, name, self._chance.random())
        if target is None:
            raise validation(f"Inference Component {name} of endpoint {endpoint} not found.")
        return target
