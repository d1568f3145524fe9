"""The feature cache over Valkey's protocol: one round trip a read, and writes that never put an older row over a newer.

`valkey://` is for a server on this machine only; anything else is `valkeys://`: TLS with a checked name.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import valkey
from valkey.credentials import CredentialProvider

from serving.errors import FeatureStoreError
from serving.features.rows import WRITTEN_AT_OFFSET

POOL_CONNECTIONS = 128
SOCKET_TIMEOUT_S = 2.0
PAUSE_S = 1.0
"""After a connection that could not be made, reads fail at once for so long: each would wait as long for its own."""

WRITE_BATCH = 500
DEFAULT_PORT = 6379
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

# One row, atomically: an older one is skipped, the same one lives on, one of another shape is replaced.
_WRITE = f"""
local old = redis.call('GETRANGE', KEYS[1], 0, {WRITTEN_AT_OFFSET + 7})
if #old == {WRITTEN_AT_OFFSET + 8} and string.sub(old, 1, {WRITTEN_AT_OFFSET})
    == string.sub(ARGV[1], 1, {WRITTEN_AT_OFFSET}) then
  local there = struct.unpack('>I8', old, {WRITTEN_AT_OFFSET + 1})
  local given = struct.unpack('>I8', ARGV[1], {WRITTEN_AT_OFFSET + 1})
  if there > given then return 0 end
  if there == given then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""


def features_url(environ: Mapping[str, str]) -> str:
    """Give the cache's address: STREAMHUB_LOCAL_FEATURES_URL where it is set, else STREAMHUB_FEATURES_URL.

    Raises:
        FeatureStoreError: neither is set, or the address breaks the rules of `checked_url`.

    """
    local = environ.get("STREAMHUB_LOCAL_FEATURES_URL", "")
    url = local or environ.get("STREAMHUB_FEATURES_URL", "")
    if not url:
        raise FeatureStoreError(
            "STREAMHUB_FEATURES_URL: got nothing; allowed valkeys://host:port, or valkey://127.0.0.1:port; set it"
        )
    if local and urlsplit(local).hostname not in _LOOPBACK:
        raise FeatureStoreError(
            f"STREAMHUB_LOCAL_FEATURES_URL: got {local}; allowed a server on this machine; "
            f"use STREAMHUB_FEATURES_URL for another"
        )
    return checked_url(url)


def checked_url(url: str) -> str:
    """Give the address back.

    Raises:
        FeatureStoreError: another scheme, plain text to another machine, or a password in the address.

    """
    parts = urlsplit(url)
    if parts.scheme not in {"valkey", "valkeys"} or not parts.hostname:
        raise FeatureStoreError(
            f"feature cache: got {parts.scheme}://{parts.hostname}; allowed valkeys://host:port; correct the address"
        )
    if parts.username or parts.password or parts.path.strip("/") or parts.query:
        raise FeatureStoreError(
            f"feature cache: got more than host and port for {parts.hostname}; allowed scheme, host and port; "
            f"log-ins are IAM tokens"
        )
    if parts.scheme == "valkey" and parts.hostname not in _LOOPBACK:
        raise FeatureStoreError(
            f"feature cache: got valkey://{parts.hostname}; allowed valkey:// on this machine only; use valkeys://"
        )
    return url


