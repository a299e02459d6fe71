"""Flags as text: an engine's --help as a list of flags, and flags that a person has written, with reasons."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from servers.launch.engines.change import is_flag
from servers.launch.engines.engine import Engine
from servers.launch.engines.flaglist import (
    Flag,
    FlagList,
    Takes,
    all_shipped,
    load_shipped,
    read_release,
)

_NAME = re.compile(r"-{1,2}[A-Za-z0-9][\w.-]*")
_DEFAULT = re.compile(r"\(default: ?(.*?)\)(?:\s|$)", re.DOTALL)
_CHOICES = re.compile(r"\{([^{}]*)\}")
# Where llama.cpp begins its explanations, on the line of the names or on the next one.
_LLAMACPP_COLUMN = 40
_ENV = re.compile(r"\(env: ([A-Z0-9_]+)\)")
_ALLOWED = re.compile(r"\[([\w|]+)\]|<([\w|]+)>|\{([\w,]+)\}")
# Characters of one flag's help: an image may print anything, and patterns take their time.
LONGEST = 8000
# vLLM says this of every flag whose value is JSON.
_JSON = "valid JSON string or JSON keys"
# What llama-server refuses stands in its list all the same.
_REMOVED = re.compile(
    r"the argument has been removed\b(?:\. use (?P<instead>--[\w-]+)(?![\w*-]))?", re.IGNORECASE
)


class HelpError(Exception):
    """The text is no list of flags; the sentence says what was expected."""


def parse_help(engine: str, text: str, *, version: str = "") -> FlagList:
    """The flags that `vllm serve --help=all`, SGLang's or llama-server's --help lists.

    --help does not tell which variables are read, except llama-server's. Raises HelpError
    when the text lists no flags: an engine that failed prints an error instead.
    """
    entries = _llamacpp_entries(text) if engine == "llamacpp" else _argparse_entries(text)
    read = _llamacpp_flag if engine == "llamacpp" else _argparse_flag
    listed = [read(invocation[:LONGEST], said[:LONGEST]) for invocation, said in entries]
    flags = tuple(flag for flag in listed if not _REMOVED.match(flag.help))
    if len(flags) < 3:
        raise HelpError(
            f"The image's --help lists no flags of {engine}. It begins with: {text.strip()[:200]!r}"
        )
    variables = frozenset(flag.env for flag in flags if flag.env)
    removed = {
        name: found["instead"]
        for flag in listed
        if (found := _REMOVED.match(flag.help))
        for name in flag.names
    }
    return FlagList(
        engine=engine, version=version, flags=flags, env=variables or None, removed=removed
    )


def _argparse_entries(text: str) -> Iterator[tuple[str, str]]:
    """Each flag's names and its help: names stand two columns in, help further right."""
    invocation, said = "", list[str]()
    for line in text.splitlines():
        begins = re.match(r"  (-.*)", line)
        if begins:
            if invocation:
                yield invocation, " ".join(said)
            invocation, _, rest = re.sub(r" {2,}", "\0", begins[1], count=1).partition("\0")
            said = [rest.strip()]
        elif invocation and line.startswith("     "):
            said.append(line.strip())
        elif line.strip() and invocation:  # the heading of the next group
            yield invocation, " ".join(said)
            invocation = ""
    if invocation:
        yield invocation, " ".join(said)


def _argparse_flag(invocation: str, said: str) -> Flag:
    names, value = list[str](), ""
    for part in re.split(r", (?=-)", invocation):
        name, _, rest = part.partition(" ")
        names.append(name)
        value = rest.strip() or value
    choices, known = _argparse_values(value)
    default = _DEFAULT.search(said)
    positive, off = _pairs(names)
    return Flag(
        names=positive,
        off=off,
        takes=_argparse_takes(value),
        type="json?" if _JSON in said else "",
        choices=choices,
        known=known,
        default="" if default is None or default[1] == "None" else default[1],
        help=_DEFAULT.sub("", said).strip(),
        is_deprecated=bool(re.match(r"\W*deprecated", said, re.IGNORECASE)),
    )


def _argparse_takes(value: str) -> Takes:
    if not value:
        return "none"
    if "..." in value:
        return "many"
    return "optional" if value.startswith("[") and not value.startswith("['") else "one"


