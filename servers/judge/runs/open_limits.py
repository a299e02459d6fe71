"""Limits that are wider than they need to be, and the file that allows them."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import PurePosixPath
from typing import Any, Self

from servers.judge.messages import Sentence, say
from servers.judge.runs import limits
from servers.judge.runs.limits import Limits, LimitsError, line, parse, toml

_PARTS = {
    "capabilities": "runs.hardening-capabilities",
    "no-new-privileges": "runs.hardening-no-new-privileges",
    "pids": "runs.hardening-pids",
}


@dataclass(frozen=True, kw_only=True)
class MountPermission:
    rule: str
    title: str
    because: str
    advice: str = ""
    command: str = ""  # typed on the box; "" where no command closes it
    servers: tuple[str, ...] = ()  # whose profiles would no longer start
    code: str = ""  # of its message

    @classmethod
    def from_sentence(
        cls, said: Sentence, rule: str, *, command: str = "", servers: tuple[str, ...] = ()
    ) -> Self:
        return cls(
            rule=rule,
            title=said.title,
            because=said.text,
            advice=said.advice,
            command=command,
            servers=servers,
            code=said.code,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"servers": list(self.servers)}


@dataclass(frozen=True, kw_only=True)
class MountFolder:
    """One of the folders that may be mounted."""

    path: str
    held: tuple[str, ...] = ()  # parts of an account that lie in it
    lacks: tuple[str, ...] = ()  # of nosuid and nodev
    point: str = ""  # where the disk that it lies on is mounted


@dataclass(frozen=True, kw_only=True)
class PlacedMount:
    """What a server of the box asks of it."""

    slug: str
    on_host_network: bool
    mounts: tuple[str, ...]  # paths of the box


def openings(
    allowed: Limits,
    roots: Iterable[MountFolder],
    placed: Iterable[PlacedMount],
    *,
    home: str,
    manage: str,
    left_out: Mapping[str, str],
) -> list[MountPermission]:
    """The gravest first. `home` is the account's, `manage` how inferdash is called on the box,
    `left_out` the parts of hardening that its Docker refuses, with its words."""
    servers = list(placed)
    known = list(roots)
    found = [_home(each, allowed, servers, home=home, manage=manage) for each in known if each.held]
    if allowed.host_network:
        found.append(_network(servers, manage=manage))
    found += [_left_out(part, why) for part, why in left_out.items()]
    if lacking := [each for each in known if each.lacks]:
        found.append(_options(lacking))
    return found


def _home(
    root: MountFolder, allowed: Limits, servers: list[PlacedMount], *, home: str, manage: str
) -> MountPermission:
    inside = [
        each
        for each in limits.of_home(home)
        if _lies_in(each, root.path) and each not in allowed.mount_roots
    ]
    others = [each for each in allowed.mount_roots if each != root.path] + inside
    using = tuple(
        each.slug
        for each in servers
        if any(
            _lies_in(source, root.path) and not any(_lies_in(source, other) for other in others)
            for source in each.mounts
        )
    )
    narrower = [line(manage, "allow", "mount", *inside)] if inside else []
    return MountPermission.from_sentence(
        say("runs.opening-home", path=root.path, held=", ".join(root.held[:4])),
        "home",
        command=" && \\\n  ".join([*narrower, line(manage, "forbid", "mount", root.path)]),
        servers=using,
    )


def _network(servers: list[PlacedMount], *, manage: str) -> MountPermission:
    return MountPermission.from_sentence(
        say("runs.opening-host-network"),
        "host-network",
        command=line(manage, "forbid", "host_network"),
        servers=tuple(each.slug for each in servers if each.on_host_network),
    )


def _left_out(part: str, why: str) -> MountPermission:
    name = say(_PARTS[part]).text if part in _PARTS else part
    said = say("runs.opening-not-hardened", part=name, why=why)
    return MountPermission.from_sentence(said, f"left-out-{part}")


def _options(roots: list[MountFolder]) -> MountPermission:
    named = ", ".join(
        say("runs.opening-folder", path=each.path, options=" and ".join(each.lacks)).text
        for each in roots
    )
    return MountPermission.from_sentence(
        say("runs.opening-mount-options", folders=named),
        "mount-options",
        command=" && \\\n  ".join(_remount(each) for each in roots),
    )


def _remount(root: MountFolder) -> str:
    path = shlex.quote(root.path)
    if root.point == root.path:
        return f"sudo mount -o remount,nosuid,nodev {path}"
    return f"sudo mount --bind {path} {path} && sudo mount -o remount,bind,nosuid,nodev {path}"


def _lies_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


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


def allow_in_file(text: str, what: str, values: Iterable[str] = ()) -> str:
    """The text that allows this, too. `what` is one of SWITCHES, without values, or of LISTS.

    Raises LimitsError for a text that is no limits file, or that is written so that only a person
    can change it.
    """
    return _change_entry(text, what, values, is_allowed=True)


def forbid_in_file(text: str, what: str, values: Iterable[str] = ()) -> str:
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
        raise LimitsError(say("runs.limits-not-editable", name=name).text)
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
