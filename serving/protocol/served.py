"""`streamhub.json`: what an archive says of the model inside it, so that nobody needs the repository to serve it."""

from __future__ import annotations

from dataclasses import dataclass, field

from serving.errors import ArchiveError
from serving.spec import codec
from serving.spec.model import ModelSpec
from serving.spec.runtime import Runtime
from serving.spec.tensors import TensorSpec

FILE_NAME = "streamhub.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Scores by label above which a version blocks or asks for a review."""

    block_above: dict[str, float] = field(default_factory=dict)
    review_above: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One version as its container sees it; `p99_ms` and `deadline_ms` are the promise and the hard limit a request."""

    name: str
    version: str
    runtime: Runtime
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    labels: tuple[str, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    p99_ms: float
    deadline_ms: float

    @classmethod
    def of(cls, spec: ModelSpec, *, version: str) -> ServedModel:
        """Take from a spec what serving needs."""
        return cls(
            name=spec.name,
            version=version,
            runtime=spec.runtime,
            inputs=spec.inputs,
            outputs=spec.outputs,
            labels=spec.api.labels,
            thresholds=Thresholds(block_above=spec.api.block_above, review_above=spec.api.review_above),
            p99_ms=spec.slo.p99_ms,
            deadline_ms=spec.budget.deadline_ms,
        )

    def to_json(self) -> bytes:
        """Encode; equal models give equal bytes."""
        return codec.to_json(self)

    @classmethod
    def from_json(cls, data: bytes) -> ServedModel:
        """Decode.

        Raises:
            ArchiveError: the bytes are not what `to_json` writes.

        """
        try:
            return codec.from_json(data, cls)
        except ValueError as error:
            raise ArchiveError(
                f"{FILE_NAME}: {error}; allowed what `streamhub package` writes; package it again"
            ) from None
