"""The cache's address and log-in: plain text on this machine only, and an IAM token that AWS would accept elsewhere."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
import valkey

from serving.aws.cache_login import CacheLogin
from serving.aws.features import ValkeyFeatures, checked_url, connect, features_url
from serving.errors import FeatureStoreError


@pytest.mark.parametrize("url", ["valkey://127.0.0.1:6379", "valkey://localhost:1", "valkeys://cache.example:6379"])
def test_allowed_addresses(url: str) -> None:
    assert checked_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "valkey://10.0.0.5:6379",
        "valkey://127.0.0.1.example.com:6379",
        "redis://127.0.0.1:6379",
        "http://127.0.0.1",
        "valkeys://",
        "127.0.0.1:6379",
        "valkeys://user:secret@cache.example:6379",
        "valkeys://cache.example:6379/0",
    ],
)
def test_refused_addresses(url: str) -> None:
    with pytest.raises(FeatureStoreError) as caught:
        checked_url(url)
    assert "secret" not in str(caught.value)


def test_the_local_address_wins_and_is_of_this_machine() -> None:
    far, near = "valkeys://cache.example:6379", "valkey://127.0.0.1:7000"
    assert features_url({"STREAMHUB_FEATURES_URL": far}) == far
    assert features_url({"STREAMHUB_FEATURES_URL": far, "STREAMHUB_LOCAL_FEATURES_URL": near}) == near
    with pytest.raises(FeatureStoreError, match="this machine"):
        features_url({"STREAMHUB_LOCAL_FEATURES_URL": far})
    with pytest.raises(FeatureStoreError, match="set it"):
        features_url({})


def test_tls_checks_certificate_and_name() -> None:
    pool = connect("valkeys://cache.example:6379").connection_pool
    assert pool.connection_class is valkey.SSLConnection
    assert pool.connection_kwargs["ssl_cert_reqs"] == "required"
    assert pool.connection_kwargs["ssl_check_hostname"] is True
    assert connect("valkey://127.0.0.1:1").connection_pool.connection_class is valkey.Connection


class Seconds:
    """A monotonic clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Unreachable(valkey.ConnectionPool):
    """A pool to a server that takes no connection."""

    tries = 0

    def get_connection(self, command_name: str, *keys: str, **options: object) -> valkey.Connection:
        del command_name, keys, options
        self.tries += 1
        raise valkey.TimeoutError("Timeout connecting to server")


def test_a_cache_that_takes_no_connection_costs_one_request_a_second_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, client = Seconds(), connect("valkey://127.0.0.1:1")
    pool = Unreachable()
    monkeypatch.setattr(client, "connection_pool", pool)
    store = ValkeyFeatures(client, monotonic=seconds)
    for seconds.now in (0.0, 0.01, 0.9, 1.0, 1.5):
        with pytest.raises(FeatureStoreError):
            store.read(["a"], timeout_ms=10)
    assert pool.tries == 2


def login(seconds: Seconds, *, serverless: bool = True) -> CacheLogin:
    session = boto3.Session(
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="example",  # noqa: S106 - signs nothing real
        region_name="eu-west-1",
    )
    return CacheLogin(
        cache="streamhub-dev-features", user="reader", serverless=serverless, session=session, monotonic=seconds
    )


def test_the_token_is_a_presigned_connect_for_fifteen_minutes() -> None:
    user, token = login(Seconds()).get_credentials()
    assert user == "reader"
    parts = urlsplit(f"https://{token}")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert (parts.netloc, parts.path) == ("streamhub-dev-features", "/")
    # ElastiCache user guide, auth-iam
    assert {name: query[name] for name in ("Action", "User", "ResourceType", "X-Amz-Expires")} == {
        "Action": "connect",
        "User": "reader",
        "ResourceType": "ServerlessCache",
        "X-Amz-Expires": "900",
    }
    assert query["X-Amz-Credential"].endswith("/eu-west-1/elasticache/aws4_request")


def test_the_signature_is_signature_version_4_of_that_request() -> None:
    """By hand, from *Signature Version 4: signing with query parameters* of the AWS general reference."""
    _, token = login(Seconds()).get_credentials()
    text, _, signature = token.partition("?")[2].partition("&X-Amz-Signature=")
    canonical_query = "&".join(sorted(text.split("&")))
    empty = hashlib.sha256(b"").hexdigest()
    canonical = f"GET\n/\n{canonical_query}\nhost:streamhub-dev-features\n\nhost\n{empty}"
    at = parse_qs(text)["X-Amz-Date"][0]
    scope = f"{at[:8]}/eu-west-1/elasticache/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4example"
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    assert signature == hmac.new(key, to_sign.encode(), "sha256").hexdigest()


def test_a_replication_group_names_no_resource_type() -> None:
    assert "ResourceType" not in login(Seconds(), serverless=False).get_credentials()[1]


def test_a_token_is_used_for_ten_minutes_and_then_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = Seconds()
    made = login(seconds)
    signed: list[float] = []
    monkeypatch.setattr(made, "_sign", lambda: signed.append(seconds.now) or f"token-{seconds.now}")
    tokens = []
    for seconds.now in (0.0, 599.0, 600.0, 1_000.0, 1_200.0):
        tokens.append(made.get_credentials()[1])
    assert tokens == ["token-0.0", "token-0.0", "token-600.0", "token-600.0", "token-1200.0"]
    assert signed == [0.0, 600.0, 1_200.0]


def test_without_credentials_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    session = boto3.Session(region_name="eu-west-1")
    monkeypatch.setattr(session, "get_credentials", lambda: None)
    with pytest.raises(FeatureStoreError, match="elasticache:Connect"):
        CacheLogin(cache="c", user="u", serverless=True, session=session).get_credentials()
