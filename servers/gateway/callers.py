"""Callers of the gateway: what they may, what they are told where they are refused, and which program asks."""

import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from servers.launch.tables import load_yaml
from servers.models import Key, LegacyPort, Permission
from servers.models.gateway.request import plain
from servers.models.people.key import PREFIX, digest_of

type Scope = MutableMapping[str, Any]
type Message = Mapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[[Any, Any, Any], Awaitable[None]]


ANTHROPIC = "/v1/messages"
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


@dataclass
class Refusal(Exception):
    """`message` says what, of which server, and what to do; it is what is kept."""

    status: int
    code: str
    message: str
    retry_after: int | None = None  # seconds
    server: str = field(default="", kw_only=True)
    # What the caller is told in its place, who may not read logs and figures; "": the message.
    brief: str = field(default="", kw_only=True)

    def body(self, path: str) -> bytes:
        """In the shape of the API that was asked for."""
        kind = TYPES.get(self.status, "api_error")
        says = self.brief or self.message
        if path.startswith(ANTHROPIC):
            return json.dumps({"type": "error", "error": {"type": kind, "message": says}}).encode()
        error = {"message": says, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error}).encode()

    def event(self, path: str) -> bytes:
        """For a stream that has begun. The blank line ends whatever it was cut off in."""
        name = b"event: error\n" if path.startswith(ANTHROPIC) else b""
        return b"\n\n" + name + b"data: " + self.body(path) + b"\n\n"

    async def answer(self, send: Send, path: str, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        body = self.body(path)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            # Anthropic's shape has no place for it; and engines' own refusals do not have it.
            (b"x-inferdash-error", self.code.encode()),
            *more,
        ]
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


# Seconds. A key that is revoked, or whose person may not chat any more, ends within this.
REMEMBERED = 5.0
# So many keys, wrong ones too, that nobody can fill the memory with them.
MOST = 1000
MINUTE = 60.0


@dataclass(frozen=True, kw_only=True)
class Caller:
    key: int | None  # None: it needed none, on a legacy port
    person: int
    sees_causes: bool = False  # it may be told what stands in logs, and what is free on a box
    models: frozenset[str] = frozenset()  # empty: all
    per_minute: int | None = None  # requests; None: as many as it likes

    def may_ask(self, names: Iterable[str]) -> bool:
        """A server by any of its names."""
        return not self.models or not self.models.isdisjoint(names)


def not_allowed(caller: Caller, server: str) -> Refusal:
    allowed = ", ".join(sorted(caller.models))
    return Refusal(
        403, "model_not_allowed", f"This key may not use {server}, only {allowed}.", server=server
    )


class Callers:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Caller | None, float]] = {}
        self._asked: dict[int, deque[float]] = {}  # by key, when in the last minute

    async def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """Raises Refusal."""
        token = _token(headers)
        if not token:
            raise Refusal(
                401, "no_key",
                "This needs a key: Authorization: Bearer ifd_… (or x-api-key). Make one on the "
                "page “Keys” of inferdash.",
            )  # fmt: skip
        digest = digest_of(token)
        caller, until = self._known.get(digest, (None, 0.0))
        if until < time.monotonic():
            caller = await sync_to_async(_look)(token)
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[digest] = caller, time.monotonic() + REMEMBERED
        if caller is None:
            raise Refusal(
                401, "invalid_api_key",
                "This key is not known, has ended, was revoked, or may only look. Make one on the "
                "page “Keys” of inferdash with access to models.",
            )  # fmt: skip
        return caller

    def count(self, caller: Caller) -> None:
        """Raises Refusal for one request more than the key may make in a minute."""
        if caller.per_minute is None or caller.key is None:
            return
        now = time.monotonic()
        asked = self._asked.setdefault(caller.key, deque())
        while asked and asked[0] <= now - MINUTE:
            asked.popleft()
        if len(asked) >= caller.per_minute:
            wait = math.ceil(asked[0] + MINUTE - now)
            raise Refusal(
                429, "rate_limited",
                f"This key may make {caller.per_minute} request{'s' if caller.per_minute > 1 else ''} a "
                f"minute. Try again in {wait} s.",
                wait,
            )  # fmt: skip
        asked.append(now)


