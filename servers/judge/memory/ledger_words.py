"""Descriptions of the ledger's parts and processes: where a figure comes from, what can be done."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from servers.judge.memory.advice import RECLAIM
from servers.judge.memory.pools import GIB, held_by_pid


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
        name=known.get("name") or "unknown process",
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
    what: str
    source: str
    remedy: str


NAMES: dict[Kind, str] = {
    "server": "server",
    "process": "process",
    "programs": "other programs",
    "shared": "shared memory",
    "kernel": "kernel",
    "hugepages": "huge pages",
    "reserved": "reserved by the driver",
    "usual": "always in use",
    "driver_pool": "driver’s page pool",
    "unseen": "holder not visible from here",
    "unattributed": "unattributed",
    "unknown": "not told apart",
    "cache": "page cache",
    "free": "free",
}

_LISTS = (
    "NVML, usedGpuMemory in the card’s lists of compute, graphics and MPS clients (a process in "
    "several lists counts once, with its largest figure)"
)
_OWN = "; outside the GPU RssAnon of /proc/<pid>/status"
_NOTHING = "Nothing needs to be done."

_WORDS: dict[Kind, Words] = {
    "programs": Words(
        what="Memory of the box’s programs outside the GPU that is not listed by name: heap and "
        "stacks, not files.",
        source="AnonPages of {meminfo}, without what is listed by name.",
        remedy="ps aux --sort=-rss | head names the largest.",
    ),
    "shared": Words(
        what="Files in memory: /dev/shm and other tmpfs, and what processes share. Engines pass "
        "tensors between their processes there. It is no page cache: only whoever made it, or "
        "deleting the file, gives it back.",
        source="Shmem of {meminfo}.",
        remedy="ls -lS /dev/shm shows it; what no process maps any more may be deleted.",
    ),
    "kernel": Words(
        what="The kernel’s own: slab, stacks of its threads, page tables, buffers per processor, "
        "swap that it keeps compressed in memory (zram), the cache of ZFS.",
        source="The sum of these lines of {meminfo}; Zram is mem_used_total of "
        "/sys/block/zram*/mm_stat, ZfsArc size of /proc/spl/kstat/zfs/arcstats.",
        remedy=_NOTHING + " slabtop names what is large in it.",
    ),
    "hugepages": Words(
        what="Huge pages that were set aside, used or not; nothing else can have them.",
        source="Hugetlb of {meminfo}.",
        remedy="If nothing needs them: sudo sysctl vm.nr_hugepages=0",
    ),
    "reserved": Words(
        what="What the driver keeps for itself on each card: firmware, page tables, ECC.",
        source="NVML, “reserved” of nvmlDeviceGetMemoryInfo_v2.",
        remedy=_NOTHING + " It cannot be had.",
    ),
    "usual": Words(
        what="In use with nobody there, too: what driver and kernel need at work. A verdict "
        "counts only what exceeds it.",
        source="{in_use}, without what processes hold; at most the least that was seen "
        "in use since the boot while nobody was on the GPU (before that was seen, a usual value).",
        remedy=_NOTHING,
    ),
    "driver_pool": Words(
        what="Pages that the driver got back from programs that have ended, and keeps in a pool "
        "of its own. The next CUDA program can use them, but they do not count as free.",
        source="{in_use}, without what processes hold and what is always in use; "
        "EnableSystemMemoryPools in /proc/driver/nvidia/params is on.",
        remedy=f"{RECLAIM} (as root, while no engine serves). For good: options nvidia "
        "NVreg_EnableSystemMemoryPools=0 in /etc/modprobe.d, or a 580 driver.",
    ),
    "unattributed": Words(
        what="In use, more than always, and held by no process that the driver lists: managed "
        "memory of a running engine, memory on its way back, or lost.",
        source="{in_use}, without what processes hold and what is always in use.",
        remedy="Nothing while an engine runs or has just ended; the verdict says when it is lost.",
    ),
    "unseen": Words(
        what="In use by processes that cannot be seen from here.",
        source="{in_use}, without what the processes hold that can be seen.",
        remedy="Run inferdash’s watcher on the box itself, or its container with pid: host.",
    ),
    "unknown": Words(
        what="In use; the driver and the kernel do not report what is in it.",
        source="The total of the card, without what is reported.",
        remedy="See nvidia-smi on the box.",
    ),
    "cache": Words(
        what="Copies of files that the kernel keeps because nobody else needs the memory. It "
        "gives them up as soon as a program asks for memory.",
        source="{cache} of {meminfo}, without Shmem.",
        remedy=_NOTHING + " Where a program counts only free memory: "
        "sync; echo 1 > /proc/sys/vm/drop_caches (as root); files are read from disk again then.",
    ),
    "free": Words(what="Free at once.", source="{free}.", remedy="A start may take it."),
}

_FIGURES = {
    "discrete": {
        "meminfo": "",
        "cache": "",
        "in_use": "NVML, total - free - reserved",
        "free": "NVML, “free” of nvmlDeviceGetMemoryInfo",
    },
    "unified": {
        "meminfo": "/proc/meminfo",
        "cache": "Cached + Buffers + SwapCached",
        "in_use": "MemTotal of /proc/meminfo, without every line of it that has an owner",
        "free": "MemFree of /proc/meminfo, which is also what CUDA sees; MemAvailable adds the page "
        "cache that the kernel would give up",
    },
    "numa": {
        "meminfo": "the node’s meminfo (/sys/devices/system/node)",
        "cache": "FilePages",
        "in_use": "MemTotal of the node’s meminfo, without every line of it that has an owner",
        "free": "MemFree of the node’s meminfo",
    },
}


def words(kind: Kind, pool: str) -> Words:
    """What is said of a part of this kind; `pool` is discrete, unified or numa."""
    found, figures = _WORDS.get(kind, _WORDS["unknown"]), _FIGURES.get(pool, _FIGURES["discrete"])
    return Words(what=found.what, source=found.source.format_map(figures), remedy=found.remedy)


def of_holder(holder: MemoryHolder, pool: str) -> Words:
    """What is said of a server, by one of its processes, or of any other process."""
    source = _LISTS + (_OWN if pool == "unified" else "") + "."
    if holder.server:
        return Words(
            what="What the processes in the server’s container hold.",
            source=source + " The container from /proc/<pid>/cgroup.",
            remedy="Stop the server, or let it take less: --gpu-memory-utilization (vLLM), "
            "--mem-fraction-static (SGLang), a shorter context.",
        )
    if holder.state == "gone":
        return Words(
            what="The process has ended, but the driver still keeps memory for it: its memory is "
            "on its way back, or another process has inherited its device files.",
            source=source + " /proc has no such process.",
            remedy="Wait a minute; then the verdict says what to do.",
        )
    where = "in a container that is none of inferdash’s" if holder.container else "on the box"
    return Words(
        what=f"A program that inferdash did not start, {where}.",
        source=source,
        remedy="The user who started it can end it; inferdash ends nothing that it did not start.",
    )


def excess(size: int) -> str:
    """What is said where the figures exceed the pool, by so many bytes."""
    return (
        f"The figures exceed the pool by {_gib(size)}: they were read at slightly different "
        "moments, or memory that processes share counts for each of them. What is shown as free "
        "is smaller by as much."
    )


def own_excess(size: int) -> str:
    return (
        f"Programs hold {_gib(size)} more outside the GPU than the machine has in use: "
        "memory that they share counts for each of them, and was counted once here."
    )


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 20 else f"{size / 2**20:.1f} MiB"
