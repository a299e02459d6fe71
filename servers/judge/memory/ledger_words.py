"""Descriptions of the ledger's parts and processes: where a figure comes from, what can be done."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from servers.judge.memory.advice import RECLAIM
from servers.judge.memory.pools import GIB, held_by_pid
from servers.judge.messages import Sentence, say


@dataclass(frozen=True, kw_only=True)
class MemoryHolder:
    """A process that holds memory of a pool. None: not told by the driver, or by the kernel."""

    pid: int
    name: str
    title: str
    user: str
    state: str  # as the kernel writes it; "gone" for one that only the driver still lists
    container: str  # 64 digits; "" where it runs in none
    server: str  # the slug of the server whose container it runs in; else ""
    started_at: datetime | None
    used: int | None  # bytes of the GPU's
    own: int | None = None  # bytes outside the GPU, where both are one pool

    @property
    def size(self) -> int:
        """All that is known of it, in bytes."""
        return (self.used or 0) + (self.own or 0)


def on_card(
    card: Mapping[str, Any], sample: Mapping[str, Any], servers: Mapping[str, str]
) -> tuple[MemoryHolder, ...] | None:
    """The clients of a card, the largest first; None where the driver does not list them.

    `servers` maps container ids to the slugs of their servers.
    """
    if card.get("processes") is None:
        return None
    known = {process["pid"]: process for process in sample.get("processes") or []}
    has_one_pool = card.get("kind") == "unified"
    found = [
        _holder(pid, known.get(pid), servers, used=used, has_one_pool=has_one_pool)
        for pid, used in held_by_pid(card).items()
    ]
    return tuple(sorted(found, key=_by_size))


def beside_gpus(
    sample: Mapping[str, Any], servers: Mapping[str, str], *, besides: frozenset[int]
) -> tuple[MemoryHolder, ...]:
    """The largest programs of the box that are on no GPU, as far as the collector lists them."""
    found = [
        _holder(each["pid"], each, servers, used=0, has_one_pool=True)
        for each in sample.get("programs") or []
        if each["pid"] not in besides
    ]
    return tuple(sorted(found, key=_by_size))


def _by_size(holder: MemoryHolder) -> tuple[int, int]:
    return -holder.size, holder.pid


def _holder(
    pid: int,
    process: Mapping[str, Any] | None,
    servers: Mapping[str, str],
    *,
    used: int | None,
    has_one_pool: bool,
) -> MemoryHolder:
    known = process or {}
    started_at = known.get("started_at")
    return MemoryHolder(
        pid=pid,
        name=known.get("name") or say("memory.part-no-name").text,
        title=known.get("title") or "",
        user=known.get("user") or "",
        state=(known.get("state") or "") if process is not None else "gone",
        container=known.get("container") or "",
        server=servers.get(known.get("container") or "", ""),
        started_at=None if started_at is None else datetime.fromtimestamp(started_at, UTC),
        used=used,
        own=known.get("own") if has_one_pool else None,
    )


type Kind = Literal[
    "server",
    "process",
    "programs",
    "shared",
    "kernel",
    "hugepages",
    "reserved",
    "usual",
    "driver_pool",
    "unseen",
    "unattributed",
    "unknown",
    "cache",
    "free",
]


@dataclass(frozen=True, kw_only=True)
class Words:
    code: str  # of the message
    name: str
    what: str
    source: str
    remedy: str


# What a part is, and where its figure comes from; where it depends on the pool, by the pool's kind.
_MESSAGES: dict[Kind, tuple[str, str]] = {
    "programs": ("memory.part-programs", "memory.source-programs"),
    "shared": ("memory.part-shared", "memory.source-shared"),
    "kernel": ("memory.part-kernel", "memory.source-kernel"),
    "hugepages": ("memory.part-hugepages", "memory.source-hugepages"),
    "reserved": ("memory.part-reserved", "memory.source-reserved"),
    "usual": ("memory.part-usual", "memory.source-usual"),
    "driver_pool": ("memory.part-driver-pool", "memory.source-driver-pool"),
    "unattributed": ("memory.part-unattributed", "memory.source-unattributed"),
    "unseen": ("memory.part-unseen", "memory.source-unseen"),
    "unknown": ("memory.part-unknown", "memory.source-unknown"),
    "cache": ("memory.part-cache", "memory.source-cache"),
    "free": ("memory.part-free", "memory.source-free-of-card"),
}
_FREE = {"unified": "memory.source-free-unified", "numa": "memory.source-free"}
_CACHE = {"unified": "Cached + Buffers + SwapCached", "numa": "FilePages"}


def describe_part(kind: Kind, pool: str) -> Words:
    """What is said of a part of this kind, but server and process; `pool` is discrete, unified or
    numa."""
    code, source = _MESSAGES[kind]
    if kind == "free":
        source = _FREE.get(pool, source)
    said = say(code, command=RECLAIM) if kind == "driver_pool" else say(code)
    return _write(said, say(source, **_figures(source, pool)))


def _figures(source: str, pool: str) -> dict[str, str]:
    """What the message of a source names."""
    shared = pool in ("unified", "numa")
    node = say("memory.figure-meminfo-of-node").text
    meminfo = node if pool == "numa" else "/proc/meminfo"
    match source:
        case "memory.source-reserved" | "memory.source-unknown" | "memory.source-free-of-card":
            return {}
        case (
            "memory.source-usual"
            | "memory.source-driver-pool"
            | "memory.source-unattributed"
            | "memory.source-unseen"
        ):
            of_card = say("memory.figure-in-use-of-card").text
            in_use = say("memory.figure-in-use", meminfo=meminfo).text
            return {"in_use": in_use if shared else of_card}
        case "memory.source-cache":
            return {"meminfo": meminfo, "cache": _CACHE.get(pool, "Cached")}
    return {"meminfo": meminfo}


def describe_holder(holder: MemoryHolder, pool: str) -> Words:
    """What is said of a server, by one of its processes, or of any other process."""
    sources = [say("memory.source-clients")]
    if pool == "unified":
        sources.append(say("memory.source-own"))
    if holder.server:
        return _write(say("memory.part-server"), *sources, say("memory.source-container"))
    if holder.state == "gone":
        said = say("memory.part-process-ended", pid=holder.pid)
        return _write(said, *sources, say("memory.source-gone"))
    own, other = "memory.part-process", "memory.part-process-in-container"
    return _write(say(other if holder.container else own), *sources)


def _write(said: Sentence, *sources: Sentence) -> Words:
    return Words(
        code=said.code,
        name=said.title,
        what=said.text,
        source=" ".join(each.text for each in sources),
        remedy=said.advice,
    )


def describe_excess(size: int) -> str:
    """What is said where the figures exceed the pool, by so many bytes."""
    return say("memory.figures-exceed", size=_size(size)).text


def describe_own_excess(size: int) -> str:
    """The same of what programs hold outside the GPU."""
    return say("memory.figures-exceed-outside", size=_size(size)).text


def _size(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 20 else f"{size / 2**20:.1f} MiB"
