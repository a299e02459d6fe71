"""The ledger of a memory pool: its parts, which add up to its total exactly.

A pool is a discrete card's memory, the memory of a machine that shares it with its GPU, or the
NUMA node that is a GPU's. Every size is in bytes. What is unattributed is the figure of the
verdict of judge.memory.verdicts, made by the same formulas (judge.pools).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from servers.judge.memory.advice import RECLAIM, has_driver_pool
from servers.judge.memory.pools import BUCKETS, GIB, Pool, held_by_pid, sum_page_cache
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


# In the order in which a bar shows them.
type PartKind = Literal[
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
_MESSAGES: dict[PartKind, tuple[str, str]] = {
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


def describe_part(kind: PartKind, pool: str) -> Words:
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


TONES = 6  # a bar tells servers apart by shade, and starts over after these

_ORDER: tuple[PartKind, ...] = get_args(PartKind.__value__)
_NAMED_BUCKETS = ("MemFree", "AnonPages", "Hugetlb")
_SMALL = 0.01  # of the pool: below, a legend leaves a part out


@dataclass(frozen=True, kw_only=True)
class PoolPart:
    """One part of a pool. `start` and `width` are percent of the whole."""

    kind: PartKind
    key: str  # its name for good: "server-glm-5", "process-4001", "cache"
    name: str
    size: int  # bytes
    told: bool = True  # False: it has some, and the driver does not tell how much
    words: Words
    holders: tuple[MemoryHolder, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()  # what it was read from: name and bytes
    tone: int = 0  # 1..TONES for servers
    start: float = 0.0
    width: float = 0.0

    @property
    def is_loud(self) -> bool:
        """Whether a person should look at it first."""
        return self.kind in ("unattributed", "driver_pool") and self.size > GIB


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The parts of one pool, in the order in which a bar shows them; free is always the last."""

    total: int
    parts: tuple[PoolPart, ...]
    # What the figures, as they were read, exceed the total by: they are not of one instant, or
    # count something twice. The parts were made to fit; `notes` says so.
    excess: int
    notes: tuple[str, ...]
    available: int | None  # to programs, page cache included; None on a card of its own

    @property
    def named(self) -> tuple[PoolPart, ...]:
        """The parts that a short legend names: those that can be seen, and what is free."""
        return tuple(
            part
            for part in self.parts
            if part.kind in ("server", "free")
            or (part.kind not in ("reserved", "usual") and part.size >= _SMALL * self.total)
        )

    @property
    def is_loud(self) -> bool:
        return any(part.is_loud for part in self.parts)

    def size(self, kind: PartKind) -> int:
        """Bytes of all parts of this kind together."""
        return sum(part.size for part in self.parts if part.kind == kind)


def ledger(
    card: Mapping[str, Any],
    pool: Pool | None,
    sample: Mapping[str, Any],
    servers: Mapping[str, str],
    tones: dict[str, int],
) -> Ledger | None:
    """The ledger of a card's memory; None where nobody tells how much it has.

    `pool` is what judge.memory.pools makes of the card, None where it makes nothing. `servers` maps
    container ids to slugs; `tones` remembers the shade of each server from card to card. The
    sample carries its verdicts; without one, all that nobody holds is unattributed.
    """
    total = pool.total if pool else card.get("total")
    if not total:
        return None
    of = _Reading(card, pool, sample, servers)
    found = [*_holders(of, tones), *_machine(of), *_rest(of)]
    parts, excess = _fit_parts([part for part in found if part.size or not part.told], of, total)
    notes = [*of.notes]
    if excess:
        notes.append(describe_excess(excess))
    is_shared = of.kind == "unified"
    return Ledger(
        total=total,
        parts=_place_parts(parts, total),
        excess=excess,
        notes=tuple(notes),
        available=of.lines.get("MemAvailable") if is_shared else None,
    )


