"""Lists of resources: filtered, sorted and paged as SageMaker does."""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from local.aws_json import Json, ValidationError

_DEFAULT_RESULTS = 10
_TIMES = ("CreationTime", "LastModifiedTime")


@dataclass(frozen=True, slots=True)
class Listing:
    """How one kind is listed: the answer's key, the fields shown, the fields that hold name and status."""

    key: str
    shown: tuple[str, ...]
    name: str
    status: str = "EndpointStatus"


def page(listing: Listing, documents: Mapping[str, Json], call: Json) -> Json:
    """Give one page: newest first unless the call says otherwise."""
    found = [document for name, document in documents.items() if _wanted(name, document, call, status=listing.status)]
    field = {"Name": listing.name, "Status": listing.status}.get(call.get("SortBy", ""), "CreationTime")
    descending = call.get("SortOrder", "Descending") == "Descending"
    found.sort(key=lambda document: (document[field], document[listing.name]), reverse=descending)
    shown = [{field: document[field] for field in listing.shown if field in document} for document in found]
    return part(listing.key, shown, call, most=_DEFAULT_RESULTS)


def part(key: str, items: Sequence[Json], call: Json, *, most: int) -> Json:
    """Give the items from NextToken on, MaxResults of them or `most`, and the token of what follows."""
    start = _start(call.get("NextToken"))
    end = start + call.get("MaxResults", most)
    answer: Json = {key: items[start:end]}
    if end < len(items):
        answer["NextToken"] = base64.urlsafe_b64encode(str(end).encode()).decode()
    return answer


def _wanted(name: str, document: Json, call: Json, *, status: str) -> bool:
    return (
        call.get("NameContains", "").lower() in name.lower()
        and call.get("StatusEquals", document.get(status)) == document.get(status)
        and all(
            call.get(f"{time}After", -math.inf) < document[time] < call.get(f"{time}Before", math.inf)
            for time in _TIMES
            if time in document
        )
    )


def _start(token: str | None) -> int:
    if token is None:
        return 0
    with contextlib.suppress(binascii.Error, ValueError):
        start = int(base64.urlsafe_b64decode(token.encode()))
        if start > 0:
            return start
    raise ValidationError("Invalid pagination token.")