def brings_key(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """One of ours: what programs need not have, they may send nonetheless ("EMPTY")."""
    return _token(headers).startswith(PREFIX)


def _token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """By the names that OpenAI's and Anthropic's clients use; "" without one."""
    for name, value in headers:
        token = value.decode("latin-1")
        if name == b"authorization":
            scheme, _, token = token.partition(" ")
            token = token if scheme.casefold() == "bearer" else ""
        elif name != b"x-api-key":
            continue
        if token.strip():
            return token.strip()
    return ""


def _look(token: str) -> Caller | None:
    key = Key.objects.for_token(token)
    if key is None or not key.may(Permission.CHAT):
        return None
    Key.objects.note_use(key)
    return Caller(
        key=key.pk,
        person=key.person_id,
        sees_causes=key.person.may(Permission.VIEW),
        models=frozenset(key.models_allowed),
        per_minute=key.requests_per_minute,
    )


# Under these nobody can register a name: RFC 6762, RFC 8375, RFC 2606, and what ICANN has set aside.
_LOCAL = (
    *(".local", ".home.arpa", ".test", ".localhost", ".internal"),
    *(".lan", ".home", ".corp", ".localdomain", ".intranet", ".private"),
)


def unknown_host(scope: Scope) -> Refusal | None:
    """Why the name that was asked for is refused, as the pages refuse it; None where it is not.

    A page that somebody opens could have its own name lead to this box (DNS rebinding), and then
    ask here as if it were of this site.
    """
    host = _read_host_header(scope)
    if host is None:
        host = str((scope.get("server") or ("",))[0])
        host = f"[{host}]" if ":" in host else host
    domain, _port = split_domain_port(host)
    if domain and validate_host(domain, settings.ALLOWED_HOSTS):
        return None
    shown = domain or host[:200]
    return Refusal(
        400, "host_unknown",
        f"inferdash was not told that it is called “{shown}”. Ask by a name or address that it "
        f"knows, or have it added: INFERDASH_ALLOWED_HOSTS={shown}, then start it again.",
    )  # fmt: skip


def without_port(scope: Scope) -> str:
    """The name that was asked for; "" where a program says none, which browsers always do."""
    host = (_read_host_header(scope) or "").casefold()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def is_ours(host: str) -> bool:
    """Not a name that somebody out there could own, and let lead to this box (DNS rebinding)."""
    name = host.rstrip(".")
    if "." not in name or name.endswith(_LOCAL) or validate_host(name, settings.ALLOWED_HOSTS):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _read_host_header(scope: Scope) -> str | None:
    said = next((value for name, value in scope["headers"] if name == b"host"), None)
    return None if said is None else said.decode("latin-1")


@dataclass(frozen=True, kw_only=True)
class LegacyPortListener:
    pk: int
    port: int
    model: str  # asked for where a request names nothing that is known; "": nothing
    sources: tuple[IPv4Network | IPv6Network, ...]
    person: int | None  # in whose name programs ask without a key; None: they may not
    sees_causes: bool  # as that person does

    @classmethod
    def from_row(cls, row: LegacyPort) -> "LegacyPortListener":
        return cls(
            pk=row.pk,
            port=row.port,
            model=row.model,
            sources=tuple(ip_network(each) for each in row.sources),
            person=row.made_by_id if row.needs_no_key else None,
            sees_causes=row.made_by is not None and row.made_by.may(Permission.VIEW),
        )

    def caller(self, scope: Scope) -> Caller | None:
        """Who comes from a listed address, without a key; None: with one, or from elsewhere.

        Raises Refusal.
        """
        client = scope.get("client")
        if self.person is None or not client or brings_key(scope["headers"]):
            return None
        if not any(plain(client[0]) in source for source in self.sources):
            return None
        if any(name == b"origin" for name, _value in scope["headers"]):
            # Any page that somebody of the network opens could ask in its place.
            raise Refusal(
                403, "browser_refused",
                "Browsers need a key, also from here. Programs that are none do not.",
            )  # fmt: skip
        if not is_ours(host := without_port(scope)):
            raise Refusal(
                403, "host_unknown",
                f"Nobody is asked as “{host[:200]}” without a key: a page of a browser could have "
                "led here by a name of its own. Ask by the box's address, use a key, or have the "
                "name added to INFERDASH_ALLOWED_HOSTS.",
            )  # fmt: skip
        return Caller(key=None, person=self.person, sees_causes=self.sees_causes)


def source_of(scope: Scope) -> str | None:
    """The address that a request came from."""
    client = scope.get("client")
    return str(plain(client[0])) if client else None


KEY = "ifd_…"  # where a person puts theirs
_MODEL = "@model@"  # where the model's name stands


@dataclass(frozen=True, kw_only=True)
class ClientExample:
    """One of clients.yaml."""

    slug: str
    name: str
    says: str
    text: str
    model: str
    asks: str = "chat"

    @property
    def pieces(self) -> list[str]:
        """The lines, parted where the model's name stands."""
        return self.text.split(_MODEL)

    @property
    def lines(self) -> str:
        return self.model.join(self.pieces)


def clients(address: str, model: str) -> list[ClientExample]:
    """`address` without a path, as the person who reads this reaches it."""
    made = []
    for told in _read_examples():
        text = told["text"].replace("@address@", address).replace("@key@", KEY)
        made.append(ClientExample(**{**told, "text": text, "model": model}))
    return made


@cache
def _read_examples() -> list[dict[str, str]]:
    found: list[dict[str, str]] = load_yaml(
        Path(__file__).with_name("clients.yaml").read_text(encoding="utf-8")
    )
    return found
