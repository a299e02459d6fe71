"""Callers by their keys, cached for a while."""

import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from asgiref.sync import sync_to_async

from servers.gateway.refusal import Refusal
from servers.models import Key, Permission
from servers.models.people.key import PREFIX, digest_of

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
        403, "model_not_allowed", f"This key may not ask {server}, only {allowed}.", server=server
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
                "page “Keys” of inferdash that may ask models.",
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
                f"minute. Ask again in {wait} s.",
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
