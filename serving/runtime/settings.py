"""What the server allows a client and how it is started; limits have the size of SageMaker's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MAX_BODY_BYTES = 25_000_000
"""Real-time InvokeEndpoint takes 25 MB (AWS's hosting documentation)."""

SLOW_MS = 1000.0
"""Slower answers are told in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one connection; a client beyond them gets an error of its own and costs nobody else anything."""

    max_body_bytes: int = MAX_BODY_BYTES
    max_head_bytes: int = 32_768
    max_pipelined: int = 64
    max_connections: int = 4096
    request_timeout_s: float = 30.0
    """From a request's first byte to its last: a client that drips them is closed."""
    idle_timeout_s: float = 75.0
    drain_s: float = 25.0
    """SageMaker kills a container 30 s after SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Of one process among several on a port: the folder of their metrics.

    `late`: the others serve already, so no connection may come before the model is warm.
    """

    folder: Path
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """One server: what it serves, where it listens, where it unpacks (nothing: a folder of its own).

    It has the model of an archive, or those of a `model_repository` that are named (`load_models`, "*": all) or that
    clients load, or those that SageMaker puts below `models_root`.
    """

    archive: Path | None = None
    """A `model.tar.gz`, or the folder that it was unpacked to."""
    model_name: str | None = None
    """What the archive's model must be called; nothing: anything."""
    host: str = "127.0.0.1"
    port: int = 8080
    safe_ports: tuple[int, int] | None = None
    """The first and the last port that a child may have; nothing: any free one."""
    workdir: Path | None = None
    threads: int | None = None
    """ONNX Runtime's threads a run; nothing: what the spec says, or else what is measured to be best."""
    workers: int | None = None
    """Batches computed at once; nothing: what the spec says, or else what is measured to be best."""
    cores: int | None = None
    """Cores to choose threads for; nothing: what affinity and control group leave this process."""
    member: Membership | None = None
    refuse_large: bool = False
    """Whether more rows than a batch has are refused, as by Triton, and not computed in parts."""
    deadline_ms: float | None = None
    """The hard limit of a request, where the stage has another than the archive."""
    model_repository: Path | None = None
    load_models: tuple[str, ...] = ()
    models_root: Path | None = None
    model_memory_bytes: int | None = None
    """For all models that come and go together; nothing: most of what the process may have."""
    slow_ms: float = SLOW_MS
    """From here on an answer is told in the log; 0: all are."""
    limits: Limits = field(default_factory=Limits)
