"""Pools of GPU memory in a sample: what is used, and what no process holds.

A pool is a discrete card's memory, the memory of a machine that shares it with its GPU, or the
NUMA node that is a GPU's. Every size is in bytes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

type Kind = Literal["unified", "discrete", "numa"]
type Snapshot = Mapping[str, Any]

GIB = 2**30

# Whatever else of /proc/meminfo overlaps with these. What is in none of them and not free is
# held by a driver.
BUCKETS = (
    "MemFree",
    "AnonPages",
    "Slab",
    "KernelStack",
    "PageTables",
    "SecPageTables",
    "Percpu",
    "Hugetlb",
    "Zswap",
    "Bounce",
    "Balloon",
    # In no meminfo; the collector adds them.
    "Zram",
    "ZfsArc",
)
_CACHE = ("Buffers", "Cached", "SwapCached")
# A node's own list calls the three by one name.
_NODE_CACHE = "FilePages"

# Desktops keep a GPU open all day; nobody's model is in there.
_DESKTOP = re.compile(
    r"(Xorg|X|Xwayland|gnome-.*|kwin.*|plasmashell|mutter.*|sddm.*|gdm.*|nautilus|cinnamon|"
    r"xfwm4|nvidia-persiste.*|nvidia-cuda-mps.*)\Z"
)
_WORKER = re.compile(r"VLLM::|sglang::|ray::", re.IGNORECASE)
# Machines whose GPU uses the main memory, by its name and compute capability.
_SHARES = re.compile(r"GB10|Thor|Orin|N1X")
_SHARING = ("8.7", "11.0", "12.1")
_SAME_SIZE = 0.03
_MOMENT = 60.0
_DEAD = ("Z", "X")
_STUCK = ("D", *_DEAD)


@dataclass(frozen=True, kw_only=True)
class PoolProcess:
    """A process on a GPU, as the driver lists it and as the kernel knows it."""

    pid: int
    used: int | None  # bytes; None: the driver does not tell
    name: str
    state: str
    ppid: int | None
    start: float | None  # seconds since 1970
    container: str
    is_known: bool  # the kernel has a process of this number

    @property
    def is_desktop(self) -> bool:
        program = self.name.partition(" ")[0].rpartition("/")[2]
        return bool(_DESKTOP.match(program))

    @property
    def is_worker(self) -> bool:
        """Its title is one that an engine gives to the processes that hold its memory."""
        return bool(_WORKER.match(self.name))

    @property
    def is_stuck(self) -> bool:
        return not self.is_known or self.state[:1] in _STUCK


@dataclass(frozen=True, kw_only=True)
class Pool:
    gpu: str  # the UUID
    kind: Kind
    total: int
    in_use: int  # by the driver and its clients, as far as can be told from outside
    held: int  # by clients that are there, as the driver says
    clients: tuple[PoolProcess, ...]
    is_listed: bool = True  # the driver lists its clients, be there one or none
    # The lines of meminfo it was read from, in bytes; none for a discrete card.
    lines: Mapping[str, int] = field(default_factory=dict)

    def compute_unattributed(self, baseline: int) -> int:
        """Bytes that nobody holds beyond those that are in use with nobody there."""
        return max(0, self.unheld - baseline)

    @property
    def unheld(self) -> int:
        """In use although no client holds it; below zero where the two are of different moments."""
        return self.in_use - self.held

    @property
    def is_told_apart(self) -> bool:
        """Whether what programs and files take of a machine's memory is known."""
        return not self.lines or (
            self.lines.get("AnonPages") is not None
            and any(self.lines.get(name) is not None for name in ("Cached", _NODE_CACHE))
        )

    @property
    def is_explained(self) -> bool:
        """Whether the driver tells of every client how much it holds."""
        return all(client.used is not None for client in self.clients)


def pools(snapshot: Snapshot) -> Iterator[Pool | str]:
    """A pool for each GPU, or the UUID of one whose memory the driver does not tell."""
    known = {each["pid"]: each for each in snapshot.get("processes") or [] if "pid" in each}
    names: dict[str, int] = {}
    for card in snapshot.get("gpus") or []:
        kind = kind_of(card, snapshot)
        total, in_use = _compute_used(card, kind, snapshot)
        name = str(card.get("uuid") or card.get("name") or "")
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name} ({names[name]})"
        if total is None or in_use is None:
            yield name
            continue
        clients = tuple(_clients(card, known, snapshot))
        held = sum(each.used or 0 for each in clients)
        yield Pool(
            gpu=name,
            kind=kind,
            total=total,
            in_use=in_use,
            held=held,
            clients=clients,
            is_listed=card.get("processes") is not None,
            lines=_lines(card, kind, snapshot),
        )


