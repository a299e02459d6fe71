"""OOM kills of an engine, and the sentences for them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

# Who tells of it, the least telling first. counter: only the machine's count of such kills rose.
type OomSource = Literal["counter", "docker", "cgroup", "kernel"]
_SOURCES: tuple[OomSource, ...] = ("counter", "docker", "cgroup", "kernel")

# The id in the catalogue of failures.
CAUSE = "main-memory-oom"

# Seconds between the kill and the end of its container: engines of several processes take a while
# to notice that one is gone.
NOTICES = 60.0
# Seconds that the counter may be read later than the end is noted: a sample a second, a busy box.
READ_LATE = 10.0

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Oom:
    """A kill that has to do with one run. None, "": not known."""

    source: OomSource
    at: float  # unix seconds
    name: str = ""  # of the process
    pid: int | None = None
    held: int | None = None  # bytes of main memory: the process's, or its whole container's
    limit: int | None = None  # bytes that its container may use
    is_limit: bool | None = None  # it was that limit which was reached, and not the machine's end
    others: tuple[tuple[str, int], ...] = ()  # the largest programs beside it: bytes
    said: str = ""  # the kernel's line

    @property
    def is_sure(self) -> bool:
        return self.source != "counter"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Oom | None":
        """None of {}: no such kill is known."""
        if not kept:
            return None
        others = tuple((str(name), int(size)) for name, size in kept.get("others", ()))
        return cls(**{**kept, "others": others})


def says_more(new: Oom, old: Oom | None) -> bool:
    """Whether a source tells more of the same kill than the one that was heard first."""
    return old is None or _SOURCES.index(new.source) > _SOURCES.index(old.source)


def may_explain(moved_at: float, ended_at: float) -> bool:
    """Whether a rise of the counter, seen at `moved_at`, fits an end; unix seconds.

    Rule: the kill comes before the end, by no more than an engine takes to notice it.
    """
    return ended_at - NOTICES <= moved_at <= ended_at + READ_LATE


def is_anothers(
    kills: Iterable[Mapping[str, Any]], container: str, move: Mapping[str, Any]
) -> bool:
    """Whether the kernel's log names others for every kill that one rise of the counter counts."""
    near = [each for each in kills if abs(each["t"] - move["t"]) <= READ_LATE]
    elsewhere = [each for each in near if each.get("container") != container]
    return len(elsewhere) >= int(move["count"])


def explain(oom: Oom) -> str:
    """What happened, what it had and what else was large: sentences for a person."""
    who = f"{oom.name} (process {oom.pid})" if oom.name else "a process of this engine"
    if not oom.is_sure:
        first = (
            "It is likely that the kernel killed it because main memory ran out: the box's count "
            "of such kills rose when it ended. No source that can be read here names the process."
        )
    elif oom.is_limit:
        first = f"The kernel killed {who}: its container had reached its limit of main memory."
    elif oom.is_limit is False:
        first = f"The kernel killed {who}: the box had no main memory left."
    else:
        first = f"The kernel killed {who} because main memory ran out."
    parts = [first, _had(oom), _describe_others(oom)]
    parts.append("This is main memory; it is GPU memory, too, only where both are one.")
    return " ".join(part for part in parts if part)


def _had(oom: Oom) -> str:
    had = f"It had {_size(oom.held)}" if oom.held else ""
    limit = f"its container may use {_size(oom.limit)}" if oom.limit else ""
    if had and limit:
        return f"{had}, and {limit}."
    said = had or limit
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _describe_others(oom: Oom) -> str:
    if not oom.others:
        return ""
    named = ", ".join(f"{name} {_size(size)}" for name, size in oom.others)
    return f"Also large: {named}."


def _size(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.0f} MiB"
