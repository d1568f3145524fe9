"""Where every AWS client comes from: one place for time-outs, retries and connection pools."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import boto3
from botocore.auth import SigV4Auth
from botocore.config import Config
from botocore.exceptions import NoRegionError

from serving.errors import EndpointError

POOL_CONNECTIONS = 64
_NO_REGION = "AWS region: got none; allowed one of AWS; set AWS_REGION"


@lru_cache(maxsize=1)
def _session() -> boto3.Session:
    return boto3.Session()


def _region() -> str | None:
    # botocore itself reads AWS_DEFAULT_REGION alone
    return os.environ.get("AWS_REGION") or None


def signer(service: str) -> SigV4Auth:
    """Give what signs requests of a service that boto3 has no client for.

    Raises:
        EndpointError: the environment names no region, or holds no credentials.

    """
    region, credentials = _region() or _session().region_name, _session().get_credentials()
    if not region:
        raise EndpointError(_NO_REGION)
    if credentials is None:
        raise EndpointError("AWS credentials: got none; allowed those of an identity that may call; set them")
    return SigV4Auth(credentials, service, region)


def client(
    service: str,
    *,
    region: str | None = None,
    read_timeout_s: float = 20.0,
    connect_timeout_s: float = 3.0,
    attempts: int = 4,
) -> Any:  # noqa: ANN401 - boto3 makes clients at run time; callers name the stub type
    """Give a client of an AWS service.

    Region, credentials and endpoint come from the environment alone (`AWS_REGION`, `AWS_ENDPOINT_URL`, …), so the
    same code speaks to AWS and to the local stack; only a caller that reads a stage file names the region itself.

    Args:
        service: boto3's name of the service.
        region: another one than the environment's.
        read_timeout_s: how long one answer may take.
        connect_timeout_s: how long one connection may take.
        attempts: tries altogether, with botocore's jittered back-off; 1 where a budget leaves no time for a second.

    Raises:
        EndpointError: the environment names no region, or an endpoint that is no URL.

    """
    config = Config(
        connect_timeout=connect_timeout_s,
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=POOL_CONNECTIONS,
        # path style works with S3 and with an endpoint that has no wildcard name
        s3={"addressing_style": "path"} if service == "s3" else None,
    )
    try:
        return _session().client(service, region_name=region or _region(), config=config)  # type: ignore[call-overload]
    except NoRegionError as error:
        raise EndpointError(_NO_REGION) from error
    except ValueError as error:
        # botocore has no class of its own for it; the text names the URL
        raise EndpointError(
            f"AWS endpoint of {service}: got {error}; allowed https://host or http://127.0.0.1:port; "
            f"correct or unset AWS_ENDPOINT_URL and the variables named after it"
        ) from error
