"""What a service of the local stack must know: where its state lies and where AWS is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_REGION = "us-east-1"
DEFAULT_ACCOUNT = "123456789012"


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings shared by the services of one local stack.

    `s3_endpoint_url` answers S3 and CloudWatch: it is the gateway that also hosts these
    services, so whoever calls it from inside must not block the event loop.
    """

    state_dir: Path
    s3_endpoint_url: str
    region: str = DEFAULT_REGION
    account: str = DEFAULT_ACCOUNT
