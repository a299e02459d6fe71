"""YAML read as texts: anchors and merge keys are followed, nothing becomes a number or a date."""

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

TYPOGRAPHIC_QUOTES = ("“”„‟", "‘’‚‛")  # YAML takes them for letters
_COMMAND = re.compile(r"( *)[\"']?(?:command|entrypoint)[\"']? *: *[|>][-+\d]* *(?:#.*)?$")
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#.*")
_QUOTED = re.compile(r"\\.|'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"")
_MOST_NODES = 20_000  # aliases of aliases can say much with little


class YamlError(ValueError):
    """A text that is no YAML, or too much of it. Line and column from 0."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


class PositionedMapping(dict[str, Any]):
    """A mapping that remembers where each of its keys stands."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, tuple[int, int]] = {}


def documents(text: str) -> list[Any]:
    """Each YAML document as Entry, list, str or None. Raises YamlError."""
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line, mark.column) if mark else (0, 0)
        raise YamlError(f"this is no valid YAML: {error.problem}.", *place) from error
    except yaml.YAMLError as error:
        raise YamlError(f"this is no valid YAML: {error}.", 0, 0) from error
    except RecursionError as error:
        raise YamlError("this is nested too deeply.", 0, 0) from error
    builder = _Builder()
    return [builder.build(node) for node in nodes]


def without_comments(text: str) -> str:
    """The text with blanks for comments inside a command's block of lines.

    There they are words to YAML, and nobody means that. In a text in quotation marks that goes
    over several lines, a script, they stay.
    """
    lines = text.split("\n")
    inside: int | None = None  # the key's indentation
    is_open = False
    for number, line in enumerate(lines):
        if inside is not None and line.strip() and len(line) - len(line.lstrip(" ")) <= inside:
            inside = None
        if inside is None:
            key = _COMMAND.match(line)
            inside, is_open = (len(key[1]) if key else None), False
            continue
        plain = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), line)
        is_whole = plain.count("'") + plain.count('"') == 0
        comment = _COMMENT.search(plain) if is_whole and not is_open else None
        if comment is not None:
            lines[number] = line[: comment.start()] + " " * (len(line) - comment.start())
        is_open = is_open if is_whole else not is_open
    return "\n".join(lines)


class _Builder:
    def __init__(self) -> None:
        self._count = 0
        self._open: list[Node] = []

    def build(self, node: Node) -> Any:
        self._count += 1
        if self._count > _MOST_NODES or any(each is node for each in self._open):
            raise YamlError("its anchors repeat without end.", *_place(node))
        self._open.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._build_mapping(node)
            if isinstance(node, SequenceNode):
                return [self.build(each) for each in node.value]
            return _scalar(node)
        finally:
            self._open.pop()

    def _build_mapping(self, node: MappingNode) -> PositionedMapping:
        own, merged = PositionedMapping(), PositionedMapping()
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else ""
            if not key:
                raise YamlError("this key is no word.", *_place(key_node))
            if key == "<<":
                _add_missing(merged, self.build(value_node), key_node)
                continue
            if key in own:
                raise YamlError(f"{key} stands here twice.", *_place(key_node))
            own[key] = self.build(value_node)
            own.places[key] = _place(key_node)
        _add_missing(own, merged, node)
        return own


def _add_missing(entry: PositionedMapping, merged: Any, node: Node) -> None:
    for each in merged if isinstance(merged, list) else [merged]:
        if not isinstance(each, PositionedMapping):
            raise YamlError("<< takes a mapping from elsewhere in the file.", *_place(node))
        for key, value in each.items():
            if key not in entry:
                entry[key] = value
                entry.places[key] = each.places[key]


def _scalar(node: Node) -> str | None:
    text = str(node.value)
    if node.tag == "tag:yaml.org,2002:null":
        return None
    is_plain = isinstance(node, ScalarNode) and node.style is None
    is_quoted = len(text) > 1 and any(text[0] in q and text[-1] in q for q in TYPOGRAPHIC_QUOTES)
    return text[1:-1] if is_plain and is_quoted else text


def _place(node: Node) -> tuple[int, int]:
    return node.start_mark.line, node.start_mark.column
