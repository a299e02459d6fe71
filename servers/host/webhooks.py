"""Sends what admins want to have sent out of the box: alerts, and signs of life.

Addresses are typed by admins only. http and https are asked, nowhere link-local (where clouds
keep the credentials of a machine), and no redirect is followed. Private addresses and loopback
are allowed: an ntfy server at home has one.
"""

import ipaddress
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

TIMEOUT = 10.0  # seconds for each step
ANSWER_LIMIT = 2048  # bytes of an answer that are read
# So long a service may ask to be left alone, in seconds.
LONGEST_WAIT = 3600.0

# Amazon's metadata over IPv6, which is not link-local.
_METADATA = (ipaddress.ip_network("fd00:ec2::254/128"),)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_MAY_PASS = (408, 425, 429)

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class WebhookError(Exception):
    """It was not taken; the text is fit for a person, and does not hold the address.

    `may_pass`: another try may succeed, after `wait` seconds where the other side says so.
    """

    def __init__(self, message: str, *, may_pass: bool, wait: float | None = None) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.wait = wait


def objection(address: str) -> str:
    """Why this is no address to send to, in a sentence; "" if it is one."""
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname or "", parts.port
        httpx.URL(address)
    except (ValueError, httpx.InvalidURL):
        return "This is no address: write one such as https://ntfy.example.org/gpu-box."
    if parts.scheme not in ("http", "https") or not host:
        return "Write the whole address, with https:// (or http://) before it."
    if any(each.isspace() for each in address):
        return "An address has no spaces."
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        return ""
    return "" if _is_allowed(literal) else _forbidden(host)


def host_of(address: str) -> str:
    """What may be shown of an address: with a path alone anybody could write there."""
    parts = urlsplit(address)
    return f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""


def post(address: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Raises WebhookError unless it is taken (2xx)."""
    _ask("POST", address, body, headers)


def ping(address: str) -> None:
    """Tell an address that misses us that we are there. Raises WebhookError."""
    _ask("GET", address, b"", {})


def _ask(method: str, address: str, body: bytes, headers: Mapping[str, str]) -> None:
    if said := objection(address):
        raise WebhookError(said, may_pass=False)
    url = httpx.URL(address)
    wanted = _Wanted(method=method, url=url, body=body, headers=headers)
    if _goes_by_proxy(url):
        _send(wanted, None)
        return
    found = _resolved(url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80))
    for number, each in enumerate(found, 1):
        try:
            _send(wanted, each)
            return
        except _UnreachableError:
            if number == len(found):
                raise


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    method: str
    url: httpx.URL
    body: bytes
    headers: Mapping[str, str]


class _UnreachableError(WebhookError):
    """Nothing was sent yet: the next of its addresses may be tried."""


def _send(wanted: _Wanted, to: Address | None) -> None:
    """`to` is the very address that was looked at: a name may mean another one a moment later.
    None: a proxy looks it up."""
    url, host = wanted.url, wanted.url.host
    headers = {"User-Agent": "inferdash", "Host": url.netloc.decode(), **wanted.headers}
    if url.userinfo:
        headers["Authorization"] = f"Basic {b64encode(unquote_to_bytes(url.userinfo)).decode()}"
    where = url.copy_with(userinfo=b"")
    if to is not None:
        where = where.copy_with(host=str(to))
    try:
        with httpx.Client(timeout=TIMEOUT, trust_env=to is None) as client:
            request = client.build_request(
                wanted.method,
                where,
                headers=headers,
                content=wanted.body,
                extensions={"sni_hostname": url.raw_host.decode()},
            )
            with closing(client.send(request, stream=True, follow_redirects=False)) as response:
                _judge(host, response, _begin_of(response))
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise _UnreachableError(_unreachable(host, error), may_pass=True) from error
    except httpx.TimeoutException as error:
        silence = f"{host} gave no answer within {TIMEOUT:.0f} s."
        raise WebhookError(silence, may_pass=True) from error
    except (httpx.TransportError, httpx.InvalidURL, httpx.DecodingError) as error:
        raise WebhookError(f"{host} broke off: {type(error).__name__}.", may_pass=True) from error


def _begin_of(response: httpx.Response) -> str:
    read = b""
    deadline = time.monotonic() + TIMEOUT
    for piece in response.iter_bytes(ANSWER_LIMIT):
        read += piece
        if len(read) >= ANSWER_LIMIT or time.monotonic() > deadline:
            break
    return " ".join(read[:ANSWER_LIMIT].decode(errors="replace").split())


def _judge(host: str, response: httpx.Response, said: str) -> None:
    status = response.status_code
    if response.is_success:
        return
    words = f"{host} answered {status} {response.reason_phrase}".rstrip()
    if said and not said.startswith("<"):
        words += f": {said[:200]}"
    if response.has_redirect_location:
        to = urlsplit(response.headers["Location"]).hostname or host
        raise WebhookError(
            f"{words}. It leads on to {to}, and redirects are not followed: enter the address where "
            "it ends.",
            may_pass=False,
        )
    if status in _MAY_PASS or status >= 500:
        wait = _wait(response.headers.get("Retry-After", ""), now=time.time())
        raise WebhookError(f"{words}.", may_pass=True, wait=wait)
    raise WebhookError(
        f"{words}. It will not take this later either: look at the address.", may_pass=False
    )


def _wait(said: str, *, now: float) -> float | None:
    """Seconds, from Retry-After's seconds or date; None where it says nothing."""
    try:
        seconds = float(said)
    except ValueError:
        try:
            when = parsedate_to_datetime(said)
        except ValueError:
            return None
        seconds = when.timestamp() - now
    return min(max(0.0, seconds), LONGEST_WAIT)


def _unreachable(host: str, error: httpx.TransportError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"The certificate of {host} is not accepted: {cause.verify_message}."
        if isinstance(cause, ssl.SSLError):
            return f"{host} does not speak TLS: is it http:// that it wants?"
        cause = cause.__cause__ or cause.__context__
    return f"{host} cannot be reached."


def _goes_by_proxy(url: httpx.URL) -> bool:
    """Whether the environment names a proxy for it; that one then resolves the name."""
    proxies = getproxies()
    named = url.scheme in proxies or "all" in proxies
    return named and not proxy_bypass(url.host)


def _resolved(host: str, port: int) -> list[Address]:
    try:
        told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WebhookError(f"Nobody knows the name {host}.", may_pass=True) from error
    found: list[Address] = []
    for each in told:
        address = ipaddress.ip_address(str(each[4][0]).partition("%")[0])
        if address not in found:
            found.append(address)
    allowed = [each for each in found if _is_allowed(each)]
    if not allowed:
        raise WebhookError(_forbidden(host), may_pass=False)
    return allowed


def _is_allowed(address: Address) -> bool:
    plain: Address = address
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            plain = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        else:
            plain = address.ipv4_mapped or address.sixtofour or address
    if plain.is_link_local or plain.is_multicast or plain.is_unspecified:
        return False
    return not any(plain in each for each in _METADATA if each.version == plain.version)


def _forbidden(host: str) -> str:
    return (
        f"{host} is an address of this machine's own network link, where clouds keep credentials: "
        "inferdash sends nothing there."
    )
