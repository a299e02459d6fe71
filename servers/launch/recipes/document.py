"""The YAML of one profile: read with errors that say where, written so that it reads the same."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Any

import yaml

from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import FIELDS, MOST_PARAMETERS, SPANS, Launch, check_parameter
from servers.launch.engines.placement import (
    Gpu,
    VolumeError,
    describe_gpu_requirement,
    parse,
    parse_gpu_requirement,
)
from servers.launch.numbers import format_size, read_size
from servers.launch.recipes import notation

_ABOUT = ("name", "source", "tags", "hardware", "boxes", "expected", "notes")
# What most people look for stands first; the rest follows in the order of Launch.
_FIRST = (
    "engine", "image", "checkpoint", "revision", "served_name", "flags", "env", "secrets", "reasons"
)  # fmt: skip
_REQUIRED = ("name", "engine", "image", "checkpoint")
_FIELDS: dict[str, Any] = {f.name: f for f in fields(Launch)}
_REST = tuple(name for name in _FIELDS if name not in (*_ABOUT, *_FIRST, "secret_env"))
KEYS = (*_ABOUT, *_FIRST, *_REST)


@dataclass(frozen=True, kw_only=True)
class RecipeSource:
    """Who published it. An empty URL: the source has none that lasts."""

    title: str = ""
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A profile as it travels between installs: everything but the values of secrets."""

    name: str
    launch: Launch
    notes: str = ""  # Markdown
    source: RecipeSource = field(default_factory=RecipeSource)
    tags: tuple[str, ...] = ()
    boxes: int = 1  # how many it needs
    secrets: tuple[str, ...] = ()  # variables whose values must be given before a start

    def __post_init__(self) -> None:
        if self.launch.secret_env:
            raise ValueError("A document names secrets; the values stay where they are.")


def read(text: str, *, where: str) -> Document:
    """Read a profile's YAML. `where` is what errors call the text: a path, or “the paste”.

    Raises DocumentError, with the line and the key.
    """
    return read_mapping(notation.Mapping.parse(text, where=where))


def read_mapping(found: notation.Mapping, *, also: tuple[str, ...] = ()) -> Document:
    """The profile in a mapping that may have other keys too. Raises DocumentError."""
    found.check((*KEYS, *also), required=_REQUIRED)
    env = _variables(found, "env")
    secrets = found.texts("secrets")
    for name in secrets:
        _check_variable(found, "secrets", name)
        if name in env:
            raise found.error(
                f"{name} has a value under env. Keep it in one of the two.", "secrets"
            )
    engine = found.text("engine")
    if engine not in ENGINES:
        raise found.error(f"“{engine}” is not an engine. {_nearest(engine, ENGINES)}", "engine")
    for key in ("name", "image"):
        if not found.text(key).strip():
            raise found.error("Write something here.", key)
    boxes = found.read("boxes", notation.number, 1)
    if boxes < 1:
        raise found.error("It needs at least 1 box.", "boxes")
    values = {name: launch_value(found, name) for name in _FIELDS if name in found}
    return Document(
        name=found.text("name"),
        notes=found.text("notes"),
        source=read_source(found),
        tags=found.texts("tags"),
        boxes=boxes,
        secrets=secrets,
        launch=Launch(**values),
    )


def launch_value(found: notation.Mapping, name: str) -> Any:
    """The value of one field of Launch, as its default's type wants it. Raises DocumentError."""
    if name not in _FIELDS or name == "secret_env":
        raise found.error(f"A profile has no such key. {_nearest(name, _FIELDS)}", name)
    of, default = FIELDS[name], _default(name)
    kind = of.kind
    if kind in _READERS:
        return found.read(name, _READERS[kind], default)
    if kind in _STRUCTURES:
        return _STRUCTURES[kind](found, name)
    if of.words:
        return found.read(name, partial(notation.choice, of), default)
    if isinstance(default, bool):
        return found.read(name, notation.yes_or_no, default)
    if isinstance(default, int):
        return _count(found, name)
    if isinstance(default, tuple):
        return found.texts(name)
    if isinstance(default, dict):
        return found.get_mapping(name).values()
    return found.text(name)


def _default(name: str) -> Any:
    """A required field of Launch is a text, so its default is taken for one."""
    of = _FIELDS[name]
    if callable(of.default_factory):
        return of.default_factory()
    return of.default if isinstance(of.default, (str, int, tuple)) else ""


def _flags(found: notation.Mapping, key: str) -> tuple[str, ...]:
    return found.texts(key) if found.is_list(key) else found.read(key, notation.flags, ())


def _variables(found: notation.Mapping, key: str) -> dict[str, str]:
    values = found.get_mapping(key)
    for name in values:
        _check_variable(values, name, name)
    return values.values()


def _check_variable(found: notation.Mapping, key: str, name: str) -> None:
    # What execve(2) can take; more than POSIX promises, and images use it.
    if not name or "=" in name or "\0" in name:
        raise found.error(f"“{name}” is not a name for a variable.", key)


def _volumes(found: notation.Mapping, key: str) -> tuple[str, ...]:
    volumes = found.texts(key)
    for text in volumes:
        try:
            # Any home will do: where ~ leads is the box's business.
            parse(text, home="/home")
        except VolumeError as error:
            raise found.error(str(error), key) from error
    return volumes


