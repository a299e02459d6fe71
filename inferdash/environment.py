"""Variables of the environment: .env files, and which addresses of Redis are safe."""

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def read_env_file(path: Path, *, fills_blanks: bool = False) -> None:
    """Do nothing where there is no such file. `fills_blanks`: what is set to nothing counts as not
    set."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read ({error}).") from error
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ImproperlyConfigured(f"{path}, line {number}: write NAME=value, or # before it.")
        if fills_blanks and not os.environ.get(match[1], "").strip():
            os.environ.pop(match[1], None)
        os.environ.setdefault(match[1], _unquote(match[2]))


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return re.sub(r"\s+#.*", "", value)


REFUSAL = (
    "REDIS_URL names a Redis on another machine without a password or without TLS: whoever reaches "
    "it, or the way to it, could give the worker orders. Write rediss://:PASSWORD@HOST:6379/0. "
    "Where nobody else reaches that network, set INFERDASH_REDIS_OPEN=True."
)

_NO = ("false", "f", "no", "n", "0")


def is_open(url: str) -> bool:
    """A socket and this machine's own addresses are not."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or _is_here(parts.hostname or "localhost"):
        return False
    query = dict(parse_qsl(parts.query))
    has_password = bool(parts.password or query.get("password", ""))
    is_checked = query.get("ssl_cert_reqs", "required").lower() not in ("none", "cert_none")
    is_for_its_host = query.get("ssl_check_hostname", "true").lower() not in _NO
    return not (has_password and parts.scheme == "rediss" and is_checked and is_for_its_host)


def with_tls(url: str, authority: str) -> str:
    """The address as every client understands it: Celery's looks at a certificate only where the
    query says so, and would else give the password to whoever stands in the way.

    `authority` is a file with the certificates that are trusted, "" for those of the system. Raises
    ValueError, with a sentence.
    """
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        if authority:
            raise ValueError("REDIS_CA is for a Redis with TLS: write REDIS_URL=rediss://…")
        return url
    query = {"ssl_cert_reqs": "required", **dict(parse_qsl(parts.query))}
    if authority:
        if not Path(authority).is_file():
            raise ValueError(f"REDIS_CA names {authority}, which is no file.")
        query["ssl_ca_certs"] = authority
    return urlunsplit(parts._replace(query=urlencode(query, safe="/:")))


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
