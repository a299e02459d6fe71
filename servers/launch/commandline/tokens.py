"""Tokens of a shell line: words, operators, here-documents, placeholders, and the budget to read them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal


class ShellError(ValueError):
    """Text that is no complete shell command; `offset` is where the trouble begins.

    `is_certain`: even where the text does not look like a launch, it would start one.
    """

    def __init__(self, reason: str, offset: int, *, is_certain: bool = False) -> None:
        super().__init__(reason)
        self.is_certain = is_certain
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True, kw_only=True)
class Text:
    text: str
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class Variable:
    """$NAME, ${NAME}, ${NAME:-argument}, ${NAME[@]}; `raw` is how it was written."""

    raw: str
    name: str
    index: str = ""
    operator: str = ""
    argument: "tuple[Piece, ...]" = ()
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class Substitution:
    """$(command), `command` or $((sum)): never run."""

    raw: str


Piece = Text | Variable | Substitution


@dataclass(frozen=True, kw_only=True)
class Word:
    pieces: tuple[Piece, ...]
    offset: int
    end: int


@dataclass(frozen=True, kw_only=True)
class ArrayAssignment:
    name: str
    adds: bool
    words: tuple[Word, ...]
    offset: int


@dataclass(frozen=True, kw_only=True)
class Operator:
    text: str
    offset: int


@dataclass(frozen=True, kw_only=True)
class HereDocument:
    body: str
    is_literal: bool  # its end was quoted: no variables inside
    offset: int


Token = Word | ArrayAssignment | Operator | HereDocument


Kind = Literal["docker_run", "compose", "engine_command"]
EngineKey = Literal["vllm", "sglang", "llamacpp", "other"]


class PasteError(ValueError):
    """A paste that cannot be read completely: where, and what to change. Line and column from 1."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"Line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


@dataclass(frozen=True, kw_only=True)
class LaunchCommand:
    """What the paste says, in its own words: nothing is executed, expanded by a shell or guessed.

    None or empty is what the paste leaves out. Variables that have no value in the paste stay
    as written ($HF_TOKEN) and are named in `unresolved`.
    """

    kind: Kind
    engine: EngineKey | None = None
    image: str | None = None
    # Several words only from a compose file; "" switches the image's own off.
    entrypoint: str | tuple[str, ...] | None = None
    # After the image; for a bare engine command the engine's whole argv, without wrappers.
    command: tuple[str, ...] = ()
    # None: taken over from the environment that starts it, as with `-e NAME`.
    env: dict[str, str | None] = field(default_factory=dict)
    env_file: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    ipc: str | None = None
    shm_size: str | None = None
    ulimits: dict[str, str] = field(default_factory=dict)  # "soft" or "soft:hard"
    # "all", a number of GPUs, their ids, or a text with a variable in it.
    gpus: str | int | tuple[str, ...] | None = None
    runtime: str | None = None
    network: str | None = None
    cap_add: tuple[str, ...] = ()
    privileged: bool = False
    name: str | None = None
    restart: str | None = None
    devices: tuple[str, ...] = ()
    cpuset: str | None = None
    user: str | None = None
    workdir: str | None = None
    security_opt: tuple[str, ...] = ()
    init: bool = False
    service: str | None = None
    # Of its volumes and networks those that Docker calls so: compose puts its project's name before
    # the others.
    real_names: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    # Options of the container tool, or keys of the compose service, that have no place above.
    ignored: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Every field, tuples as lists: what `manage.py profile import --json` prints."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            found[each.name] = list(value) if isinstance(value, tuple) else value
        return found


# All the guides that the tests know, pasted as one, take a sixth of the steps.
STEPS = 400_000
WRITTEN = 1_000_000  # characters that variables are replaced by, in all words together

COMMAND = 200  # steps, for all that is made of one: a paste has some, and not thousands


class TooMuchError(Exception):
    """The paste is made of what grows while it is read: no launch command is."""


@dataclass
class _BudgetLeft:
    steps: int
    written: int


_left: ContextVar[_BudgetLeft | None] = ContextVar("what a paste may still do", default=None)


@contextmanager
def budget(*, steps: int = STEPS, written: int = WRITTEN) -> Iterator[None]:
    """What is read within has so much to spend; what is read elsewhere is not counted."""
    token = _left.set(_BudgetLeft(steps, written))
    try:
        yield
    finally:
        _left.reset(token)


@contextmanager
def limit_paste() -> Iterator[None]:
    """counted(), for who reads a paste. Raises PasteError."""
    try:
        with budget():
            yield
    except TooMuchError:
        reason = (
            "what this becomes, with its variables put in, is more than any launch command. "
            "Paste the command itself."
        )
        raise PasteError(reason, line=1, column=1) from None


def spend_step(count: int = 1) -> None:
    """About a microsecond of work each. Raises TooMuchError."""
    if (left := _left.get()) is not None:
        left.steps -= count
        if left.steps < 0:
            raise TooMuchError


