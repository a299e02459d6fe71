"""Messages: the sentences that people read, as templates beside their codes."""

import string
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from servers.launch.tables import load_yaml

GIB = 2**30
FOLDER = Path(__file__).parent


class MessageError(Exception):
    """A catalogue that cannot be used, or a message that is not given what its text names."""


class _Formatter(string.Formatter):
    """Adds one format: `{size:gib}` writes bytes as GiB with one decimal."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return f"{value / GIB:.1f}" if format_spec == "gib" else format(value, format_spec)


_FORMATTER = _Formatter()


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A message with its parameters filled in."""

    code: str
    severity: str
    title: str
    text: str
    advice: str
    params: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Message:
    """`says`, `title` and `advice` are templates with named parameters."""

    id: str  # begins with its room: "memory.no-collector"
    says: str = ""
    severity: str = ""  # as the rule's room has it; "": the rule decides
    title: str = ""
    advice: str = ""

    @cached_property
    def parameters(self) -> frozenset[str]:
        parts = _FORMATTER.parse(self.title + self.says + self.advice)
        return frozenset(name for _text, name, _spec, _conversion in parts if name)

    def format(self, **params: Any) -> Sentence:
        """Raises MessageError unless exactly the parameters of the templates are given."""
        if odd := self.parameters ^ params.keys():
            raise MessageError(f"{self.id}: not given, or not named: {', '.join(sorted(odd))}.")
        title, text, advice = (
            _FORMATTER.vformat(each, (), params) for each in (self.title, self.says, self.advice)
        )
        return Sentence(
            code=self.id,
            severity=self.severity,
            title=title,
            text=text,
            advice=advice,
            params=params,
        )


_KEYS = {field.name for field in fields(Message)}


@cache
def load_messages(room: str) -> Mapping[str, Message]:
    """The messages of servers/judge/<room>, in files that end in messages.yaml, by their ids.

    Raises MessageError.
    """
    found: dict[str, Message] = {}
    for path in sorted((FOLDER / room).rglob("*messages.yaml")):
        more = parse_messages(room, path.read_text())
        if twice := found.keys() & more.keys():
            raise MessageError(f"{', '.join(sorted(twice))}: there is another one in {room}.")
        found |= more
    return found


def parse_messages(room: str, text: str) -> Mapping[str, Message]:
    found: dict[str, Message] = {}
    for said in load_yaml(text):
        id = said.get("id", "")
        if not id.startswith(f"{room}.") or id in found:
            raise MessageError(f"{id or said}: the id must be new and begin with “{room}.”.")
        if odd := said.keys() - _KEYS:
            raise MessageError(f"{id}: {', '.join(sorted(odd))}: no key of a message.")
        found[id] = Message(**{key: " ".join(str(value).split()) for key, value in said.items()})
    return found


def say(id: str, **params: Any) -> Sentence:
    """The message of this id, with its parameters. Raises MessageError."""
    message = load_messages(id.partition(".")[0]).get(id)
    if message is None:
        raise MessageError(f"{id} is no message.")
    return message.format(**params)
