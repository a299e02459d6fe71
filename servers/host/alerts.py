"""HTTP requests to notification channels: payloads, one form for each kind of channel, and heartbeats.

Slack: docs.slack.dev, block kit (3000 characters a section, 150 a header). Discord: webhook
resource (2000 characters of content, 256 and 4096 of an embed). ntfy: docs.ntfy.sh/publish
(4096 bytes of text; headers in RFC 2047 where they are not ASCII).

Addresses are typed by admins only. http and https are asked, nowhere link-local (where clouds
keep the credentials of a machine), and no redirect is followed. Private addresses and loopback
are allowed: an ntfy server at home has one.
"""

import hashlib
import hmac
import ipaddress
import json
import re
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import httpx

from servers.host.http import bounded
from servers.host.http.bounded import (
    Address,
    BoundedResponse,
    BoundsError,
    Outside,
    UnknownNameError,
)
from servers.launch import numbers

SCHEMA = 1  # of the generic JSON; counted up when a field changes its meaning
AGENT = "inferdash"

_COLOURS = {"info": 0x2F6FDE, "warning": 0xB7791F, "critical": 0xC53030}
_OVER = 0x2F855A
_PRIORITY = {"info": "3", "warning": "4", "critical": "5"}
_TAGS = {"info": "information_source", "warning": "warning", "critical": "rotating_light"}


@dataclass(frozen=True, kw_only=True)
class AlertMessage:
    """An alert on its way out. Moments are ISO 8601 with their zone; None: not yet."""

    id: str  # the same for all messages about one alert
    event: str  # raised, worse, cleared, test
    kind: str
    severity: str
    title: str
    detail: str = ""
    memory: str = ""
    advice: str = ""
    box: str = ""
    server: str = ""
    checkpoint: str = ""
    since: str
    until: str | None = None
    url: str

    @property
    def headline(self) -> str:
        before = {"cleared": "Over: ", "worse": "Worse: "}.get(self.event, "")
        return before + self.title

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """What happened, what became of the memory, what to do, and since when."""
        until = f", over since {_readable(self.until)}" if self.until else ""
        when = f"Since {_readable(self.since)}{until}." if self.event != "test" else ""
        said = (self.detail, self.memory, "" if self.until else self.advice, when)
        return tuple(part for part in said if part)

    @property
    def text(self) -> str:
        return "\n".join((*self.paragraphs, self.url))


def _readable(moment: str) -> str:
    """ "21 Nov 20:00 UTC"."""
    at = datetime.fromisoformat(moment)
    return f"{numbers.format_moment(at, datetime.now(at.tzinfo))} {at:%Z}"


@dataclass(frozen=True, kw_only=True)
class Payload:
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def build_payload(kind: str, message: AlertMessage, *, key: str = "", now: float) -> Payload:
    """`kind`: json, slack, discord or ntfy. `key` signs JSON, and lets in at ntfy; "" for none.
    `now` is unix seconds. Raises KeyError for any other kind."""
    match kind:
        case "json":
            return _generic(message, key, now)
        case "slack":
            return _json(_slack(message))
        case "discord":
            return _json(_discord(message))
        case "ntfy":
            return _ntfy(message, key)
    raise KeyError(kind)


def _json(said: dict[str, Any]) -> Payload:
    body = json.dumps(said, ensure_ascii=False).encode()
    return Payload(body=body, headers={"Content-Type": "application/json; charset=utf-8"})


def _generic(message: AlertMessage, key: str, now: float) -> Payload:
    fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
    made = _json({"schema": SCHEMA, "from": AGENT, **fields})
    if not key:
        return made
    stamp = str(int(now))
    signed = hmac.new(key.encode(), stamp.encode() + b"." + made.body, hashlib.sha256)
    headers = {
        **made.headers,
        "X-Inferdash-Timestamp": stamp,
        "X-Inferdash-Signature": f"sha256={signed.hexdigest()}",
    }
    return Payload(body=made.body, headers=headers)


def _slack(message: AlertMessage) -> dict[str, Any]:
    lines = "\n".join(map(_slack_text, message.paragraphs))
    title = f"*<{message.url}|{_slack_text(_cut(message.headline, 500))}>*"
    return {
        "text": _slack_text(_cut(message.headline, 500)),
        "unfurl_links": False,
        "blocks": [
            {
                "type": "section",
                "text": {"type": "mrkdwn", "text": _cut(f"{title}\n{lines}", 2900)},
            }
        ],
    }


