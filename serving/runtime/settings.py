"""What the server allows a client and how it is started; limits have the size of SageMaker's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MAX_BODY_BYTES = 25_000_000
"""Real-time InvokeEndpoint takes 25 MB (AWS's hosting documentation)."""


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
class ServerSettings:
    """One server: the archive it serves, where it listens, where it unpacks (nothing: a folder of its own)."""

    archive: Path
    host: str = "127.0.0.1"
    port: int = 8080
    workdir: Path | None = None
    threads: int | None = None
    """ONNX Runtime's threads a run; nothing: all cores but the one that talks to clients, at most 4."""
    deadline_ms: float | None = None
    """The hard limit of a request, where the stage has another than the archive."""
    limits: Limits = field(default_factory=Limits)
