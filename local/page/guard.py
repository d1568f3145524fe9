"""Who may ask the page's server: this machine's browser, from the page itself.

The stack has no login, so two things protect it from other sites in the same browser. A name of ours in `Host` stops
DNS rebinding (a foreign name that resolves to 127.0.0.1). What changes anything must be JSON, carry our own header and
come from our own origin, which no form and no simple cross-site request can do (OWASP, *Cross-Site Request Forgery
Prevention*: custom request headers; Fetch standard, CORS-safelisted request headers).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from local.page.document import short

OURS: Final = "x-streamhub-page"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SAME: Final = frozenset({"same-origin", "none"})
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def refuse_foreign(headers: Mapping[str, str]) -> str:
    """Say why a request may not be answered at all; "" when it may.

    Args:
        headers: by lower-case name.

    """
    host = headers.get("host", "")
    if _name(host) not in _LOOPBACK:
        return f"Host: got {_told(host)}; allowed 127.0.0.1 or localhost; open the page by its own address"
    if headers.get("sec-fetch-site", "none") not in _SAME:
        return f"Sec-Fetch-Site: got {_told(headers['sec-fetch-site'])}; allowed same-origin; another site may not ask"
    return ""


def refuse_change(headers: Mapping[str, str]) -> str:
    """Say why a request may not change anything; "" when it may.

    Args:
        headers: by lower-case name, of a request that `refuse_foreign` let through.

    """
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        return f"Content-Type: got {_told(headers.get('content-type', ''))}; allowed application/json; send JSON"
    if headers.get(OURS) != "1":
        return f"X-StreamHub-Page: got {_told(headers.get(OURS, ''))}; allowed 1; only the page itself may ask for this"
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"http://{headers['host'].lower()}":
        return f"Origin: got {_told(origin)}; allowed http://{headers['host']}; only the page itself may ask for this"
    return ""


def _name(host: str) -> str:
    try:
        found = urlsplit(f"//{host}")
    except ValueError:
        return ""
    return "" if "@" in host else found.hostname or ""


def _told(value: str) -> str:
    return short(value) or "none"
