"""A client of the deployed HTTP API, which takes only requests that are signed for IAM."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import urllib3
from botocore.awsrequest import AWSRequest

from serving.aws.session import signer
from serving.errors import EndpointError

_SERVICE = "execute-api"


class SignedApi:
    """Posts JSON to an HTTP API, signed with the environment's credentials.

    Source: API Gateway developer guide, *http-api-access-control-iam*.
    """

    def __init__(self, base_url: str, *, timeout_s: float) -> None:
        self._signer = signer(_SERVICE)
        self._base_url = base_url
        self._pool = urllib3.PoolManager(retries=False, timeout=timeout_s)

    def post(self, route: str, body: Mapping[str, object]) -> tuple[int, dict[str, object]]:
        """Give HTTP status and JSON document of one call.

        Raises:
            EndpointError: no answer came, or one that is no JSON object.

        """
        url = f"{self._base_url}{route}"
        request = AWSRequest(
            method="POST",
            url=url,
            data=orjson.dumps(body),
            headers={"Content-Type": "application/json"},
        )
        self._signer.add_auth(request)
        try:
            response = self._pool.request("POST", url, body=request.data, headers=dict(request.headers.items()))
            document = orjson.loads(response.data)
        except (urllib3.exceptions.HTTPError, orjson.JSONDecodeError) as error:
            raise EndpointError(f"HTTP API: POST {route}: {error}") from None
        if not isinstance(document, dict):
            raise EndpointError(f"HTTP API: POST {route}: got {type(document).__name__}; allowed a JSON object")
        return response.status, document