class _Reading:
    """What one sample says of one card."""

    def __init__(
        self,
        card: Mapping[str, Any],
        pool: Pool | None,
        sample: Mapping[str, Any],
        servers: Mapping[str, str],
    ) -> None:
        self.card, self.pool, self.sample = card, pool, sample
        self.kind: str = (pool.kind if pool else card.get("kind")) or "discrete"
        self.lines = pool.lines if pool else {}
        self.notes: list[str] = []
        listed = on_card(card, sample, servers)
        self.sees_all = listed is not None and bool(sample.get("sees_host_pids"))
        self.clients = listed or ()
        self.programs: tuple[MemoryHolder, ...] = ()
        if pool and self.kind == "unified":
            on_gpu = frozenset(each.pid for each in self.clients)
            self.programs = beside_gpus(sample, servers, besides=on_gpu)
        self._fit_own()
        said = [
            each for each in sample.get("verdicts") or [] if pool and each.get("gpu") == pool.gpu
        ]
        self.verdict: Mapping[str, Any] | None = said[0] if said else None

    def part(self, kind: PartKind, size: int, **more: Any) -> PoolPart:
        words = more.pop("words", None) or describe_part(kind, self.kind)
        values: dict[str, Any] = {"key": kind, "name": words.name, **more}
        return PoolPart(kind=kind, size=size, words=words, **values)

    def _fit_own(self) -> None:
        """What programs hold outside the GPU is part of AnonPages, and together not more."""
        self.own = {each.pid: each.own or 0 for each in (*self.clients, *self.programs)}
        most, told = self.lines.get("AnonPages") or 0, sum(self.own.values())
        if told > most:
            self.own = {pid: size * most // told for pid, size in self.own.items()}
            if self.lines:
                self.notes.append(describe_own_excess(told - most))

    def sum_held(self, holder: MemoryHolder) -> int:
        return (holder.used or 0) + self.own.get(holder.pid, 0)


def _holders(of: _Reading, tones: dict[str, int]) -> Iterator[PoolPart]:
    """A part for each server, with all of its processes, and one for each other process."""
    groups: dict[str, list[MemoryHolder]] = {}
    for each in (*of.clients, *of.programs):
        name = f"server-{each.server}" if each.server else f"process-{each.pid}"
        groups.setdefault(name, []).append(each)
    found = []
    for key, group in groups.items():
        first, size = group[0], sum(of.sum_held(each) for each in group)
        words = describe_holder(first, of.kind)
        on_gpu = say("memory.part-lines-on-gpu").text
        lines = [(on_gpu, sum(each.used or 0 for each in group))]
        own = sum(of.own.get(each.pid, 0) for each in group)
        found.append(
            of.part(
                "server" if first.server else "process",
                size,
                key=key,
                name=first.server or (words.name if first.state == "gone" else first.name),
                told=all(each.used is not None for each in group),
                words=words,
                holders=tuple(group),
                lines=(*lines, (say("memory.part-lines-outside").text, own)) if own else (),
                tone=tones.setdefault(first.server, len(tones) % TONES + 1) if first.server else 0,
            )
        )
    yield from sorted(found, key=lambda part: (-part.size, part.key))


def _machine(of: _Reading) -> Iterator[PoolPart]:
    """What a meminfo counts and no GPU process holds: of unified pools and NUMA nodes only."""
    lines = of.lines
    if not lines:
        return
    cache = sum_page_cache(lines)
    shared = min(lines.get("Shmem") or 0, cache)
    anonymous = (lines.get("AnonPages") or 0) - sum(of.own.values())
    kernel = [name for name in BUCKETS if name not in _NAMED_BUCKETS]
    yield of.part("programs", anonymous, lines=_lines(of, "AnonPages"))
    yield of.part("shared", shared, lines=_lines(of, "Shmem"))
    yield of.part("kernel", sum(lines.get(name) or 0 for name in kernel), lines=_lines(of, *kernel))
    yield of.part("hugepages", lines.get("Hugetlb") or 0, lines=_lines(of, "Hugetlb"))
    counted = ("Cached", "Buffers", "SwapCached", "FilePages", "Shmem")
    yield of.part("cache", cache - shared, lines=_lines(of, *counted))


def _lines(of: _Reading, *names: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, of.lines[name]) for name in names if of.lines.get(name))


def _rest(of: _Reading) -> Iterator[PoolPart]:
    """What is reserved and free, and what is in use and held by nobody."""
    if of.lines:
        yield of.part("free", of.lines["MemFree"], lines=_lines(of, "MemFree", "MemAvailable"))
    else:
        yield of.part("free", max(0, of.card.get("free") or 0))
        yield of.part("reserved", max(0, of.card.get("reserved") or 0))
    if of.pool is None:
        return
    unheld = max(0, of.pool.unheld)
    size = unheld
    if of.verdict is not None:
        size = min(unheld, int(of.verdict["unattributed"]))
    yield of.part("usual", unheld - size)
    kind: PartKind = "unattributed" if of.sees_all else "unseen"
    if kind == "unattributed" and of.verdict and of.verdict["verdict"] == "reclaimable":
        kind = "driver_pool" if has_driver_pool(of.sample.get("driver_params") or {}) else kind
    words = describe_part(kind, of.kind)
    if kind != "unseen" and of.verdict is not None and of.verdict["verdict"] != "ok":
        words = replace(words, remedy=of.verdict["advice"] or words.remedy)
    yield of.part(kind, size, words=words)


def _fit_parts(parts: Sequence[PoolPart], of: _Reading, total: int) -> tuple[list[PoolPart], int]:
    """The parts made to add up, and by how much they had exceeded the total."""
    gap = total - sum(part.size for part in parts)
    kept = list(parts)
    if gap > 0:
        kept.append(of.part("unknown", gap))
    # Free memory was read first: what processes have taken since comes out of it.
    places = sorted(range(len(kept)), key=lambda at: (kept[at].kind != "free", -kept[at].size))
    over = max(0, -gap)
    for at in places:
        taken = min(over, kept[at].size)
        kept[at] = replace(kept[at], size=kept[at].size - taken)
        over -= taken
    if not any(part.kind == "free" for part in kept):
        kept.append(of.part("free", 0))
    return kept, max(0, -gap)


def _place_parts(parts: Sequence[PoolPart], total: int) -> tuple[PoolPart, ...]:
    placed: list[PoolPart] = []
    at = 0
    for part in sorted(parts, key=lambda each: _ORDER.index(each.kind)):
        start, width = round(at * 100 / total, 3), round(part.size * 100 / total, 3)
        placed.append(replace(part, start=start, width=width))
        at += part.size
    return tuple(placed)
