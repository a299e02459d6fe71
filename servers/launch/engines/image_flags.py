"""The question to an image about its engine's flags, and the answer."""

import re
from dataclasses import replace

from servers.launch.engines.engine import Engine
from servers.launch.engines.flaghelp import HelpError, parse_help
from servers.launch.engines.flaglist import Flag, FlagList, all_shipped, load_shipped
from servers.launch.engines.versions import release

# Characters that the database keeps.
LONGEST_VERSION = 60


def words(engine: Engine, command: tuple[str, ...], entrypoint: tuple[str, ...]) -> tuple[str, ...]:
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


def complete(asked: FlagList, engine: Engine) -> FlagList:
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
    own = release(asked.version)
    if own is None:
        return {}
    found: dict[str, str | None] = {}
    for each in reversed(all_shipped(asked.engine)):
        its = release(each.version)
        if its is not None and its <= own:
            found |= each.removed
    return {
        name: instead
        for name, instead in found.items()
        if not asked.is_spelled_out(name) and (instead is None or asked.is_spelled_out(instead))
    }
