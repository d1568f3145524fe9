"""Bodies to typed requests; a body with faults is refused with all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from serving.errors import InvalidRequestError, Problem
from serving.prediction import ids, schemas
from serving.prediction.types import Outcome
from serving.prediction.validation import Schema, fault, faults

Body = dict[str, Any]
_SHOWN_PROBLEMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """Where and when a list is shown; None: the client did not say."""

    hour: int | None = None
    device: Literal["mobile", "tablet", "desktop", "tv"] | None = None
    weekend: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRequest:
    """`/v1/rank`: which candidates to order for whom."""

    user_id: str | None
    candidates: tuple[str, ...]
    context: RankContext = RankContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """`/v1/moderate` and `/v1/thumbnail-score` (whose title is ""): exactly one of the two images is given."""

    content_id: str | None
    title: str = ""
    image_base64: str | None = None
    thumbnail_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportRequest:
    """`/v1/support/answer`: a question and the passages that the answer rests on."""

    session_id: str | None
    question: str
    passages: tuple[str, ...] = ()
    stream: bool = False


def rank_request(body: bytes, *, max_candidates: int) -> RankRequest:
    """Read a body of `/v1/rank`, or raise InvalidRequestError with every fault."""
    value = _checked(body, schemas.rank_schema(max_candidates))
    return RankRequest(
        user_id=value["user_id"],
        candidates=tuple(value["candidates"]),
        context=RankContext(**value.get("context", {})),
    )


def moderate_request(body: bytes) -> ImageRequest:
    """Read a body of `/v1/moderate`, or raise InvalidRequestError with every fault."""
    return ImageRequest(**_checked(body, schemas.MODERATE, _one_image))


def thumbnail_request(body: bytes) -> ImageRequest:
    """Read a body of `/v1/thumbnail-score`, or raise InvalidRequestError with every fault."""
    return ImageRequest(**_checked(body, schemas.THUMBNAIL_SCORE, _one_image))


def support_request(body: bytes) -> SupportRequest:
    """Read a body of `/v1/support/answer`, or raise InvalidRequestError with every fault."""
    value = _checked(body, schemas.SUPPORT)
    return SupportRequest(**{**value, "passages": tuple(value.get("passages", ()))})


def outcome_request(body: bytes) -> tuple[Outcome, ids.PredictionRef]:
    """Read a body of `/v1/outcomes` and what its id says, or raise InvalidRequestError with every fault."""
    value = _checked(body, schemas.OUTCOME, _outcome_rules)
    outcome = Outcome(
        prediction_id=value["prediction_id"],
        event=value["event"],
        value=float(value.get("value", 1.0)),
        occurred_at=datetime.fromisoformat(value["occurred_at"]),
    )
    return outcome, ids.parse(outcome.prediction_id)


def refuse(problems: list[Problem]) -> InvalidRequestError:
    """Give the error that carries these faults."""
    shown = "; ".join(
        f"{problem.key}: got {problem.got}; allowed {problem.allowed}" for problem in problems[:_SHOWN_PROBLEMS]
    )
    more = len(problems) - _SHOWN_PROBLEMS
    text = f"{shown}; and {more} more" if more > 0 else shown
    return InvalidRequestError(text, problems=tuple(problems))


def _checked(body: bytes, schema: Schema, rules: Callable[[Body], Iterator[Problem]] = lambda _: iter(())) -> Body:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"body: got no JSON ({error}); allowed a JSON object; mend the text") from None
    found = list(faults(value, schema))
    if isinstance(value, dict):
        found += rules(value)
    if found:
        raise refuse(found)
    checked: Body = value
    return checked


def _one_image(value: Body) -> Iterator[Problem]:
    given = [key for key in ("image_base64", "thumbnail_url") if key in value]
    if len(given) != 1:
        got = "both" if given else "neither"
        yield fault("image_base64", got, "exactly one of image_base64 and thumbnail_url")


def _outcome_rules(value: Body) -> Iterator[Problem]:
    event, number = value.get("event"), value.get("value")
    if event == "click" and number not in (None, 1):
        yield fault("value", number, "1 for a click, or nothing")
    if event in {"watch", "label"} and "value" not in value:
        yield fault("value", "nothing", "a number: seconds for watch, 0 to 1 for label")
    if event == "label" and type(number) in {int, float} and number > 1:  # type: ignore[operator]
        yield fault("value", number, "0 to 1 for a label")
    if isinstance(value.get("occurred_at"), str) and not _is_instant(value["occurred_at"]):
        yield fault("occurred_at", value["occurred_at"], "a time with its offset, as 2026-01-31T12:00:00Z")
    if isinstance(value.get("prediction_id"), str):
        try:
            ids.parse(value["prediction_id"])
        except InvalidRequestError:
            yield fault("prediction_id", value["prediction_id"], "the prediction_id of an answer, unchanged")


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
