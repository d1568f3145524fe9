"""`streamhub.json`: what a model server must know of the archive it opened."""

from __future__ import annotations

from dataclasses import dataclass

from serving.spec import Runtime, TensorSpec
from serving.spec.codec import from_json as _from_json
from serving.spec.codec import to_json as _to_json

FILE_NAME = "streamhub.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One version as the server sees it; `thresholds` maps block and review to label → score."""

    name: str
    version: str
    runtime: Runtime
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    labels: tuple[str, ...]
    thresholds: dict[str, dict[str, float]]
    p99_ms: float
    deadline_ms: float

    def to_json(self) -> bytes:
        """Encode; equal values give equal bytes."""
        return _to_json(self)

    @classmethod
    def from_json(cls, data: bytes) -> ServedModel:
        """Decode.

        Raises:
            ValueError: the bytes are no such document.

        """
        return _from_json(data, cls)