def _parameters(found: notation.Mapping, key: str) -> dict[str, str]:
    values = found.get_mapping(key).values()
    for name, value in values.items():
        try:
            check_parameter(name, value)
        except ValueError as error:
            raise found.error(str(error), key) from error
    if len(values) > MOST_PARAMETERS:
        raise found.error(f"A profile has at most {MOST_PARAMETERS} parameters.", key)
    return values


def _digests(found: notation.Mapping, key: str) -> dict[str, str]:
    listed = found.get_mapping(key)
    return {path: listed.read(path, partial(notation.digest, path), "") for path in listed}


def _limits(found: notation.Mapping, key: str) -> dict[str, int]:
    listed = found.get_mapping(key)
    return {name: listed.read(name, notation.number, 0) for name in listed}


def _parse_list(
    read: Callable[[Iterable[str]], tuple[str, ...]], found: notation.Mapping, key: str
) -> tuple[str, ...]:
    try:
        return read(found.texts(key))
    except ValueError as error:
        raise found.error(str(error), key) from error


# By the kind of the field: of what one text says, and of lists and mappings.
_READERS: dict[str, Callable[[str], Any]] = {
    "size": read_size,
    "path": notation.path,
    "span": numbers.read,
    "hold": notation.parse_hold,
    "minutes": notation.minutes,
}
_STRUCTURES: dict[str, Callable[[notation.Mapping, str], Any]] = {
    "flags": _flags,
    "env": _variables,
    "digests": _digests,
    "parameters": _parameters,
    "patterns": partial(_parse_list, notation.log_texts),
    "aliases": partial(_parse_list, notation.aliases),
    "volumes": _volumes,
    "limits": _limits,
}


def _count(found: notation.Mapping, name: str) -> int:
    count = found.read(name, notation.number, 0)
    most = 65535 if FIELDS[name].kind == "port" else 10**9
    if not 0 <= count <= most:
        raise found.error(f"{count} is not between 0 and {most}.", name)
    return count


def read_source(found: notation.Mapping) -> RecipeSource:
    """What stands under `source`. Raises DocumentError."""
    source = found.get_mapping("source")
    source.check(("title", "url"))
    url = source.text("url")
    # It becomes a link: javascript: must not.
    if url and not url.startswith(("https://", "http://")):
        raise source.error("Write an address that begins with https://.", "url")
    return RecipeSource(title=source.text("title"), url=url)


def _nearest(word: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}."


def write(document: Document) -> str:
    """The document as YAML, without what is as it would be anyway."""
    launch = document.launch
    rows: dict[str, Any] = {
        "name": document.name,
        "source": {
            key: value
            for key, value in (("title", document.source.title), ("url", document.source.url))
            if value
        },
        "tags": list(document.tags),
        "boxes": document.boxes if document.boxes != 1 else "",
        "notes": document.notes,
        "secrets": list(document.secrets),
    }
    rows |= {name: _write_value(name, getattr(launch, name)) for name in _FIELDS}
    kept = {key: rows[key] for key in KEYS if not _goes_without_saying(key, rows[key], launch)}
    return write_mapping(kept)


def write_mapping(rows: Mapping[str, Any]) -> str:
    """Keys and values as the YAML of a profile, in their order."""
    return yaml.dump(
        dict(rows), Dumper=_RecipeDumper, sort_keys=False, allow_unicode=True, width=2**31, indent=2
    )


def _goes_without_saying(key: str, value: Any, launch: Launch) -> bool:
    if key in _REQUIRED:
        return False
    return getattr(launch, key) == _default(key) if key in _FIELDS else value in ("", [], {})


_WRITERS: dict[str, Callable[[Any], str]] = {
    "flags": notation.flags_text,
    "size": format_size,
    **dict.fromkeys(SPANS, numbers.format_duration),
}


def _write_value(name: str, value: Any) -> Any:
    if writer := _WRITERS.get(FIELDS[name].kind):
        return writer(value)
    if isinstance(value, tuple):
        return list(value)
    return value


class _RecipeDumper(yaml.SafeDumper):
    """Lists are indented below their key, and texts of several lines are blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not all(character.isprintable() or character == "\n" for character in text):
        # The other styles would read some line breaks back as plain newlines.
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_RecipeDumper.add_representer(str, _text_node)


@dataclass(frozen=True, kw_only=True)
class HardwareFit:
    is_fit: bool
    sentence: str


def fits_hardware(document: Document, gpus: Sequence[Gpu]) -> HardwareFit:
    """Whether a box with these GPUs has what the document was made for, and why not."""
    if document.boxes > 1:
        count = {2: "two", 3: "three", 4: "four"}.get(document.boxes, str(document.boxes))
        return HardwareFit(is_fit=False, sentence=f"needs {count} boxes: not startable yet")
    if document.launch.gpus == "none":
        return HardwareFit(is_fit=True, sentence="needs no GPU")
    wanted = parse_gpu_requirement(document.launch.hardware) or parse_gpu_requirement(
        document.launch.gpus
    )
    if wanted is None:
        said = document.launch.hardware
        needs = f"made for “{said}”" if said else "does not say which GPUs it needs"
        return HardwareFit(
            is_fit=bool(gpus), sentence=f"{needs}; this box has {describe_gpu_requirement(gpus)}"
        )
    there = sum(wanted.fits(gpu) for gpu in gpus)
    if there >= wanted.count:
        return HardwareFit(is_fit=True, sentence="fits this box")
    has = str(there) if there else describe_gpu_requirement(gpus)
    return HardwareFit(is_fit=False, sentence=f"needs {wanted}; this box has {has}")
