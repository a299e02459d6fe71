"""The notation of a profile's YAML: mappings that know their lines, flags and numbers."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from servers.launch import numbers
from servers.launch.engines import flaghelp
from servers.launch.engines.launch import LaunchField

LONGEST_ALIAS, MOST_ALIASES = 200, 20
LONGEST_HOLD = 3600  # seconds
SHORTEST = 60  # seconds, for what is looked at every few minutes
MOST_LOG_TEXTS, LONGEST_LOG_TEXT = 20, 200
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PATH = re.compile(r"/[!-~]{0,199}")  # printable ASCII without blanks


def flags(text: str) -> tuple[str, ...]:
    """Raises ValueError for a quotation mark that is never closed."""
    return flaghelp.flags(text).words


def flags_text(words: tuple[str, ...]) -> str:
    """One flag with its values a line; `flags` reads it back."""
    return flaghelp.flags_text(words, {})


def number(text: str) -> int:
    """Raises ValueError for what is not a whole number."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
        raise ValueError(f"“{text}” is not a whole number.")
    return int(text)


def path(text: str) -> str:
    """A path of an engine's HTTP server; empty stays. Raises ValueError."""
    cleaned = text.strip()
    if cleaned and not _PATH.fullmatch(cleaned):
        raise ValueError(f"“{text[:60]}” is not a path, such as /health.")
    return cleaned


def choice(of: LaunchField, text: str) -> str:
    """One of the field's choices; "" by any other of its words. Raises ValueError."""
    cleaned = text.strip().lower()
    if cleaned and cleaned not in of.words:
        raise ValueError(f"“{text[:60]}” is none of {', '.join(of.words[: len(of.choices)])}.")
    return cleaned if cleaned in dict(of.choices) else ""


def minutes(text: str) -> int:
    """Seconds of 5m or 1h30m, at least a minute; 0 of an empty text. Raises ValueError."""
    seconds = numbers.read(text)
    if 0 < seconds < SHORTEST:
        raise ValueError(f"“{text[:40]}” is shorter than a minute.")
    return seconds


def aliases(names: Iterable[str]) -> tuple[str, ...]:
    """Names by which programs ask for a model. Raises ValueError."""
    found = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    for name in found:
        if len(name) > LONGEST_ALIAS or not name.isprintable() or " " in name:
            raise ValueError(
                f"“{name[:40]}” is no name for a model: up to {LONGEST_ALIAS} characters without "
                "spaces."
            )
    if len(found) > MOST_ALIASES:
        raise ValueError(f"A profile has at most {MOST_ALIASES} other names.")
    return found


def parse_hold(text: str) -> int:
    """Seconds of 5m or 90s for which a request is held, an hour at most. Raises ValueError."""
    seconds = numbers.read(text)
    if seconds > LONGEST_HOLD:
        raise ValueError(f"“{text[:40]}” is longer than an hour; no program waits for so long.")
    return seconds


def log_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Plain texts to look for in the lines of a log. Raises ValueError."""
    found = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
    for text in found:
        if len(text) > LONGEST_LOG_TEXT or not text.isprintable():
            begin = "".join(each if each.isprintable() else "�" for each in text[:60])
            raise ValueError(
                f"“{begin}” is not a text of one line with at most {LONGEST_LOG_TEXT} characters."
            )
    if len(found) > MOST_LOG_TEXTS:
        raise ValueError(f"These are {len(found)} texts; {MOST_LOG_TEXTS} are looked for at most.")
    return found


def digest(path: str, text: str) -> str:
    """The SHA-256 of a file that stands at a path in the container. Raises ValueError."""
    found = text.strip().lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(found):
        raise ValueError(f"“{text[:70]}” is not a SHA-256, as sha256sum prints it.")
    if not path.startswith("/") or ".." in path.split("/") or not path.isprintable():
        raise ValueError(
            f"“{path[:70]}” is not a path in the container, such as /templates/a.jinja."
        )
    return found


def yes_or_no(text: str) -> bool:
    """Raises ValueError for anything but true and false."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"“{text}” is neither true nor false.")
    return text.strip().lower() == "true"


# A hand-written profile has some 5 kB. This many take a second, which is as long as a web process
# may be busy.
LONGEST_TEXT = 100_000
# Of what is in it. The library's largest has 154 values and is 6 deep; none has an alias.
MOST_VALUES, DEEPEST, MOST_YAML_ALIASES = 5_000, 30, 100

# What other programs' files call it.
_ELSEWHERE = {"args": "flags", "command": "flags", "environment": "env", "model": "checkpoint",
              "ports": "host_port"}  # fmt: skip


class DocumentError(ValueError):
    """A YAML text that cannot be read; says where, which line and key, and what to do."""

    def __init__(self, problem: str, *, where: str, line: int = 0, key: str = "") -> None:
        self.problem = problem
        self.where = where
        self.line = line  # 1 is the first; 0: the text as a whole
        self.key = key
        place = f"{where}, line {line}" if line else where
        super().__init__(f"{place}: {key}: {problem}" if key else f"{place}: {problem}")


