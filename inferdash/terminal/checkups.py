"""Check-ups that a terminal follows: of a server's speed, and of its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inferdash.terminal import show
from inferdash.terminal.api import Api

WAIT = 20  # seconds that an answer may be held back
INTERRUPTED = 130


def follow(
    api: Api, path: str, said: dict[str, Any], describe: Callable[[dict[str, Any]], str]
) -> dict[str, Any]:
    """What the API says of it at its end. `describe` is the line of one that goes on."""
    while said["is_open"]:
        show.bar(describe(said))
        said = api.get(path, str(said["id"]), seen=said["mark"], wait=WAIT)
    show.bar("")
    return said


def follow_begun(
    api: Api,
    path: str,
    said: dict[str, Any],
    describe: Callable[[dict[str, Any]], str],
    *,
    command: str,
    stop: str = "stop",
) -> dict[str, Any] | None:
    """The same of one that this terminal has begun; None where Ctrl-C leaves it alone."""
    try:
        return follow(api, path, said, describe)
    except KeyboardInterrupt:
        show.bar("")
        show.aside(
            f"It goes on without this terminal. {command} show {said['id']} shows it, "
            f"{command} {stop} {said['id']} ends it.\n"
        )
        return None
