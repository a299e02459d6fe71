"""Whether the kernel has killed an engine for want of memory. Sizes are bytes, times unix seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GIB = 2**30
# A process of 100 GiB takes the kernel seconds to take apart, and samples come each second.
_BEFORE, _AFTER = 30.0, 5.0
BY_SIGKILL = (137, -9)


@dataclass(frozen=True, kw_only=True)
class OomKill:
    is_likely: bool  # only the kernel's counter says so, of some process
    says: str  # a sentence or two


def oom_kill(
    sample: Mapping[str, Any] | None,
    *,
    container: str,
    ended_at: float,
    exit_code: int | None,
) -> OomKill | None:
    """None where nothing says so. `container`: its id, "" of a process in none.

    Rules: a kill of the kernel's log whose cgroup names the container, whatever Docker says of
    it (its OOMKilled is false where the machine's memory ran out and not the container's); else
    an end by SIGKILL at the time at which /proc/vmstat's oom_kill rose.
    """
    said: Mapping[str, Any] = (sample or {}).get("oom") or {}
    for kill in reversed(said.get("kills") or []):
        if container and container in kill["cgroup"] and _is_near(kill["t"], ended_at):
            return OomKill(is_likely=False, says=_words(kill))
    if exit_code in BY_SIGKILL and any(_is_near(t, ended_at) for t in said.get("rises") or []):
        return OomKill(
            is_likely=True,
            says="Likely the kernel killed it for want of main memory: it ended by SIGKILL when "
            "the kernel counted such a kill. Its log, which says of whom, cannot be read here.",
        )
    return None


def _is_near(t: float, ended_at: float) -> bool:
    return ended_at - _BEFORE <= t <= ended_at + _AFTER


def _words(kill: Mapping[str, Any]) -> str:
    what = (
        "its container’s limit of memory was reached" if kill["is_limit"] else "main memory ran out"
    )
    said = (
        f"The kernel killed {kill['name']} (pid {kill['pid']}) because {what}; it had "
        f"{_gib(kill['rss'])}."
    )
    large = [each for each in kill["others"] if each["rss"] >= GIB // 10]
    if large:
        named = ", ".join(f"{each['name']} {_gib(each['rss'])}" for each in large)
        said += f" Also large then: {named}."
    return said


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
