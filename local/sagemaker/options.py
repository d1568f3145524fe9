"""How the local SageMaker behaves where AWS leaves it open: times, limits and the model server's command."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from local.clock import look_s

MAX_PAYLOAD_BYTES = 6_291_456
"""botocore's model of InvokeEndpoint, BodyBlob.max; the smaller of the two limits is safe everywhere."""
LARGE_PAYLOAD_BYTES = 25_000_000
"""What newer AWS pages say of real-time endpoints (quotas; *your-algorithms-inference-code*)."""


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
    """Of the machine's time, as the next two."""
    capture_flush_s: float = 1.0
    capture_flush_bytes: int = 1_000_000
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    """Of a body of InvokeEndpoint; AWS's pages disagree, see the two constants."""
    invocation_timeout_s: float = 60.0
    """InvokeEndpoint: a container answers within 60 seconds."""
    stream_timeout_s: float = 480.0
    """InvokeEndpointWithResponseStream: a container's whole stream ends within 8 minutes."""
    startup_timeout_s: float = 60.0
    """Where a variant gives no ContainerStartupHealthCheckTimeoutInSeconds."""
    stop_timeout_s: float = 30.0
    """SageMaker kills a container 30 seconds after SIGTERM."""
    parallel_starts: int = 2
    processes: int = 1
    """Of each variant; as many of them as it has instances take requests. One serves all of them by default."""

    def at_pace(self, pace: float) -> Options:
        """Give what suits a clock so many times as fast.

        Statuses last as long as before for who looks at them; waits of policies pass as the clock does, but sixty
        times as fast at least; metrics come often enough for alarms on that clock.
        """
        return replace(
            self,
            weights_update_s=self.weights_update_s * pace,
            deletion_s=self.deletion_s * pace,
            bake_pace=max(1.0, self.bake_pace / pace),
            alarm_poll_s=look_s(self.alarm_poll_s, pace=pace),
            metrics_interval_s=look_s(self.metrics_interval_s, pace=pace) / pace,
        )
