"""Whether anybody on the network could push messages into a Redis, or read what passes through it."""

import ipaddress
from urllib.parse import parse_qs, urlsplit

REFUSAL = (
    "REDIS_URL names a Redis on another machine without a password or without TLS: whoever reaches "
    "it, or the way to it, could give the worker orders. Write rediss://:PASSWORD@HOST:6379/0. "
    "Where nobody else reaches that network, set INFERDASH_REDIS_OPEN=True."
)


def is_open(url: str) -> bool:
    """A socket and this machine's own addresses are not."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or _is_here(parts.hostname or "localhost"):
        return False
    query = parse_qs(parts.query)
    has_password = bool(parts.password or query.get("password", [""])[0])
    is_checked = query.get("ssl_cert_reqs", ["required"])[0].lower() not in ("none", "cert_none")
    return not (has_password and parts.scheme == "rediss" and is_checked)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