def kind_of(card: Mapping[str, Any], snapshot: Snapshot) -> Kind:
    """The kind of a GPU's memory; of a recording that does not tell, by what else it says.

    Rule: memory is shared where the driver tells no size of its own, or the machine's, and the
    GPU is of a machine that shares it; docs/gpu-memory.md.
    """
    said = card.get("kind")
    if said in ("unified", "discrete", "numa"):
        return said  # type: ignore[no-any-return]
    if card.get("node_meminfo"):
        return "numa"
    total = card.get("total") or 0
    machine = (snapshot.get("meminfo") or {}).get("MemTotal") or 0
    has_own = total and abs(total - machine) > _SAME_SIZE * total
    shares = (
        _SHARES.search(card.get("name") or "") or str(card.get("compute_capability")) in _SHARING
    )
    return "unified" if shares and not has_own else "discrete"


def sees_processes(snapshot: Snapshot) -> bool:
    """Whether the snapshot tells of every process of the box."""
    return bool(snapshot.get("sees_host_pids")) and snapshot.get("processes") is not None


def _compute_used(
    card: Mapping[str, Any], kind: Kind, snapshot: Snapshot
) -> tuple[int | None, int | None]:
    if kind == "discrete":
        total, free = card.get("total"), card.get("free")
        if not total or free is None:
            return None, None
        # Never the driver's own "used": it counts what is reserved in some versions only.
        return total, max(0, total - free - (card.get("reserved") or 0))
    counts = _lines(card, kind, snapshot)
    if counts.get("MemTotal") is None or counts.get("MemFree") is None:
        return None, None
    accounted = sum_page_cache(counts) + sum(counts.get(name) or 0 for name in BUCKETS)
    return counts["MemTotal"], max(0, counts["MemTotal"] - accounted)


def _lines(card: Mapping[str, Any], kind: Kind, snapshot: Snapshot) -> Mapping[str, int]:
    main: Mapping[str, int] = snapshot.get("meminfo") or {}
    if kind != "numa":
        return main if kind == "unified" else {}
    node: Mapping[str, int] = card.get("node_meminfo") or {}
    # A node's list counts huge pages; how large one is stands in the machine's.
    pages, size = node.get("HugePages_Total"), main.get("Hugepagesize")
    return {"Hugetlb": pages * size, **node} if pages and size else node


def sum_page_cache(lines: Mapping[str, int]) -> int:
    """Bytes of page cache, shared memory among them, by the lines of a meminfo."""
    of_node = lines.get(_NODE_CACHE)
    return sum(lines.get(name) or 0 for name in _CACHE) if of_node is None else of_node


def given_up(lines: Mapping[str, int]) -> int | None:
    """Bytes of page cache that the kernel would give up for a program; None: it does not tell."""
    free, available = lines.get("MemFree"), lines.get("MemAvailable")
    if free is not None and available is not None:
        return available - free
    if lines.get(_NODE_CACHE) is None:
        return None
    return max(0, sum_page_cache(lines) - (lines.get("Shmem") or 0))


def _clients(
    card: Mapping[str, Any], known: Mapping[int, Mapping[str, Any]], snapshot: Snapshot
) -> Iterator[PoolProcess]:
    for pid, used in held_by_pid(card).items():
        process = known.get(pid, {})
        yield PoolProcess(
            pid=pid,
            used=used,
            name=process.get("title") or process.get("name") or "",
            state=process.get("state") or "",
            ppid=process.get("ppid"),
            start=_compute_start(process.get("start"), snapshot),
            container=process.get("container") or "",
            is_known=pid in known,
        )


def held_by_pid(card: Mapping[str, Any]) -> dict[int, int | None]:
    """Bytes that each process holds of a card, by pid; None where the driver does not tell."""
    largest: dict[int, int | None] = {}
    for each in card.get("processes") or []:
        if "pid" not in each:
            continue
        # As a graphics and as a compute client the same process is listed twice.
        before, used = largest.get(each["pid"]), each.get("used")
        largest[each["pid"]] = used if before is None else max(before, used or 0)
    return largest


def _compute_start(start: object, snapshot: Snapshot) -> float | None:
    """Seconds since 1970 of a start, which the kernel counts in ticks of 10 ms since the boot."""
    if not isinstance(start, (int, float)):
        return None
    uptime = snapshot.get("uptime_s")
    if uptime is None:
        return float(start) if start > 1e9 else None
    # More ticks than the box has had are no ticks; 1e9 of them it has after 115 days.
    if start / 100 > float(uptime) + _MOMENT:
        return float(start)
    return float(snapshot["t"]) - float(uptime) + start / 100


def orphaned_shm(snapshot: Snapshot) -> tuple[int, tuple[str, ...]]:
    """Bytes of shared memory that no process maps, and the largest segments' paths.

    Of what nobody knows whether it is mapped nothing is said.
    """
    left = [each for each in snapshot.get("shm") or [] if each.get("mapped") is False]
    left.sort(key=lambda each: -(each.get("bytes") or 0))
    return sum(each.get("bytes") or 0 for each in left), tuple(each["path"] for each in left[:3])
