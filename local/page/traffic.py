"""A bounded burst of real requests, to a route of the prediction API or to an endpoint, and what came back."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import orjson
import urllib3

from local.page.document import TrafficTarget, short
from serving.errors import LocalStackError

MAX_REQUESTS: Final = 500
MAX_CLIENTS: Final = 8
REQUEST_S: Final = 10.0
BURST_S: Final = 30.0
_NOTES: Final = 5
_OK: Final = 200
_NO_ANSWER: Final = 0
_NUMBER = re.compile(r"\d+$")

Bodies = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go, and the body of each by its number."""

    id: str
    label: str
    url: str
    body: Bodies

    @property
    def shown(self) -> TrafficTarget:
        """What the page may know of it."""
        return TrafficTarget(id=self.id, label=self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """How many requests, and how many of them at once."""

    target: str
    requests: int
    clients: int

    def __post_init__(self) -> None:
        """Refuse what is not bounded.

        Raises:
            LocalStackError: with all that is wrong.

        """
        wrong = []
        if not 1 <= self.requests <= MAX_REQUESTS:
            wrong.append(f"requests: got {self.requests}; allowed: 1 to {MAX_REQUESTS}")
        if not 1 <= self.clients <= MAX_CLIENTS:
            wrong.append(f"clients: got {self.clients}; allowed: 1 to {MAX_CLIENTS}")
        if wrong:
            raise LocalStackError("; ".join(wrong))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer; status 0 is none at all. `variant` is "" where nobody said which."""

    status: int
    variant: str
    latency_ms: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Answers of one status and variant."""

    status: int
    variant: str
    count: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that answers said, and how many said it."""

    text: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstResult:
    """What came back; `unsent` requests were left when the time for a burst was over."""

    target: str
    sent: int
    unsent: int
    elapsed_s: float
    rows: Sequence[Row]
    notes: Sequence[Note]


class Sender:
    """Sends one burst at a time."""

    def __init__(
        self, targets: Callable[[], Sequence[Target]], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._targets = targets
        self._monotonic = monotonic
        self._busy = threading.Lock()
        self._asked = 0

    def send(self, burst: Burst) -> BurstResult:
        """Send a burst and wait for what comes back; blocks up to half a minute and one request.

        Raises:
            LocalStackError: the target is unknown, or another burst is under way.

        """
        targets = {target.id: target for target in self._targets()}
        target = targets.get(burst.target)
        if target is None:
            raise LocalStackError(f"target: got {burst.target!r}; allowed: {', '.join(targets) or 'none is there yet'}")
        if not self._busy.acquire(blocking=False):
            raise LocalStackError("burst: another one is under way; wait until it is over")
        try:
            return self._run(target, burst)
        finally:
            self._busy.release()

    def _run(self, target: Target, burst: Burst) -> BurstResult:
        started, lock = self._monotonic(), threading.Lock()
        # the next burst goes on where this one ends: other units, other assignments
        numbers = iter(range(self._asked, self._asked + burst.requests))
        self._asked += burst.requests
        answers: list[Answer] = []

        def one_client() -> None:
            while self._monotonic() - started < BURST_S:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                answer = _ask(pool, target, number)
                with lock:
                    answers.append(answer)

        with (
            urllib3.PoolManager(maxsize=burst.clients, retries=False, timeout=REQUEST_S) as pool,
            ThreadPoolExecutor(max_workers=burst.clients, thread_name_prefix="burst") as threads,
        ):
            running = [threads.submit(one_client) for _ in range(burst.clients)]
            for client in running:
                client.result()
        return summary(target.label, answers, planned=burst.requests, elapsed_s=self._monotonic() - started)


def summary(target: str, answers: Sequence[Answer], *, planned: int, elapsed_s: float) -> BurstResult:
    """Count answers by status and variant, with exact quantiles (nearest rank)."""
    groups: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for answer in answers:
        groups[answer.status, answer.variant].append(answer.latency_ms)
    notes = Counter(answer.note for answer in answers if answer.note)
    return BurstResult(
        target=target,
        sent=len(answers),
        unsent=planned - len(answers),
        elapsed_s=elapsed_s,
        rows=[
            Row(
                status=status,
                variant=variant,
                count=len(values),
                p50_ms=_quantile(values, 0.5),
                p99_ms=_quantile(values, 0.99),
            )
            for (status, variant), values in sorted(groups.items())
        ],
        notes=[Note(text=text, count=count) for text, count in notes.most_common(_NOTES)],
    )


def other_unit(unit: str, number: int) -> str:
    """Give another unit of the same look, so that a burst reaches both slots: user_0012 and 3 give user_0009.

    Units below a known one are known too where names are counted up; with too few of them it counts upwards.
    """
    found = _NUMBER.search(unit)
    if found is None:
        return f"{unit}_{number}"
    at = int(found[0])
    shifted = at - number % (at + 1) if at >= MAX_REQUESTS else at + number
    return f"{unit[: found.start()]}{shifted:0{len(found[0])}d}"


def varied(body: Mapping[str, object], unit: str) -> Bodies:
    """Give bodies that differ in the unit alone."""
    first = str(body.get(unit, ""))
    return lambda number: orjson.dumps({**body, unit: other_unit(first, number)})


def _ask(pool: urllib3.PoolManager, target: Target, number: int) -> Answer:
    started = time.perf_counter()
    try:
        response = pool.request(
            "POST", target.url, body=target.body(number), headers={"Content-Type": "application/json"}
        )
    except urllib3.exceptions.HTTPError as error:
        text = f"no answer: {type(error).__name__}"
        return Answer(status=_NO_ANSWER, variant="", latency_ms=(time.perf_counter() - started) * 1000, note=text)
    latency_ms = (time.perf_counter() - started) * 1000
    document = _document(response.data)
    variant = response.headers.get("x-Amzn-Invoked-Production-Variant") or str(document.get("variant", ""))
    return Answer(
        status=response.status,
        variant=short(variant),
        latency_ms=latency_ms,
        note=_note(response.status, document),
    )


def _document(body: bytes) -> dict[str, object]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _note(status: int, document: Mapping[str, object]) -> str:
    if status == _OK:
        degraded = document.get("degraded")
        return short(f"degraded: {', '.join(map(str, degraded))}") if isinstance(degraded, list) and degraded else ""
    said = document.get("detail") or document.get("title") or document.get("Message") or document.get("message")
    return short(f"{status}: {said}" if said else f"{status} without a text")


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
