"""A conversation as a browser sends it, within limits."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from servers.forms.chat_messages import MESSAGES_LIMIT
from servers.launch import numbers

# Bytes. One message with its pictures; one request, which inferdash.limits bounds as well.
MESSAGE_LIMIT = 6 * 2**20
BODY_LIMIT = 8 * 2**20
AROUND_LIMIT = 256 * 2**10  # of parameters, tools and schema together
COLUMNS = 4  # of a comparison
# What browsers make: conversations by the time, revisions at random.
KEY = re.compile(r"[a-z0-9]{6,32}")
# As JSON writes it, and not the six characters themselves, before which stands one more backslash.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class KeepError(Exception):
    """It cannot be kept so; the text says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One save: what has changed since the revisions that it names."""

    was: frozenset[str]  # any of them; empty: it is new
    revision: str
    name: str
    server: str
    comparison: str  # "": none
    column: int
    params: Any
    tools: Any
    schema: Any
    count: int  # messages that there are then
    messages: dict[int, dict[str, Any]]  # by place
    leaf: int | None  # place of the message that it is shown up to; None: the last
    updated: datetime | None  # of one that is older than this save


def read(text: bytes) -> Kept:
    """Raises KeepError."""
    if len(text) > BODY_LIMIT:
        raise KeepError(
            f"This is more than is kept in one go: {BODY_LIMIT >> 20} MiB. Remove pictures from it."
        )
    body = read_json(text)
    if not isinstance(body, dict):
        raise KeepError("This is no conversation. Reload the page.")
    around = {name: body.get(name) for name in ("params", "tools", "schema")}
    if len(json.dumps(around)) > AROUND_LIMIT:
        raise KeepError(
            f"Parameters, tools and schema are larger than {AROUND_LIMIT >> 10} KiB together. "
            "Shorten them."
        )
    was, count, messages = body.get("was"), body.get("count"), body.get("messages")
    comparison, column = body.get("comparison") or "", body.get("column") or 0
    if (
        not isinstance(was, list)
        or not all(_is_key(each) for each in was)
        or not _is_key(body.get("revision"))
        or not isinstance(count, int)
        or not isinstance(messages, dict)
        or not (comparison == "" or _is_key(comparison))
        or column not in range(COLUMNS)
    ):
        raise KeepError("This is no conversation. Reload the page.")
    if not 0 <= count <= MESSAGES_LIMIT:
        raise KeepError(
            f"The conversation has {count} messages, and {MESSAGES_LIMIT} is the limit. Start a "
            "new one."
        )
    return Kept(
        was=frozenset(was),
        revision=body["revision"],
        name=_line(body.get("name"), 80),
        server=_line(body.get("server"), 80),
        comparison=comparison,
        column=int(column),
        params=around["params"] or {},
        tools=around["tools"],
        schema=around["schema"],
        count=count,
        messages={
            _place(at, count): _find_parent(at, message(at, each)) for at, each in messages.items()
        },
        leaf=_leaf(body.get("leaf"), count),
        updated=_moment(body.get("updated")),
    )


def read_json(text: bytes) -> Any:
    try:
        # PostgreSQL keeps no NUL in JSON.
        said = _NUL.sub(rb"\1\\ufffd", text)
        return whole(json.loads(said, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise KeepError(f"The conversation is not JSON: {error}. Reload the page.") from error


def whole(said: Any) -> Any:
    """The same without halves of characters, as a browser makes of a text that it cuts: no database
    keeps those, and no engine reads them."""
    text = json.dumps(said, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode(errors="replace"))
    return said


def _place(at: str, count: int) -> int:
    place = numbers.whole(at)
    if place is None or place >= count:
        raise KeepError("A message has no place in the conversation. Reload the page.")
    return place


def message(at: str, said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise KeepError("A message is no object. Reload the page.")
    size = len(json.dumps(said, ensure_ascii=False).encode())
    if size > MESSAGE_LIMIT:
        raise KeepError(
            f"Message {int(at) + 1} is {size / 2**20:.1f} MiB large, and {MESSAGE_LIMIT >> 20} MiB is "
            "the limit. Remove pictures from it, or take smaller ones."
        )
    return said


def _find_parent(at: str, said: dict[str, Any]) -> dict[str, Any]:
    parent = said.get("parent", -1)
    if isinstance(parent, bool) or not isinstance(parent, int) or not -1 <= parent < int(at):
        raise KeepError("A message follows none that is before it. Reload the page.")
    return said


def _leaf(leaf: object, count: int) -> int | None:
    """Of a save in parts the first ones have less than it is shown of."""
    if isinstance(leaf, bool) or not isinstance(leaf, int):
        return None
    return leaf if 0 <= leaf < count else None


def _is_key(value: object) -> bool:
    return isinstance(value, str) and KEY.fullmatch(value) is not None


def _line(value: object, most: int) -> str:
    return value.replace("\0", "").strip()[:most] if isinstance(value, str) else ""


def _moment(value: object) -> datetime | None:
    """Of milliseconds, as browsers count; None where they are none, or not over yet."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    now = datetime.now(UTC)
    if not 0 < value / 1000 < now.timestamp():
        return None
    return datetime.fromtimestamp(value / 1000, UTC)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
