"""Which of the forms that an answer can have its client wants (RFC 9110 §12.5.1, `Accept`)."""

from __future__ import annotations

from collections.abc import Sequence

_EXACT, _SUBTYPES, _ALL = 2, 1, 0


def acceptable(header: str, offers: Sequence[str]) -> list[str]:
    """Give the offers that a header takes, the most wanted first and those of equal weight as they were offered.

    Parameters of a media range but its weight are not looked at; what is no media range is ignored.
    """
    ranges = [parsed for item in header.split(",") if (parsed := _range(item)) is not None]
    weighted = [(offer, _weight(offer, ranges)) for offer in offers]
    return [offer for offer, weight in sorted(weighted, key=lambda pair: -pair[1]) if weight > 0]


def _weight(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Give the weight that the most specific range of an offer has."""
    kind = offer.partition("/")[0]
    best = (-1, 0.0)
    for name, weight in ranges:
        if name == offer:
            best = max(best, (_EXACT, weight))
        elif name == f"{kind}/*":
            best = max(best, (_SUBTYPES, weight))
        elif name == "*/*":
            best = max(best, (_ALL, weight))
    return best[1]


def _range(item: str) -> tuple[str, float] | None:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    if name.count("/") != 1:
        return None
    weight = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return None
    return (name, weight) if 0 <= weight <= 1 else None
