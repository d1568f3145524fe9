"""Which slot a unit goes to: a pure function of the release record and the unit (docs/api.md).

`blake2b(salt ‖ unit)` puts the unit into one of 10,000 buckets; the challenger has the first share x 10,000 of them,
so a ramp only adds units to the challenger and moves none back.
"""

from __future__ import annotations

from hashlib import blake2b

from serving.prediction.types import Assignment, Traffic
from serving.spec.stage import Slot

BUCKETS = 10_000

_SPLIT_BYTES = 8
"""2^64 over 10,000 buckets: no bucket is more than 10^-15 larger than another."""

_OTHER: dict[Slot, Slot] = {"a": "b", "b": "a"}


def assign(traffic: Traffic, unit: str | None) -> Assignment:
    """Give the slot of a unit; None has no bucket: the endpoint's weights choose, and nothing is evidence.

    The bucket of the split and the bucket of the variance (0..255) come from different bytes of one digest, so
    neither tells anything of the other.
    """
    if unit is None:
        return _assignment(traffic, slot=traffic.production, bucket=0, unit_bucket=0, challenger=False, keyed=False)
    digest = blake2b(traffic.salt.encode() + unit.encode(), digest_size=_SPLIT_BYTES + 1).digest()
    bucket = int.from_bytes(digest[:_SPLIT_BYTES], "big") % BUCKETS
    challenger = bucket < challenger_buckets(traffic.challenger_share)
    slot = _OTHER[traffic.production] if challenger else traffic.production
    return _assignment(
        traffic, slot=slot, bucket=bucket, unit_bucket=digest[_SPLIT_BYTES], challenger=challenger, keyed=True
    )


def challenger_buckets(share: float) -> int:
    """Give how many buckets a share of 0..1 is; rounded, as 0.07 x 10,000 is 700.0000000000001 in floats."""
    return round(share * BUCKETS)


def weight_of(traffic: Traffic, assignment: Assignment) -> float:
    """Give the share of keyed traffic that the assigned slot had."""
    return traffic.challenger_share if assignment.challenger else 1.0 - traffic.challenger_share


def _assignment(
    traffic: Traffic, *, slot: Slot, bucket: int, unit_bucket: int, challenger: bool, keyed: bool
) -> Assignment:
    return Assignment(
        slot=slot,
        bucket=bucket,
        unit_bucket=unit_bucket,
        release_id=traffic.release_id,
        stage_index=traffic.stage_index,
        challenger=challenger,
        keyed=keyed,
    )
