"""Changes to the text of a box's limits file, with its comments left as they are."""

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from servers.judge.runs.limits import Limits, LimitsError, parse, toml

# What one item of a list is called where a line is typed.
LISTS = {
    "mount": "mount_roots",
    "volume": "volumes",
    "device": "devices",
    "capability": "cap_add",
    "security_opt": "security_opt",
}
SWITCHES = tuple(each.name for each in fields(Limits) if isinstance(each.default, bool))

_STRING = r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''


def allow(text: str, what: str, values: Iterable[str] = ()) -> str:
    """The text that allows this, too. `what` is one of SWITCHES, without values, or of LISTS.

    Raises LimitsError for a text that is no limits file, or that is written so that only a person
    can change it.
    """
    return _change_entry(text, what, values, is_allowed=True)


def forbid(text: str, what: str, values: Iterable[str] = ()) -> str:
    """The text that does not allow this any more; as for allow()."""
    return _change_entry(text, what, values, is_allowed=False)


def _change_entry(text: str, what: str, values: Iterable[str], *, is_allowed: bool) -> str:
    before = parse(text)
    name = LISTS.get(what, what)
    if what in SWITCHES:
        wanted: Any = is_allowed
        # A file that does not say is to say it from now on.
        if name in tomllib.loads(text) and getattr(before, name) is wanted:
            return text
        made = _set_entry(text, name, json.dumps(is_allowed))
    else:
        had: tuple[str, ...] = getattr(before, name)
        if is_allowed:
            wanted = (*(each for each in dict.fromkeys(values) if each not in had), *had)
        else:
            gone = set(values)
            wanted = tuple(each for each in had if each not in gone)
        if wanted == had:
            return text
        made = _with_list(text, name, had, wanted)
    # Whatever was written there, the text says what it was meant to, and nothing else changed.
    if _outcome(made) != replace(before, **{name: wanted}):
        raise LimitsError(f"{name} is written there in a way that only a person can change.")
    return made


def _outcome(text: str) -> Limits | None:
    try:
        return parse(text)
    except LimitsError:
        return None


def _set_entry(text: str, name: str, value: str) -> str:
    """The text with this value for a name, at its place; at the end where it has none."""
    at = _assignment(text, name)
    if at is None:
        head = text if not text or text.endswith("\n") else f"{text}\n"
        return f"{head}{name} = {value}\n"
    start, end = at
    return text[:start] + value + text[end:]


def _with_list(text: str, name: str, had: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    at = _assignment(text, name)
    if at is None:
        return _set_entry(text, name, f"[{', '.join(map(toml, wanted))}]")
    start, end = at
    said = text[start:end]
    for each in had:
        if each not in wanted:
            said = _without_item(said, each)
    added = [toml(each) for each in wanted if each not in had]
    if added:
        said = _with_items(said, added)
    return text[:start] + said + text[end:]


def _with_items(said: str, added: list[str]) -> str:
    """First in the list: behind its last item a comment may stand."""
    inside = said[1:-1]
    if re.match(r"[ \t]*\n", inside):
        # An item a line, as inferdash itself writes it.
        indent = (re.search(r"\n([ \t]+)\S", inside) or ("", "    "))[1]
        return "[" + "".join(f"\n{indent}{each}," for each in added) + inside + "]"
    return "[" + ", ".join(added) + (f", {inside.lstrip()}" if inside.strip() else "") + "]"


def _without_item(said: str, item: str) -> str:
    for match in re.finditer(_STRING, said):
        if tomllib.loads(f"x = {match[0]}")["x"] != item:
            continue
        before, after = said[: match.start()], said[match.end() :]
        if comma := re.match(r"\s*,[ \t]*", after):
            after = after[comma.end() :]
            # Its line goes with it where it had one for itself.
            if (own := re.search(r"\n[ \t]*\Z", before)) and re.match(r"\s*(?:\n|\])", after):
                before = before[: own.start()]
            return before + after
        return re.sub(r",\s*\Z", "", before) + after
    return said


def _assignment(text: str, name: str) -> tuple[int, int] | None:
    """Where the value of a name begins and ends; None where the text does not set it."""
    begins = re.search(rf"(?m)^[ \t]*(?:{name}|\"{name}\"|'{name}')[ \t]*=[ \t]*", text)
    if begins is None:
        return None
    start = begins.end()
    if not text.startswith("[", start):
        ends = re.compile(r"[^\s#]+").match(text, start)
        return (start, ends.end()) if ends else None
    # Its own bracket is the first behind which it is a whole value: others stand in texts and
    # comments.
    for bracket in re.finditer(r"\]", text[start:]):
        end = start + bracket.end()
        try:
            tomllib.loads(f"x = {text[start:end]}")
        except tomllib.TOMLDecodeError:
            continue
        return start, end
    return None
