"""Compose files, or pieces of them: YAML read as texts, and services as commands.

Anchors and merge keys are followed; nothing becomes a number or a date.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from servers.launch.commandline import docker_options
from servers.launch.commandline.docker_run import gpus as read_gpus
from servers.launch.commandline.engine_words import engine_of
from servers.launch.commandline.tokens import LaunchCommand, ShellError
from servers.launch.commandline.variables import Scope
from servers.launch.tables import read_table

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


_TABLE = {name: frozenset(words.split()) for name, words in read_table(__file__).items()}
TOP_LEVEL = _TABLE["top_level"]
_TEXTS = {
    "image": "image",
    "network_mode": "network",
    "container_name": "name",
    "restart": "restart",
    **{each.compose or name: name for name, each in docker_options.TEXTS.items()},
}
_LISTS = {
    each.compose or name: name
    for name, each in docker_options.list_options("items", "capabilities").items()
}
_SWITCHES = {each.compose or name: name for name, each in docker_options.SWITCHES.items()}
_IGNORED = _TABLE["ignored"] - {*_TEXTS, *_LISTS, *_SWITCHES}
SERVICE_KEYS = _TABLE["read"] | _IGNORED | frozenset([*_TEXTS, *_LISTS, *_SWITCHES])
# A file of another tool that runs an image.
_OTHER_KEYS = frozenset(["type", "commands", "kind", "steps", "run"])
_MARKS = frozenset(["image", "build", "extends"])  # one of them makes a mapping a service
_BACKSLASH = re.compile(r"\\[ \t]*(?:\n|$)")


def services(document: Any) -> dict[str | None, PositionedMapping]:
    """The services of a document by name; None names a service whose name is not there."""
    if not isinstance(document, PositionedMapping):
        return {}
    inside = document.get("services")
    if (
        inside is None
        and "image" in document
        and not document.keys() & _OTHER_KEYS
        and not isinstance(document["image"], PositionedMapping)
    ):
        return {None: document}
    if inside is None and len(document) == 1:
        (inner,) = document.values()
        if isinstance(inner, PositionedMapping) and "services" in inner:
            return services(inner)  # a file's name stood above it
    named = inside if isinstance(inside, PositionedMapping) else document
    return {
        name: entry
        for name, entry in named.items()
        if isinstance(entry, PositionedMapping) and (named is inside or _is_service(name, entry))
    }


def _is_service(name: str | None, entry: PositionedMapping) -> bool:
    """Of a fragment without `services:`, where an x- name holds what is shared."""
    if name is None or name in TOP_LEVEL or name.startswith("x-"):
        return False
    return bool(entry.keys() & _MARKS)


def find_real_names(document: Any, scope: Scope) -> dict[str, str]:
    """What Docker calls those volumes and networks of a document whose names it says: by `name:`, as
    external ones, or with the project's name before them.
    """
    if not isinstance(document, PositionedMapping):
        return {}
    found: dict[str, str] = {}
    project = document.get("name")
    for kind in ("volumes", "networks"):
        named = document.get(kind)
        for key, more in named.items() if isinstance(named, PositionedMapping) else ():
            said = more if isinstance(more, PositionedMapping) else PositionedMapping()
            external = said.get("external")
            inside = external.get("name") if isinstance(external, PositionedMapping) else None
            own = said.get("name") or inside or (key if external not in (None, "false") else None)
            if own is None and isinstance(project, str):
                own = f"{project}_{key}"
            if isinstance(own, str):
                found[key] = scope.interpolate(own).text
    return found


def read(
    name: str | None, entry: PositionedMapping, scope: Scope, real_names: Mapping[str, str]
) -> LaunchCommand:
    """One service as a Command. `real_names` as find_real_names says them.

    Raises YamlError for an unknown key or a value of a wrong form.
    """
    return _Service(name, entry, scope, real_names).read()


class _Service:
    def __init__(
        self,
        name: str | None,
        entry: PositionedMapping,
        scope: Scope,
        real_names: Mapping[str, str],
    ) -> None:
        self._real_names = real_names
        self._used_names: list[str] = []
        self._name = name
        self._entry = entry
        self._scope = scope
        self._key = next(iter(entry), "")
        self._unresolved: list[str] = []
        self._ignored: list[str] = []

    def read(self) -> LaunchCommand:
        values: dict[str, Any] = {}
        for key in self._entry:
            self._key = key
            try:
                self._take(key, self._entry[key], values)
            except ShellError as error:
                raise self._error(error.reason) from error
        if "image" not in values and "build" not in self._entry and "extends" not in self._entry:
            self._key = next(iter(self._entry), "")
            raise self._error(f"the service {self._name or ''} names no image.".replace("  ", " "))
        command = tuple(values.get("command", ()))
        return LaunchCommand(
            kind="compose",
            service=self._name,
            engine=engine_of(
                image=values.get("image"), entrypoint=values.get("entrypoint"), command=command
            ),
            real_names=tuple(dict.fromkeys(self._used_names)),
            unresolved=tuple(dict.fromkeys(self._unresolved)),
            ignored=tuple(self._ignored),
            **values,
        )

    def _take(self, key: str, value: Any, values: dict[str, Any]) -> None:
        if key.startswith("x-"):
            return
        if key not in SERVICE_KEYS:
            raise self._error(f"a compose service has no key “{key}”.")
        if key in _IGNORED:
            self._ignored.append(key)
        elif value is None:
            return
        elif key in _TEXTS:
            values[_TEXTS[key]] = self._text(value)
        elif key in _SWITCHES:
            values[_SWITCHES[key]] = self._text(value).lower() in ("true", "yes", "on", "y")
        elif key in _LISTS:
            values[_LISTS[key]] = tuple(self._text(each) for each in self._list(value))
        elif key == "networks":
            self._take_networks(value, values)
        elif key == "deploy":
            self._take_deploy(value, values)
        elif key == "environment":
            values["env"] = self._environment(value)
        elif key == "entrypoint":
            words = self._words(value)
            is_text = len(words) < 2 and isinstance(value, str)
            values["entrypoint"] = "".join(words) if is_text else words
        else:
            values[key] = getattr(self, f"_{key}")(value)

    def _command(self, value: Any) -> tuple[str, ...]:
        return self._words(value)

    def _words(self, value: Any) -> tuple[str, ...]:
        """A command as a list, or as a text that compose itself cuts at its blanks."""
        if isinstance(value, list):
            return tuple(self._text(each) for each in value)
        text = _BACKSLASH.sub(" ", self._text(value))
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise self._error("a quotation mark in this command is never closed.") from error

    def _environment(self, value: Any) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        pairs: list[tuple[str, str | None]]
        if isinstance(value, PositionedMapping):
            pairs = [
                (key, None if text is None else self._text(text)) for key, text in value.items()
            ]
        else:
            pairs = []
            for item in self._list(value):
                name, equals, text = self._text(item).partition("=")
                pairs.append((name.strip(), text if equals else None))
        for name, own in pairs:
            # Compose takes it from its own environment and from .env, which may be pasted above.
            known = self._scope.values.get(name) if own is None else None
            found[name] = known.text if known else own
            if own is None and known is None:
                self._unresolved.append(name)
        return found

    def _env_file(self, value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        return tuple(
            self._text(each.get("path") if isinstance(each, PositionedMapping) else each)
            for each in items
        )

    def _volumes(self, value: Any) -> tuple[str, ...]:
        found: list[str] = []
        for item in self._list(value):
            if not isinstance(item, PositionedMapping):
                found.append(self._text(item))
            elif item.get("type", "volume") in ("bind", "volume") and "target" in item:
                parts = [self._text(item[each]) for each in ("source", "target") if each in item]
                is_read_only = item.get("read_only") in ("true", "yes", "on")
                found.append(":".join([*parts, *(["ro"] if is_read_only else [])]))
            else:
                self._ignored.append(
                    f"volumes: {item.get('type')} {item.get('target', '')}".strip()
                )
        return tuple(map(self._name_volume, found))

    def _name_volume(self, text: str) -> str:
        source, colon, rest = text.partition(":")
        return self._use_real_name(source) + colon + rest if colon else text

    def _use_real_name(self, name: str) -> str:
        real = self._real_names.get(name)
        if real is None:
            return name
        self._used_names.append(real)
        return real

    def _ports(self, value: Any) -> tuple[str, ...]:
        found: list[str] = []
        for item in self._list(value):
            if not isinstance(item, PositionedMapping):
                found.append(self._text(item))
                continue
            parts = [self._text(item[e]) for e in ("host_ip", "published", "target") if e in item]
            protocol = item.get("protocol", "tcp")
            found.append(":".join(parts) + ("" if protocol == "tcp" else f"/{protocol}"))
        return tuple(found)

    def _devices(self, value: Any) -> tuple[str, ...]:
        found: list[str] = []
        for item in self._list(value):
            if isinstance(item, PositionedMapping):
                keys = ("source", "target", "permissions")
                found.append(":".join(self._text(item[each]) for each in keys if each in item))
            else:
                found.append(self._text(item))
        return tuple(found)

    def _ulimits(self, value: Any) -> dict[str, str]:
        if not isinstance(value, PositionedMapping):
            raise self._error("ulimits takes names with numbers, such as memlock: -1.")
        found: dict[str, str] = {}
        for name, limit in value.items():
            if isinstance(limit, PositionedMapping):
                limits = [self._text(limit[each]) for each in ("soft", "hard") if each in limit]
                found[name] = ":".join(limits)
            else:
                found[name] = self._text(limit)
        return found

    def _gpus(self, value: Any) -> str | int | tuple[str, ...] | None:
        if isinstance(value, list):
            return self._device_request(value)
        return read_gpus(self._text(value), 0)

    def _device_request(self, items: list[Any]) -> str | int | tuple[str, ...] | None:
        for item in items:
            if not isinstance(item, PositionedMapping):
                raise self._error("a device is a mapping with driver, count or device_ids.")
            if item.get("device_ids"):
                return tuple(self._text(each) for each in self._list(item["device_ids"]))
            count = item.get("count")
            return "all" if count is None else read_gpus(self._text(count), 0)
        return None

    def _take_networks(self, value: Any, values: dict[str, Any]) -> None:
        names = [
            self._text(each)
            for each in (list(value) if isinstance(value, PositionedMapping) else self._list(value))
        ]
        values.setdefault("network", self._use_real_name(names[0]) if names else None)
        self._ignored += [f"networks: {name}" for name in names[1:]]

    def _take_deploy(self, value: Any, values: dict[str, Any]) -> None:
        if not isinstance(value, PositionedMapping):
            raise self._error("deploy takes resources, with reservations and devices.")
        for key, inner in value.items():
            if key != "resources" or not isinstance(inner, PositionedMapping):
                self._ignored.append(f"deploy.{key}")
                continue
            for kind, reserved in inner.items():
                devices = (
                    reserved.get("devices") if isinstance(reserved, PositionedMapping) else None
                )
                if kind == "reservations" and isinstance(devices, list):
                    values["gpus"] = self._device_request(devices)
                    others = [
                        f"deploy.resources.{kind}.{each}" for each in reserved if each != "devices"
                    ]
                    self._ignored += others
                else:
                    self._ignored.append(f"deploy.resources.{kind}")

    def _list(self, value: Any) -> list[Any]:
        if isinstance(value, list):
            return value
        if isinstance(value, str):
            return [value]
        raise self._error(f"{self._key} takes a list.")

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._error(f"{self._key} takes a text here.")
        found = self._scope.interpolate(value)
        self._unresolved += found.unresolved
        return found.text

    def _error(self, reason: str) -> YamlError:
        return YamlError(reason, *self._entry.places.get(self._key, (0, 0)))