class _TooMuchError(Exception):
    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class _BoundedLoader(yaml.BaseLoader):
    """Ends a text that says much with little while it is read, not when it is understood."""

    values = aliases = depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
        self.values += 1
        self.depth += 1
        self.aliases += self.check_event(yaml.AliasEvent)
        for count, most, what in (
            (self.values, MOST_VALUES, "It has more than {} values"),
            (self.depth, DEEPEST, "It goes more than {} levels deep"),
            (self.aliases, MOST_YAML_ALIASES, "It has more than {} aliases (*name)"),
        ):
            if count > most:
                raise _TooMuchError(f"{what.format(f'{most:,}')}: no profile does.", line)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """Values are texts as written: YAML's own guesses would turn `yes` and 1e3 into others."""

    where: str
    line: int
    nodes: dict[str, yaml.Node]
    key: str = ""  # of this mapping in the one around it

    @classmethod
    def parse(cls, text: str, *, where: str) -> "Mapping":
        """Raises DocumentError for what is no YAML, or no mapping."""
        if len(text) > LONGEST_TEXT:
            raise DocumentError(
                f"The text is longer than {LONGEST_TEXT} characters: no profile is.", where=where
            )
        try:
            node = yaml.compose(text, Loader=_BoundedLoader)
        except _TooMuchError as error:
            raise DocumentError(str(error), where=where, line=error.line) from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            raise DocumentError(
                f"This is not YAML: {error.problem or error.context}.", where=where, line=line
            ) from error
        except (yaml.YAMLError, RecursionError) as error:
            raise DocumentError(f"This is not YAML: {error}", where=where) from error
        if node is None:
            raise DocumentError("Nothing is written here.", where=where)
        return cls._build(node, where=where, key="")

    @classmethod
    def _build(cls, node: yaml.Node, *, where: str, key: str) -> "Mapping":
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise DocumentError("Write `key: value` lines here.", where=where, line=line, key=key)
        nodes: dict[str, yaml.Node] = {}
        for name, value in node.value:
            at = name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode):
                raise DocumentError("A key must be a text.", where=where, line=at, key=key)
            if name.value in nodes:
                raise DocumentError(
                    "This key comes twice. Keep one of the two.",
                    where=where,
                    line=at,
                    key=name.value,
                )
            nodes[name.value] = value
        return cls(where=where, line=line, nodes=nodes, key=key)

    def __contains__(self, key: str) -> bool:
        return key in self.nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def error(self, problem: str, key: str = "") -> DocumentError:
        """An error at the key's value, or at this mapping."""
        node = self.nodes.get(key)
        line = node.start_mark.line + 1 if node else self.line
        return DocumentError(problem, where=self.where, line=line, key=key or self.key)

    def check(self, known: Collection[str], required: Collection[str] = ()) -> None:
        """Raises DocumentError for a key that is not known, or one that is missing."""
        for key in self.nodes:
            if key not in known:
                meant = _ELSEWHERE.get(key, "")
                near = [meant] if meant in known else get_close_matches(key, known, n=1)
                advice = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}."
                raise self.error(f"There is no such key. {advice}", key)
        for key in required:
            if key not in self.nodes:
                raise self.error(f"{key} is missing. Add a line `{key}: …`.")

    def text(self, key: str, default: str = "") -> str:
        return self._scalar(key, self.nodes[key]) if key in self.nodes else default

    def read[Value](self, key: str, reader: Callable[[str], Value], default: Value) -> Value:
        """The text of a key as `reader` understands it; its ValueError says what is wrong."""
        if key not in self.nodes:
            return default
        try:
            return reader(self.text(key))
        except ValueError as error:
            raise self.error(str(error), key) from error

    def texts(self, key: str) -> tuple[str, ...]:
        """The items of a list; none where the key is missing."""
        return tuple(self._scalar(key, node) for node in self._items(key))

    def mappings(self, key: str) -> list["Mapping"]:
        """The items of a list of mappings."""
        return [Mapping._build(node, where=self.where, key=key) for node in self._items(key)]

    def get_mapping(self, key: str) -> "Mapping":
        """The mapping under a key; an empty one where the key is missing or says nothing."""
        node = self.nodes.get(key)
        if node is None or _is_nothing(node):
            return Mapping(where=self.where, line=self.line, nodes={}, key=key)
        return Mapping._build(node, where=self.where, key=key)

    def values(self) -> dict[str, str]:
        """Every key with its text."""
        return {key: self._scalar(key, node) for key, node in self.nodes.items()}

    def is_nothing(self, key: str) -> bool:
        """Whether nothing, ~ or null stands behind the key, without quotation marks."""
        return _is_nothing(self.nodes[key])

    def is_list(self, key: str) -> bool:
        return isinstance(self.nodes[key], yaml.SequenceNode)

    def is_mapping(self, key: str) -> bool:
        return isinstance(self.nodes[key], yaml.MappingNode)

    def _items(self, key: str) -> list[yaml.Node]:
        node = self.nodes.get(key)
        if node is None or _is_nothing(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self.error("Write a list: lines that begin with “- ”.", key)
        return list(node.value)

    def _scalar(self, key: str, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            line = node.start_mark.line + 1
            raise DocumentError("Write a text here.", where=self.where, line=line, key=key)
        return str(node.value)


def _is_nothing(node: yaml.Node) -> bool:
    """BaseLoader makes a text of everything; only a plain scalar can mean nothing."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in ("", "~", "null")
