"""Pools of GPU memory in a sample, the room in them for a launch, and the guard on loads.

A pool is a discrete card's memory, the memory of a machine that shares it with its GPU, or the
NUMA node that is a GPU's. Every size is in bytes.
"""

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from servers.judge.messages import Sentence, say

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


@dataclass(frozen=True, kw_only=True)
class GpuRoom:
    """One GPU's memory in bytes, as an engine on it would count it."""

    index: int
    total: int
    free: int | None  # None: not known
    is_unified: bool = False
    others: int = 0  # of what is not free, what other programs and the machine hold

    @property
    def named(self) -> str:
        return "The memory that GPU and machine share" if self.is_unified else f"GPU {self.index}"


def rooms(
    sample: Mapping[str, Any] | None,
    cards: Collection[Mapping[str, Any]],
    *,
    own: Collection[str] = (),
) -> tuple[GpuRoom, ...]:
    """The GPUs with what is free of them, in the order of `cards`: what the box has last said
    of them ({"index", "total", "kind"}). Those without a total are left out.

    What processes of the containers `own` hold counts as free: the start that is planned would
    replace them. Without a fresh sample nothing is known to be free. CUDA's total is NVML's
    without what the driver reserves.
    """
    is_fresh = sample is not None and sample.get("stale_s") is None
    now = {card["index"]: card for card in (sample or {}).get("gpus") or []} if is_fresh else {}
    meminfo = (sample or {}).get("meminfo") or {}
    container = {
        each["pid"]: each.get("container") for each in (sample or {}).get("processes") or []
    }
    found = []
    for known in cards:
        card = now.get(known["index"], {})
        is_unified = (card.get("kind") or known.get("kind")) == "unified"
        total = card.get("total") or known.get("total")
        free = meminfo.get("MemAvailable") if is_unified else card.get("free")
        if not total:
            continue
        total -= 0 if is_unified else card.get("reserved") or 0
        mine = sum(
            each.get("used") or 0
            for each in card.get("processes") or []
            if container.get(each["pid"]) in own
        )
        if free is None or not card:
            found.append(
                GpuRoom(index=known["index"], total=total, free=None, is_unified=is_unified)
            )
            continue
        free = min(total, free + mine)
        found.append(
            GpuRoom(
                index=known["index"],
                total=total,
                free=free,
                is_unified=is_unified,
                others=max(0, total - free),
            )
        )
    return tuple(found)


def compute_free(sample: Mapping[str, Any] | None, gpus: str) -> dict[int, int] | None:
    """Free bytes of each of these GPUs ("all", or indices) by index; None where it is not known.

    On unified memory that is what programs may still have of the machine's.
    """
    if sample is None or sample.get("stale_s") is not None:
        return None
    indices = {int(index) for index in gpus.split(",") if index.isdigit()}
    wanted = None if gpus == "all" else indices
    available = (sample.get("meminfo") or {}).get("MemAvailable")
    found = {
        card["index"]: available if card.get("kind") == "unified" else card.get("free")
        for card in sample.get("gpus") or []
        if wanted is None or card["index"] in wanted
    }
    return {index: size for index, size in found.items() if size is not None} or None


def compute_unheld(sample: Mapping[str, Any] | None) -> int | None:
    """Bytes of a unified pool that are in use although no GPU process holds them.

    That is the machine's own memory, and what an engine that has ended did not give back.
    None where GPUs have memory of their own, or where nothing is known.
    """
    if sample is None or sample.get("stale_s") is not None:
        return None
    cards = sample.get("gpus") or []
    known = sample.get("meminfo") or {}
    if "MemTotal" not in known or "MemAvailable" not in known:
        return None
    if not any(card.get("kind") == "unified" for card in cards):
        return None
    held: dict[int, int] = {
        each["pid"]: each.get("used") or 0 for card in cards for each in card.get("processes") or []
    }
    used = int(known["MemTotal"]) - int(known["MemAvailable"])
    return max(0, used - sum(held.values()))


type Level = Literal["fine", "alarm", "stop"]

# Where GPU and programs share the memory, one that runs out of it does not fail: the machine hangs
# until its power is cut (dgx-spark-playbooks#97, #116; 34 to 12.7 GiB in 1.5 s were seen). What is
# left is held against what was foreseen, so that a recipe that leaves little may still start.
WINDOW = 5.0  # seconds over which a fall and a swap storm are measured
STORM = 256 * 2**20  # bytes a second in and out of swap
# Of what was foreseen to be left, this part may still go.
SLACK = 0.5
LEAST = GIB // 2  # below this nothing that was foreseen helps
CALM = 1.2  # an alarm is over when there is so much more than its threshold


@dataclass(frozen=True, kw_only=True)
class GuardThresholds:
    """Bytes that the machine has left; 0: nothing is ever said, or done."""

    alarm: int = 6 * GIB
    stop: int = 3 * GIB

    def foreseen(self, left: int | None) -> "GuardThresholds":
        """Lower where less was foreseen to be left: half of that, and then not twice over."""
        if left is None:
            return self
        floor = max(LEAST, int(left * SLACK))
        return GuardThresholds(
            alarm=min(self.alarm, max(floor, left - GIB)), stop=min(self.stop, floor)
        )


@dataclass(frozen=True, kw_only=True)
class GuardWarning:
    level: Level
    says: str = ""
    code: str = ""  # of the message that begins `says`


class MemoryGuard:
    """Watches one load, by the machine's own figures once a second."""

    def __init__(self, thresholds: GuardThresholds, *, foreseen: int | None) -> None:
        """`foreseen`: bytes that the machine should have left in the end; None: not known."""
        self._thresholds = thresholds.foreseen(foreseen)
        self._foreseen = foreseen
        self._seen: deque[tuple[float, int, int]] = deque()
        self._is_loud = False

    def step(self, t: float, *, available: int, swapped: int) -> GuardWarning:
        """`swapped`: bytes in and out of swap since the machine's start."""
        self._seen.append((t, available, swapped))
        while self._seen[0][0] < t - WINDOW:
            self._seen.popleft()
        alarm, stop = self._thresholds.alarm, self._thresholds.stop
        if stop and available < stop:
            return _warn("stop", self._describe(available))
        if stop and self._swaps and available < max(alarm, stop):
            return _warn("stop", [*self._describe(available), say("memory.guard-swaps")])
        self._is_loud = bool(alarm) and available < alarm * (CALM if self._is_loud else 1)
        if not self._is_loud:
            return GuardWarning(level="fine")
        return _warn("alarm", self._describe(available))

    @property
    def _took(self) -> float:
        return self._seen[-1][0] - self._seen[0][0]

    @property
    def _swaps(self) -> bool:
        """Only what lasted for most of the window is a storm."""
        if self._took < WINDOW * 0.6:
            return False
        return (self._seen[-1][2] - self._seen[0][2]) / self._took >= STORM

    def _describe(self, available: int) -> list[Sentence]:
        if self._foreseen is None:
            said = [say("memory.guard-left", size=available)]
        else:
            foreseen = max(0, self._foreseen)
            said = [say("memory.guard-left-of-foreseen", size=available, foreseen=foreseen)]
        fell = self._seen[0][1] - available
        if self._took and fell / self._took >= GIB / 10:
            said.append(say("memory.guard-falling", rate=fell / self._took))
        return said


def _warn(level: Level, said: list[Sentence]) -> GuardWarning:
    return GuardWarning(level=level, says=" ".join(map(str, said)), code=said[0].code)