def _slack_text(text: str) -> str:
    """Without what Slack reads as a link or a call of people."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord(message: AlertMessage) -> dict[str, Any]:
    colour = _OVER if message.event == "cleared" else _COLOURS.get(message.severity, 0)
    return {
        "username": AGENT,
        "content": _cut(_markdown(message.headline), 1900),
        # Nobody is called by what stands in a log.
        "allowed_mentions": {"parse": []},
        "embeds": [
            {
                "title": _cut(message.headline, 250),
                "url": message.url,
                "description": _cut("\n".join(map(_markdown, message.paragraphs)), 4000),
                "color": colour,
            }
        ],
    }


def _markdown(text: str) -> str:
    return re.sub(r"([\\*_~`|>\[\]#-])", r"\\\1", text)


def _ntfy(message: AlertMessage, key: str) -> Payload:
    is_over = message.event == "cleared"
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Title": _header(message.headline),
        "Priority": "3" if is_over else _PRIORITY.get(message.severity, "3"),
        "Tags": "white_check_mark" if is_over else _TAGS.get(message.severity, "bell"),
        "Click": message.url,
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    body = "\n".join(message.paragraphs) or message.title
    return Payload(body=_cut_bytes(body, 4000), headers=headers)


def _header(text: str) -> str:
    """One line; in RFC 2047 where it is not ASCII."""
    line = _cut(" ".join(text.split()), 250)
    if line.isascii():
        return line
    return f"=?UTF-8?B?{b64encode(line.encode()).decode()}?="


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cut_bytes(text: str, most: int) -> bytes:
    body = text.encode()
    return (
        body if len(body) <= most else body[:most].decode(errors="ignore").encode() + "…".encode()
    )


WITHIN = 10.0  # seconds for a message with its answer
ANSWER_LIMIT = 2048  # bytes of an answer that are read
# So long a service may ask to be left alone, in seconds.
LONGEST_WAIT = 3600.0

_MAY_PASS = (408, 425, 429)


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
    return _forbidden(host) if bounded.is_of_the_link(literal) else ""


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
    found = None if bounded.goes_by_proxy(url) else _resolve(url)
    _send(method, url, body, headers, found)


def _send(
    method: str,
    url: httpx.URL,
    body: bytes,
    headers: Mapping[str, str],
    found: Sequence[Address] | None,
) -> None:
    """`found` are the addresses that were looked at; None: a proxy looks them up."""
    host = url.host
    told = {"User-Agent": "inferdash", **headers}
    if url.userinfo:
        told["Authorization"] = f"Basic {b64encode(unquote_to_bytes(url.userinfo)).decode()}"
    try:
        with Outside(within=WITHIN, silence=WITHIN, is_direct=found is not None) as outside:
            got = outside.ask(
                method,
                url.copy_with(userinfo=b""),
                most=ANSWER_LIMIT,
                is_cut=True,
                at=found,
                headers=told,
                content=body,
            )
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise WebhookError(_unreachable(host, error), may_pass=True) from error
    except (httpx.TimeoutException, BoundsError) as error:
        silence = f"{host} gave no answer within {WITHIN:.0f} s."
        raise WebhookError(silence, may_pass=True) from error
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise WebhookError(f"{host} broke off: {type(error).__name__}.", may_pass=True) from error
    _judge(host, got)


def _judge(host: str, got: BoundedResponse) -> None:
    if got.is_success:
        return
    status, said = got.status, " ".join(got.body.decode(errors="replace").split())
    words = f"{host} answered {status} {got.reason}".rstrip()
    if said and not said.startswith("<"):
        words += f": {said[:200]}"
    if got.leads_to is not None:
        to = got.leads_to
        raise WebhookError(
            f"{words}. It leads on to {to.scheme}://{host_of(str(to))}, and redirects are not followed: enter the address where "
            "it ends.",
            may_pass=False,
        )
    if status in _MAY_PASS or status >= 500:
        wait = _wait(got.headers.get("Retry-After", ""), now=time.time())
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
        except (ValueError, OverflowError):
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


def _resolve(url: httpx.URL) -> list[Address]:
    host = url.raw_host.decode()
    try:
        found = bounded.resolve_address(host, bounded.port_of(url))
    except UnknownNameError as error:
        raise WebhookError(f"Nobody knows the name {host}.", may_pass=True) from error
    allowed = [each for each in found if not bounded.is_of_the_link(each)]
    if not allowed:
        raise WebhookError(_forbidden(host), may_pass=False)
    return allowed


def _forbidden(host: str) -> str:
    return (
        f"{host} is an address of this machine's own network link, where clouds keep credentials: "
        "inferdash sends nothing there."
    )
