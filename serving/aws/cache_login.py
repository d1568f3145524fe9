"""Log-ins of the feature cache: an IAM token in place of a password, made anew before it expires.

ElastiCache user guide, *auth-iam*: the token is a presigned request `connect`, valid for 15 minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from urllib.parse import urlencode

import boto3
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from valkey.credentials import CredentialProvider

from serving.errors import FeatureStoreError

TOKEN_S = 900
_RENEW_AFTER_S = 600
_SERVICE = "elasticache"


class CacheLogin(CredentialProvider):
    """Gives user and token; safe for many threads."""

    def __init__(
        self,
        *,
        cache: str,
        user: str,
        serverless: bool,
        session: boto3.Session | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._user = user
        self._serverless = serverless
        self._session = session if session is not None else boto3.Session()
        self._monotonic = monotonic
        self._lock = Lock()
        self._token = ""
        self._renew_at = 0.0

    def get_credentials(self) -> tuple[str, str]:
        """Give what valkey-py logs in with.

        Raises:
            FeatureStoreError: there are no AWS credentials or no region.

        """
        with self._lock:
            if not self._token or self._monotonic() >= self._renew_at:
                self._token = self._sign()
                self._renew_at = self._monotonic() + _RENEW_AFTER_S
            return self._user, self._token

    def _sign(self) -> str:
        credentials, region = self._session.get_credentials(), self._session.region_name
        if credentials is None or region is None:
            raise FeatureStoreError(
                "feature cache: got no AWS credentials or no region; allowed a role that may elasticache:Connect; "
                "set AWS_REGION and credentials"
            )
        emitter = self._session._session.get_component("event_emitter")  # noqa: SLF001 - as AWS's own example does: boto3 has no public way
        signer = RequestSigner(ServiceId(_SERVICE), region, _SERVICE, "v4", credentials, emitter)
        query = {"Action": "connect", "User": self._user}
        if self._serverless:
            query["ResourceType"] = "ServerlessCache"
        url = signer.generate_presigned_url(
            {
                "method": "GET",
                "url": f"https://{self._cache}/?{urlencode(query)}",
                "body": {},
                "headers": {},
                "context": {},
            },
            operation_name="connect",
            expires_in=TOKEN_S,
            region_name=region,
        )
        return str(url).removeprefix("https://")
