"""What the API answers, and what it answers when the model cannot: thresholds and fallbacks from the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serving.errors import ModelFailedError
from serving.prediction.types import Action
from serving.protocol.tensors import InferResponse
from serving.spec import ApiSpec, Slot

Scores = npt.NDArray[np.float32]

FEATURES_DEFAULT = "features_default"
"""At least one feature row was missing or stale: its defaults were used."""
CONTEXT_DEFAULT = "context_default"
"""The client left parts of the context out."""
FALLBACK_MODEL = "fallback_model"
"""The endpoint did not answer in time; the spec's fallback did."""
TRAFFIC_UNKNOWN = "traffic_unknown"
"""The release record could never be read; the endpoint's weights chose the variant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What every answer says of where it comes from."""

    prediction_id: str
    model_version: str
    variant: Slot
    degraded: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """Give the common fields; `degraded` is there only when something was."""
        head: dict[str, object] = {
            "prediction_id": self.prediction_id,
            "model_version": self.model_version,
            "variant": self.variant,
        }
        return {**head, "degraded": list(self.degraded)} if self.degraded else head


def ranked(candidates: Sequence[str], scores: Scores) -> list[dict[str, object]]:
    """Give candidates best first; equal scores keep the order of the request."""
    order = np.argsort(-scores, kind="stable")
    values = scores.tolist()
    return [{"video_id": candidates[index], "score": values[index]} for index in order.tolist()]


def by_popularity(candidates: Sequence[str], popularity: Scores) -> list[dict[str, object]]:
    """Give candidates most popular first, without scores: no model gave any."""
    order = np.argsort(-popularity, kind="stable")
    return [{"video_id": candidates[index], "score": None} for index in order.tolist()]


def action_of(scores: Mapping[str, float], api: ApiSpec) -> Action:
    """Give what scores lead to: block above any of its thresholds, else review above any, else allow."""
    if any(scores[label] > limit for label, limit in api.block_above.items()):
        return Action.BLOCK
    if any(scores[label] > limit for label, limit in api.review_above.items()):
        return Action.REVIEW
    return Action.ALLOW


def output(response: InferResponse, *, name: str, rows: int, width: int) -> Scores:
    """Give one FP32 output, shape (rows, width).

    Raises:
        ModelFailedError: the model answered without it, in another shape or type, or with numbers that are not finite.

    """
    found = next((tensor.array for tensor in response.outputs if tensor.name == name), None)
    if found is None or found.shape != (rows, width) or found.dtype != np.float32 or not np.isfinite(found).all():
        got = "nothing" if found is None else f"{found.dtype} {found.shape}, perhaps not finite"
        raise ModelFailedError(f"output {name!r}: got {got}; allowed FP32 ({rows}, {width}), finite; check the version")
    return found