def _argparse_values(value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All values that are taken, or those that are named beside others.

    vLLM writes "{a,b} or name registered in ..." and ['a', 'b'] for values that others can join.
    """
    if value.startswith("['"):
        return (), tuple(re.findall(r"'([^']*)'", value))
    found = _CHOICES.match(value.lstrip("["))
    if found is None:
        return (), ()
    values = tuple(found[1].split(","))
    return ((), values) if " or " in value else (values, ())


def _llamacpp_entries(text: str) -> Iterator[tuple[str, str]]:
    invocation, said = "", list[str]()
    for line in text.splitlines():
        if re.match(r"-{1,2}\w", line):
            if invocation:
                yield invocation, " ".join(said)
            is_beside = len(line) > _LLAMACPP_COLUMN and line[_LLAMACPP_COLUMN - 1] == " "
            cut = _LLAMACPP_COLUMN if is_beside else len(line)
            invocation, said = line[:cut].strip(), [line[cut:].strip()]
        elif line.startswith(" ") and invocation:
            said.append(line.strip())
        elif line.strip() and invocation:
            yield invocation, " ".join(said)
            invocation = ""
    if invocation:
        yield invocation, " ".join(said)


def _llamacpp_flag(invocation: str, said: str) -> Flag:
    names, rest = list[str](), invocation
    while found := _NAME.match(rest):
        names.append(found[0])
        rest = rest[found.end() :]
        if not rest.startswith(","):
            break
        rest = rest.lstrip(", ")
    value = rest.strip()
    values = _ALLOWED.fullmatch(value)
    default = _DEFAULT.search(said)
    env = _ENV.search(said)
    positive, off = _pairs(names)
    return Flag(
        names=positive,
        off=off,
        takes="none" if not value else ("many" if re.fullmatch(r"[A-Z]+ [A-Z]+", value) else "one"),
        # Some of them take more words than they list: "1" for "on".
        known=tuple(re.split(r"[|,]", next(filter(None, values.groups())))) if values else (),
        default=default[1].strip("'") if default else "",
        help=_ENV.sub("", _DEFAULT.sub("", said)).strip(),
        env=env[1] if env else "",
        is_deprecated="DEPRECATED" in said,
    )


def _pairs(names: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that switch on, spelled-out ones first, and the ones that switch the same flag off."""
    off = [name for name in names if _is_off(name, names)]
    if off:  # -nkvo beside --no-kv-offload
        off += [name for name in names if re.match(r"-n[a-z]", name)]
    on = [name for name in names if name not in off]
    on.sort(key=lambda name: not name.startswith("--"))
    return tuple(on), tuple(off)


def _is_off(name: str, names: list[str]) -> bool:
    if name.startswith("--no-"):
        return f"--{name[5:]}" in names
    for mine, other in (("--disable-", "--enable-"), ("--enable-", "--disable-")):
        counterpart = other + name.removeprefix(mine)
        if name.startswith(mine) and counterpart in names:
            return names.index(counterpart) < names.index(name)
    return False


# Characters that the database keeps.
LONGEST_VERSION = 60


def list_image_flags(
    engine: Engine, command: tuple[str, ...], entrypoint: tuple[str, ...]
) -> tuple[str, ...]:
    """A command of the engine as an image with this entrypoint wants it.

    The program is started as it would be for serving; other commands stand for themselves.
    """
    own = len(engine.program)
    if command[:own] != engine.program:
        return command
    return entrypoint + engine.behind(entrypoint) + command[own:]


def version_in(engine: Engine, text: str) -> str:
    """The version in what the version command printed; "" when there is none."""
    found = list(re.finditer(engine.version_pattern, text))
    return found[-1].expand(engine.version_form)[:LONGEST_VERSION] if found else ""


def flags_in(engine: Engine, text: str, *, version: str) -> FlagList:
    """The whole list in what a help command printed.

    Raises HelpError for no list and for a part of one: flags that it leaves out would be called
    unknown.
    """
    found = parse_help(engine.key, text, version=version)
    missing = [name for name in engine.sure_flags if not found.is_spelled_out(name)]
    if missing:
        raise HelpError(
            f"The image's --help lists only a part of {engine.title}'s flags: {missing[0]} is "
            "missing."
        )
    return found


def complete_image_flags(asked: FlagList, engine: Engine) -> FlagList:
    """An image's own list, with what --help does not tell but inferdash's lists do.

    Types, variables and flags without help come from the list of the same release; what became
    of names that are gone, from every list that is not newer.
    """
    same = load_shipped(asked.engine, asked.version)
    types = {flag.name: flag.type for flag in same.flags} if same else {}
    hidden = [flag for flag in same.flags if flag.name in engine.hidden_flags] if same else []
    asked = replace(
        asked,
        flags=asked.flags + tuple(flag for flag in hidden if not asked.is_spelled_out(flag.name)),
    )
    env = asked.env
    if env is None and same is not None:
        env = same.env
    return replace(
        asked,
        flags=tuple(_set_kind(flag, types.get(flag.name, "")) for flag in asked.flags),
        env=env,
        removed=_list_removed(asked) | asked.removed,
    )


def _set_kind(flag: Flag, kind: str) -> Flag:
    return flag if flag.type or not kind else replace(flag, type=kind)


def _list_removed(asked: FlagList) -> dict[str, str | None]:
    own = read_release(asked.version)
    if own is None:
        return {}
    found: dict[str, str | None] = {}
    for each in reversed(all_shipped(asked.engine)):
        its = read_release(each.version)
        if its is not None and its <= own:
            found |= each.removed
    return {
        name: instead
        for name, instead in found.items()
        if not asked.is_spelled_out(name)
        and (instead is None or asked.is_spelled_out(instead.partition("=")[0]))
    }


# lines above it, is the reason for it.


@dataclass(frozen=True, kw_only=True)
class FlagRow:
    text: str
    why: str  # "" where nobody has said

    def __str__(self) -> str:
        return f"{self.text}  # {self.why}" if self.why else self.text


@dataclass(frozen=True, kw_only=True)
class Flags:
    words: tuple[str, ...]
    reasons: dict[str, str]  # flag as typed -> why


def flags(text: str) -> Flags:
    """The words of a command line that is written over several lines, or pasted as one.

    A backslash at a line's end is optional. Raises ValueError for an open quotation mark.
    Rule: POSIX shell quoting, without expansion.
    """
    words: list[str] = []
    reasons: dict[str, str] = {}
    above: list[str] = []
    for number, line in _lines(text):
        code, comment = _split(line.removesuffix("\\").rstrip() + "\n", number)
        if not code.strip():
            above = [*above, comment] if comment else []
            continue
        try:
            found = shlex.split(code)
        except ValueError:
            raise ValueError(_describe_unclosed(number)) from None
        names = [word.partition("=")[0] for word in found if is_flag(word)]
        why = " ".join([*above, comment]).strip()
        if why and names:
            reasons[names[0]] = why
        above = []
        words += found
    return Flags(words=tuple(words), reasons=reasons)


def flag_rows(words: tuple[str, ...], reasons: Mapping[str, str]) -> list[FlagRow]:
    """One flag with its values a row."""
    rows: list[tuple[str, str]] = []  # name, text
    for word in words:
        if is_flag(word) or not rows:
            rows.append((word.partition("=")[0], shlex.quote(word)))
        else:
            name, text = rows[-1]
            rows[-1] = (name, f"{text} {shlex.quote(word)}")
    return [FlagRow(text=text, why=reasons.get(name, "")) for name, text in rows]


def flags_text(words: tuple[str, ...], reasons: Mapping[str, str]) -> str:
    """One flag a line with the reason behind it; `flags` reads it back."""
    return "\n".join(map(str, flag_rows(words, reasons)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with its number: a quotation may go on over several, such as JSON."""
    pending = ""
    first = 1
    # Not splitlines(): a quoted value may hold a line end of another kind.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not pending:
            first = number
        pending += line
        if _is_open(pending):
            pending += "\n"
            continue
        yield first, pending.rstrip(" \t")
        pending = ""
    if pending:
        raise ValueError(_describe_unclosed(first))


def _is_open(text: str) -> bool:
    return _scan(text)[1]


def _split(line: str, number: int) -> tuple[str, str]:
    """The line and its comment."""
    at, is_open = _scan(line)
    if is_open:
        raise ValueError(_describe_unclosed(number))
    return (line, "") if at is None else (line[:at], line[at:].strip("# \n"))


def _scan(text: str) -> tuple[int | None, bool]:
    """Where a comment begins, and whether a quotation is open at the end."""
    quote = ""
    escaped = False
    for at, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (at == 0 or text[at - 1].isspace()):
            return at, False
    return None, bool(quote)


def _describe_unclosed(number: int) -> str:
    return f"Line {number}: a quotation mark is opened and never closed."
