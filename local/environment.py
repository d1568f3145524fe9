"""The environment in which any AWS client, the CDK CLI and the product itself speak to the local stack."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from local.listener import HOST
from serving.aws import clock as clock_source
from serving.spec import StageSpec

_OURS = ("AWS_", "STREAMHUB_", "CDK_")
_DROPPED = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "PYTHONPATH", "PYTHONHOME"}
)


def stack_environment(
    stage: StageSpec, *, gateway_port: int, valkey_port: int, support_port: int, clock: Path
) -> dict[str, str]:
    """Give what a client needs, and nothing else; `clock` is the file of the stack's time."""
    url = f"http://{HOST}:{gateway_port}"
    features = f"valkey://{HOST}:{valkey_port}"
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": stage.region,
        "AWS_DEFAULT_REGION": stage.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "STREAMHUB_STAGE": stage.name,
        "STREAMHUB_REGISTRY_BUCKET": f"streamhub-{stage.name}-registry-{stage.account}",
        "STREAMHUB_TELEMETRY_BUCKET": f"streamhub-{stage.name}-telemetry-{stage.account}",
        "STREAMHUB_STATE_TABLE": f"streamhub-{stage.name}-state",
        "STREAMHUB_FEATURES_URL": features,
        # wins over the deployed functions' own value, which names a cache with TLS
        "STREAMHUB_LOCAL_FEATURES_URL": features,
        "STREAMHUB_SUPPORT_URL": f"http://{HOST}:{support_port}",
        clock_source.VARIABLE: str(clock),
    }


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Give this process's environment without anything that could lead a child to another AWS, and `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) and name not in _DROPPED}
    # a profile of the user's may set an endpoint, a CA or an addressing style
    nobodys = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return {**kept, **nobodys, **extra}


def bytecode_environment(folder: Path) -> dict[str, str]:
    """Let Python keep compiled modules in `folder` where it is told to write none beside the sources.

    A stack is some ten processes over the same packages; compiling them anew each time is most of their start.
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}
