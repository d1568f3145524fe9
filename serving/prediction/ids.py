"""A prediction id carries where its request went, so that an outcome needs no look-up.

`<unique>~<model>~<version>~<slot><c|p><k|u>~<bucket>~<unit bucket>~<release>~<stage>~<weight>~<check>`, all characters
URL-safe as they are (RFC 3986, unreserved). The check is not keyed: it finds typing errors and cut texts. Who may call
the API can forge an id; that callers are who they say is the affair of the API's authoriser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from serving.errors import InvalidRequestError
from serving.prediction.assignment import BUCKETS
from serving.prediction.types import Assignment
from serving.spec.stage import Slot
from serving.telemetry.evidence import UNIT_BUCKETS

MAX_CHARACTERS = 200
RANDOM_BYTES = 10

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_UNIQUE_CHARACTERS = 26
_CHECK_CHARACTERS = 6
_SHOWN_CHARACTERS = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"(?P<unique>[0-9A-HJKMNP-TV-Z]{26})~(?P<model>[a-z][a-z0-9_]{0,62})~(?P<version>[0-9]+\.[0-9]+\.[0-9]+)"
    r"~(?P<slot>[ab])(?P<challenger>[cp])(?P<keyed>[ku])~(?P<bucket>[0-9]{1,4})~(?P<unit_bucket>[0-9]{1,3})"
    r"~(?P<release>[A-Za-z0-9._-]{0,80})~(?P<stage>[0-9]{1,3})~(?P<weight>[0-9][0-9.e-]{0,23})~(?P<check>[0-9a-f]{6})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRef:
    """What an id says; `unique` alone (26 characters, ordered by time) is SageMaker's InferenceId."""

    unique: str
    model: str
    version: str
    assignment: Assignment
    weight: float


def unique_part(at: datetime, random: bytes) -> str:
    """Give 26 characters: 48 bits of milliseconds, then 80 random bits, Crockford's base 32 (as a ULID).

    Raises:
        ValueError: not exactly `RANDOM_BYTES` random bytes.

    """
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"random: got {len(random)} bytes; allowed {RANDOM_BYTES}")
    milliseconds = (at - _EPOCH) // timedelta(milliseconds=1)
    number = milliseconds << (8 * RANDOM_BYTES) | int.from_bytes(random, "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(5 * (_UNIQUE_CHARACTERS - 1), -1, -5))


def make(ref: PredictionRef) -> str:
    """Give the id.

    Raises:
        ValueError: a part is not of the form an id can carry; `parse` would refuse it.

    """
    put = ref.assignment
    flags = f"{put.slot}{'c' if put.challenger else 'p'}{'k' if put.keyed else 'u'}"
    numbers = f"{put.bucket}~{put.unit_bucket}~{put.release_id}~{put.stage_index}~{ref.weight!r}"
    text = f"{ref.unique}~{ref.model}~{ref.version}~{flags}~{numbers}"
    made = f"{text}~{_check(text)}"
    if len(made) > MAX_CHARACTERS or _FORM.fullmatch(made) is None:
        raise ValueError(f"prediction id: got {made!r}; allowed {_FORM.pattern}, {MAX_CHARACTERS} characters")
    return made


def with_slot(ref: PredictionRef, *, slot: Slot, version: str) -> PredictionRef:
    """Give the reference after the endpoint's weights chose another slot for a request without a unit."""
    return replace(ref, version=version, assignment=replace(ref.assignment, slot=slot))


def parse(text: str) -> PredictionRef:
    """Read an id.

    Raises:
        InvalidRequestError: it is none, is cut, or has a wrong character.

    """
    match = _FORM.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None or _check(text.rpartition("~")[0]) != match["check"]:
        raise _refusal(text)
    try:
        weight = float(match["weight"])
    except ValueError:
        raise _refusal(text) from None
    bucket, unit_bucket = int(match["bucket"]), int(match["unit_bucket"])
    if bucket >= BUCKETS or unit_bucket >= UNIT_BUCKETS or not 0 <= weight <= 1:
        raise _refusal(text)
    slot: Slot = "a" if match["slot"] == "a" else "b"
    return PredictionRef(
        unique=match["unique"],
        model=match["model"],
        version=match["version"],
        assignment=Assignment(
            slot=slot,
            bucket=bucket,
            unit_bucket=unit_bucket,
            release_id=match["release"],
            stage_index=int(match["stage"]),
            challenger=match["challenger"] == "c",
            keyed=match["keyed"] == "k",
        ),
        weight=weight,
    )


def _check(text: str) -> str:
    return blake2b(text.encode(), digest_size=_CHECK_CHARACTERS // 2).hexdigest()


def _refusal(text: str) -> InvalidRequestError:
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return InvalidRequestError(
        f"prediction_id: got {shown!r}; allowed the prediction_id of an answer, unchanged; send it as it was given"
    )
