"""How the local SageMaker behaves where AWS leaves it open: times, limits and the model server's command."""

from __future__ import annotations

import sys
from dataclasses import dataclass

MAX_PAYLOAD_BYTES = 6_291_456
"""botocore's model of InvokeEndpoint, BodyBlob.max; newer AWS pages say 25 MB, the smaller one is safe everywhere."""


@dataclass(frozen=True, slots=True)
class Options:
    """Knobs of the service; the defaults suit a laptop."""

    server_command: tuple[str, ...] = (sys.executable, "-m", "serving.runtime", "--refuse-large")
    """Serves an archive in place of Triton: takes --archive, --host, --port and prints `{"port": N}` when ready."""
    weights_update_s: float = 0.25
    """How long an endpoint is Updating after new weights or counts."""
    deletion_s: float = 0.25
    """How long an endpoint is Deleting."""
    bake_pace: float = 60.0
    """How much faster than on AWS a deployment's waits pass: a minute of baking takes a second."""
    alarm_poll_s: float = 0.5
    """How often the alarms of a deployment are looked at while it bakes."""
    termination_wait_s: float = 0.5
    """How long the old processes live on after an update, so that requests on their way still reach them."""
    metrics_interval_s: float = 5.0
    capture_flush_s: float = 1.0
    capture_flush_bytes: int = 1_000_000
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    invocation_timeout_s: float = 60.0
    """InvokeEndpoint: a container answers within 60 seconds."""
    startup_timeout_s: float = 60.0
    """Where a variant gives no ContainerStartupHealthCheckTimeoutInSeconds."""
    stop_timeout_s: float = 30.0
    """SageMaker kills a container 30 seconds after SIGTERM."""
    parallel_starts: int = 2