def connect(url: str, *, login: CredentialProvider | None = None, timeout_s: float = SOCKET_TIMEOUT_S) -> valkey.Valkey:
    """Give a client with a pool; it connects with its first command, and waits `timeout_s` for that and for answers."""
    parts = urlsplit(checked_url(url))
    tls: dict[str, Any] = {"connection_class": valkey.Connection}
    if parts.scheme == "valkeys":
        tls = {"connection_class": valkey.SSLConnection, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
    pool = valkey.ConnectionPool(
        host=parts.hostname,
        port=parts.port if parts.port is not None else DEFAULT_PORT,
        max_connections=POOL_CONNECTIONS,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        credential_provider=login,
        **tls,
    )
    return valkey.Valkey(connection_pool=pool)


class ValkeyFeatures:
    """Reads and writes packed rows.

    `one_command` False sends a GET a key, still in one round trip: ElastiCache Serverless is a cluster, which refuses
    an MGET over slots (CROSSSLOT).
    """

    def __init__(
        self, client: valkey.Valkey, *, one_command: bool = True, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._one_command = one_command
        self._monotonic = monotonic
        self._paused_until_s = -math.inf

    def read(self, keys: Sequence[str], *, timeout_ms: float) -> Sequence[bytes | None]:
        """Read all keys in one round trip, None where missing.

        Raises:
            FeatureStoreError: no answer in time, or none at all.

        """
        if not keys:
            return []
        if timeout_ms <= 0:
            raise FeatureStoreError(
                f"feature cache: got {timeout_ms:.1f} ms left; allowed more than 0; too late to read"
            )
        connection = self._connection()
        try:
            return self._read(connection, keys, timeout_ms / 1000)
        except valkey.ResponseError as error:
            connection.disconnect()  # answers of later commands may still be under way
            raise _unreachable(error) from error
        except (valkey.ValkeyError, OSError) as error:
            connection.disconnect()
            raise _unreachable(error) from error
        finally:
            self._client.connection_pool.release(connection)

    def _connection(self) -> Any:  # noqa: ANN401 - valkey ships no types
        if self._monotonic() < self._paused_until_s:
            raise FeatureStoreError(
                f"feature cache: got no connection a moment ago; allowed one try in {PAUSE_S:g} s; see the first error"
            )
        try:
            return self._client.connection_pool.get_connection("MGET")
        except valkey.ValkeyError as error:
            self._paused_until_s = self._monotonic() + PAUSE_S
            raise _unreachable(error) from error

    def _read(self, connection: Any, keys: Sequence[str], timeout_s: float) -> list[bytes | None]:  # noqa: ANN401 - valkey ships no types
        if self._one_command:
            connection.send_command("MGET", *keys)
        else:
            connection.send_packed_command(connection.pack_commands([("GET", key) for key in keys]))
        if not connection.can_read(timeout=timeout_s):
            raise valkey.TimeoutError(f"no answer in {timeout_s * 1000:.0f} ms")
        if self._one_command:
            found: list[bytes | None] = connection.read_response()
            return found
        return [connection.read_response() for _ in keys]

    def write(self, rows: Iterable[tuple[str, bytes]], *, ttl_s: float) -> int:
        """Write rows that live for `ttl_s`; give how many were newer than what was there.

        Raises:
            FeatureStoreError: the cache cannot be written; what was written before stays.

        """
        ttl_ms = max(int(ttl_s * 1000), 1)
        newer = 0
        try:
            for batch in _batches(rows):
                pipeline = self._client.pipeline(transaction=False)
                for key, row in batch:
                    pipeline.execute_command("EVAL", _WRITE, 1, key, row, ttl_ms)  # type: ignore[no-untyped-call]
                newer += sum(pipeline.execute())  # type: ignore[no-untyped-call]
        except (valkey.ValkeyError, OSError) as error:
            raise _unreachable(error) from error
        return newer

    def keys(self, pattern: str, *, limit: int) -> list[str]:
        """Give up to `limit` keys that match a glob pattern, or raise FeatureStoreError."""
        try:
            found = islice(self._client.scan_iter(match=pattern, count=WRITE_BATCH), limit)
            return [key.decode() for key in found]
        except (valkey.ValkeyError, OSError) as error:
            raise _unreachable(error) from error

    def close(self) -> None:
        """Close all connections."""
        self._client.close()  # type: ignore[no-untyped-call]
        self._client.connection_pool.disconnect()


def _batches(rows: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, WRITE_BATCH)):
        yield batch


def _unreachable(error: Exception) -> FeatureStoreError:
    return FeatureStoreError(
        f"feature cache: got {error}; allowed a Valkey server that answers; "
        f"check STREAMHUB_FEATURES_URL and that the server runs"
    )