def spend_write(count: int) -> None:
    """So many characters more. Raises TooMuchError."""
    if (left := _left.get()) is not None:
        left.written -= count
        if left.written < 0:
            raise TooMuchError


# $NAME, ${NAME}, and ${NAME:?why it is needed}.
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?\?[^{}]*)?\}|(\w+))")
# What guides write where a token belongs: <secret>, your_token_here, hf_xxxx, hf_..., ***.
_STANDS_FOR = re.compile(
    r"<[^<>]*>|\{\{.*\}\}|\[[^\[\]]*\]|(?:hf_|sk-|nvapi-)?(?:[xX]{3,}|\*{2,}|\.{2,}|…)"
    r"|(?:hf_|sk-)?(?:your|insert|paste|put|replace|enter)[-_ ].*",
    re.IGNORECASE,
)
# Where a paste may have a variable.
_FILLED = (
    "image", "entrypoint", "command", "env", "volumes", "ports", "shm_size", "ulimits", "gpus",
    "devices", "cpuset", "user", "workdir", "name",
)  # fmt: skip


def fill_placeholders(command: LaunchCommand, values: Mapping[str, str]) -> LaunchCommand:
    """The command with these variables replaced; a variable without a value stays.

    Raises PasteError where that makes more of it than any command is.
    """

    def put(found: re.Match[str]) -> str:
        text = values.get(found[1] or found[2]) or found[0]
        spend_write(len(text))
        return text

    def fill_in(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(put, value)
        if isinstance(value, tuple):
            return tuple(fill_in(each) for each in value)
        if isinstance(value, dict):
            return {
                name: values.get(name) or None if each is None else fill_in(each)
                for name, each in value.items()
            }
        return value

    left = tuple(name for name in command.unresolved if not values.get(name))
    with limit_paste():
        parts = {part: fill_in(getattr(command, part)) for part in _FILLED}
    return replace(command, **parts, unresolved=left)


def is_open(value: str | None) -> bool:
    """Whether this is no value yet: None, a variable that nobody has set, <your token>."""
    return value is None or _VARIABLE.fullmatch(value) is not None


def is_secret_open(value: str | None) -> bool:
    """The same of a secret, which is never empty, and which guides write as a word for it."""
    return not value or is_open(value) or _STANDS_FOR.fullmatch(value) is not None


_PLACEHOLDER = re.compile(r"<(?=[^\s<>&|;=])[^<>&|;\n]*?(?<!\s)>")
_TEMPLATE = re.compile(r"\{\{[^{}\"'\n]*\}\}")  # of Jinja, just and their kin
_PERCENT_NAME = re.compile(r"%(?![0-9A-Fa-f]{2}%)([A-Za-z_]\w+)%")
_QUOTED_COMMENT = re.compile(r"`\s*#[^`\n]*`")  # a comment between options, as bash allows it
_ARROW = re.compile(r"(?:<[-=]{1,2}|[←⬅]\ufe0f?)\s")
_ANSI_C = re.compile(r"\$'((?:[^'\\\0]|\\.)*)'", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_WINDOWS_PATH = re.compile(r"^(?:[\w-]+=)?(?:[A-Za-z]:|\.{1,2}|\$env:\w+|%\w+%)(?:\\[\w .%-]*)*$")
_WINDOWS_PROGRAM = re.compile(r"[\w.-]+(?:\\[\w.-]+)+\.exe\b", re.IGNORECASE)


def escape_placeholder(text: str, at: int) -> re.Match[str] | None:
    """A blank to be filled in that is one word: <your token>, {{ model }}."""
    return _PLACEHOLDER.match(text, at) or _TEMPLATE.match(text, at)


def percent_name(text: str, at: int) -> re.Match[str] | None:
    """A variable of cmd, %NAME%; its name is the match's first group."""
    return _PERCENT_NAME.match(text, at)


def quoted_comment(text: str, at: int) -> re.Match[str] | None:
    """A comment between a command's options, as bash allows it in backticks."""
    return _QUOTED_COMMENT.match(text, at)


def in_windows_path(text: str, start: int, at: int) -> bool:
    """Whether the backslash at `at` parts folders, in a word that begins at `start`."""
    program = _WINDOWS_PROGRAM.match(text, start)
    if program is not None and at < program.end():
        return True
    return _WINDOWS_PATH.search(text[start:at]) is not None


def escape_arrow(text: str, at: int) -> bool:
    """Whether a remark begins here that points back at the command: <- this one works."""
    return _ARROW.match(text, at) is not None


def ansi_c(text: str, at: int) -> tuple[str, int] | None:
    """What $'text' with its \\n stands for, and where it ends; None if it is never closed."""
    match = _ANSI_C.match(text, at)
    if match is None:
        return None
    said = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[1], flags=re.DOTALL)
    return said, match.end()
