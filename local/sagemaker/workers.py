"""The processes of one variant, one for each of its instances, and which of them takes a request.

Sources: SageMaker API reference, ProductionVariantRoutingConfig; guide, *stateful-sessions*: requests of a session go
to the instance that opened it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from local.sagemaker.servers import ModelServer
from local.sagemaker.wire import CLOSED_SESSION, NEW_SESSION

LEAST_OUTSTANDING = "LEAST_OUTSTANDING_REQUESTS"
RANDOM = "RANDOM"
STRATEGIES = (RANDOM, LEAST_OUTSTANDING)
_MOST_SESSIONS = 10_000


def choose(outstanding: Sequence[int], strategy: str, chance: float) -> int:
    """Give the place of the instance that takes the next request; `chance` in [0, 1) decides among equals.

    Args:
        outstanding: how many requests each instance has now.
        strategy: RANDOM, or LEAST_OUTSTANDING_REQUESTS.
        chance: a random number.

    """
    least = min(outstanding)
    equals = [place for place, count in enumerate(outstanding) if strategy == RANDOM or count == least]
    return equals[int(chance * len(equals))]


class Workers:
    """The processes, and the sessions that hold on to one of them."""

    def __init__(self, servers: Sequence[ModelServer], *, strategy: str = RANDOM) -> None:
        self.servers = tuple(servers)
        self._strategy = strategy
        self._sessions: OrderedDict[str, ModelServer] = OrderedDict()

    def pick(self, *, instances: int, session: str | None, chance: float) -> ModelServer:
        """Give the process that takes a request, among as many as there are instances."""
        if session is not None and (held := self._sessions.get(session)) is not None:
            return held
        serving = self.servers[: max(1, instances)]
        if len(serving) == 1:
            return serving[0]
        return serving[choose([server.outstanding for server in serving], self._strategy, chance)]

    def learn(self, headers: Mapping[str, str], server: ModelServer) -> None:
        """Note which sessions an answer of that process opens and closes; the oldest go when there are too many."""
        if NEW_SESSION in headers:
            self._sessions[headers[NEW_SESSION].partition(";")[0]] = server
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        if CLOSED_SESSION in headers:
            self._sessions.pop(headers[CLOSED_SESSION], None)
