"""Payloads of notifications, one form for each kind of channel. Pure.

Slack: docs.slack.dev, block kit (3000 characters a section, 150 a header). Discord: webhook
resource (2000 characters of content, 256 and 4096 of an embed). ntfy: docs.ntfy.sh/publish
(4096 bytes of text; headers in RFC 2047 where they are not ASCII).
"""

import hashlib
import hmac
import json
import re
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from servers.launch import durations

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
    return f"{durations.format_moment(at, datetime.now(at.tzinfo))} {at:%Z}"


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
