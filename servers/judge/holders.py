"""Who holds the memory of each GPU, from one sample of the collector.

The parts of a GPU add up to its total exactly: what no process accounts for is a part of
its own, never dropped and never blamed on somebody.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

type Part = Literal["server", "other", "rest", "reserved", "free"]

# How loud a page says it.
LEVELS = {"leaked": "failed", "residual": "attention", "reclaimable": "attention"}

TONES = 4  # a meter tells servers apart by shade, and starts over after these


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a meter. `start` and `width` are percent of the whole."""

    part: Part
    name: str
    size: int  # bytes
    start: float
    width: float
    tone: int = 0  # 1..TONES for servers


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process on a GPU. `used` is None when the driver does not tell how much it holds."""

    pid: int
    name: str
    title: str
    user: str
    state: str
    server: str  # the slug of the server whose container it runs in; else ""
    used: int | None  # bytes


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the judge of its memory says when all is not plainly well."""

    verdict: str
    reason: str
    advice: str

    @property
    def level(self) -> str:
        return LEVELS.get(self.verdict, "")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU as a page shows it. None means that the card does not report the value."""

    index: int
    key: str  # the UUID, and what the charts call it
    name: str
    capability: str
    kind: str  # discrete, unified, numa; "" when nobody knows
    total: int | None
    used: int | None
    free: int | None
    segments: tuple[Segment, ...]
    holders: tuple[Holder, ...] | None
    util: int | None
    temperature: int | None
    power: float | None
    power_limit: float | None
    sm_mhz: int | None
    sm_max_mhz: int | None
    mem_mhz: int | None
    mem_max_mhz: int | None
    throttle: tuple[str, ...] | None
    fan: int | None
    pcie: str
    fault: str
    verdict: "Told | None"  # None: not judged yet, or nothing but in order

    @property
    def is_unified(self) -> bool:
        return self.kind == "unified"

    @property
    def named(self) -> tuple[Segment, ...]:
        """The parts that a legend names: those that can be seen, and always what is free."""
        return tuple(
            part
            for part in self.segments
            if part.part in ("server", "free") or (part.part != "reserved" and part.width >= 1)
        )


def gpus(sample: Mapping[str, Any], servers: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs of a sample. `servers` maps container ids to the slugs of their servers."""
    processes = {process["pid"]: process for process in sample.get("processes") or []}
    verdicts = {each["gpu"]: _told(each) for each in sample.get("verdicts") or []}
    tones: dict[str, int] = {}
    found = []
    for card in sample.get("gpus") or []:
        holders = _holders(card, processes, servers)
        for holder in holders or ():
            if holder.server:
                tones.setdefault(holder.server, len(tones) % TONES + 1)
        sees_all = bool(sample.get("sees_host_pids"))
        segments = _segments(card, holders or (), tones, sees_all)
        found.append(_gpu(card, holders, segments, verdicts.get(card.get("uuid"))))
    return tuple(found)


def memory_by_container(sample: Mapping[str, Any]) -> dict[str, int]:
    """Bytes that each container holds on all GPUs together.

    A container is left out where the driver does not tell how much a process of it holds.
    """
    containers = {each["pid"]: each.get("container") for each in sample.get("processes") or []}
    held: dict[str, int | None] = {}
    for card in sample.get("gpus") or []:
        for process in card.get("processes") or []:
            if not (container := containers.get(process["pid"])):
                continue
            before, used = held.get(container, 0), process.get("used")
            held[container] = None if before is None or used is None else before + used
    return {container: size for container, size in held.items() if size is not None}


def others(sample: Mapping[str, Any], own: Collection[str]) -> tuple[str, ...] | None:
    """Who holds GPU memory beside these containers, by the processes' names.

    None where the driver does not list processes, or the box's own cannot be seen.
    """
    cards = sample.get("gpus") or []
    if not sample.get("sees_host_pids") or any(card.get("processes") is None for card in cards):
        return None
    processes = {each["pid"]: each for each in sample.get("processes") or []}
    found = {}
    for each in (each for card in cards for each in card["processes"]):
        process = processes.get(each["pid"], {})
        if process.get("container") not in own:
            found[each["pid"]] = process.get("name") or "unknown process"
    return tuple(sorted(set(found.values())))


def key(card: Mapping[str, Any]) -> str:
    """The name of a card in charts; its place where it has no UUID."""
    return card.get("uuid") or f"gpu-{card['index']}"


def _told(said: Mapping[str, Any]) -> Told | None:
    if said["verdict"] == "ok":
        return None
    return Told(verdict=said["verdict"], reason=said["reason"], advice=said["advice"])


def _gpu(
    card: Mapping[str, Any],
    holders: tuple[Holder, ...] | None,
    segments: tuple[Segment, ...],
    verdict: Told | None,
) -> Gpu:
    throttle = card.get("throttle")
    return Gpu(
        index=card["index"],
        key=key(card),
        name=(card.get("name") or "unnamed GPU").removeprefix("NVIDIA "),
        capability=card.get("compute_capability") or "",
        kind=card.get("kind") or "",
        total=card.get("total"),
        used=card.get("used"),
        free=card.get("free"),
        segments=segments,
        holders=holders,
        util=card.get("util"),
        temperature=card.get("temperature_c"),
        power=card.get("power_w"),
        power_limit=card.get("power_limit_w"),
        sm_mhz=card.get("sm_mhz"),
        sm_max_mhz=card.get("sm_max_mhz"),
        mem_mhz=card.get("mem_mhz"),
        mem_max_mhz=card.get("mem_max_mhz"),
        throttle=None if throttle is None else tuple(throttle),
        fan=card.get("fan"),
        pcie=_pcie(card),
        fault=card.get("fault") or "",
        verdict=verdict,
    )


def _holders(
    card: Mapping[str, Any], processes: Mapping[int, Mapping[str, Any]], servers: Mapping[str, str]
) -> tuple[Holder, ...] | None:
    listed = card.get("processes")
    if listed is None:
        return None
    found = []
    for each in listed:
        process = processes.get(each["pid"], {})
        found.append(
            Holder(
                pid=each["pid"],
                name=process.get("name") or "unknown process",
                title=process.get("title") or "",
                user=process.get("user") or "",
                state=process.get("state") or "",
                server=servers.get(process.get("container") or "", ""),
                used=each.get("used"),
            )
        )
    return tuple(sorted(found, key=lambda holder: (-(holder.used or 0), holder.pid)))


def _segments(
    card: Mapping[str, Any], holders: tuple[Holder, ...], tones: Mapping[str, int], sees_all: bool
) -> tuple[Segment, ...]:
    total, free = card.get("total"), card.get("free")
    if not total or free is None:
        return ()
    sizes: dict[tuple[Part, str], int] = {}
    for holder in holders:
        part = _part(holder, total)
        sizes[part] = sizes.get(part, 0) + (holder.used or 0)
    reserved = card.get("reserved") or 0
    # On a unified pool the machine's own memory is in here too; on a card it is what the
    # driver keeps for its clients, or what processes hold that cannot be seen from here.
    rest = total - free - reserved - sum(sizes.values())
    if rest > 0:
        sizes["rest", _rest_name(card, sees_all)] = rest
    sizes["reserved", "driver"] = reserved
    order = {"server": 0, "other": 1, "rest": 2, "reserved": 3}
    segments = []
    at = 0
    for (kind, name), size in sorted(sizes.items(), key=lambda item: order[item[0][0]]):
        # Two readings that are not of the same instant may exceed the whole.
        size = min(size, total - at)
        if size > 0:
            segments.append(_segment(kind, name, size, at, total, tones.get(name, 0)))
            at += size
    if at < total:
        segments.append(_segment("free", "free", total - at, at, total, 0))
    return tuple(segments)


def _part(holder: Holder, total: int) -> tuple[Part, str]:
    if holder.server:
        return "server", holder.server
    # What is too thin to be seen in a meter is not named in it either.
    return "other", holder.name if (holder.used or 0) >= total / 100 else "others"


def _rest_name(card: Mapping[str, Any], sees_all: bool) -> str:
    if card.get("kind") == "unified":
        return "rest of the machine"
    return "not attributed" if sees_all else "holder not visible from here"


def _segment(part: Part, name: str, size: int, at: int, total: int, tone: int) -> Segment:
    return Segment(
        part=part,
        name=name,
        size=size,
        start=round(at * 100 / total, 3),
        width=round(size * 100 / total, 3),
        tone=tone if part == "server" else 0,
    )


def _pcie(card: Mapping[str, Any]) -> str:
    generation, width = card.get("pcie_gen"), card.get("pcie_width")
    if generation is None or width is None:
        return ""
    most = (card.get("pcie_gen_max"), card.get("pcie_width_max"))
    now = f"Gen{generation} ×{width}"
    return (
        now if None in most or most == (generation, width) else f"{now} of Gen{most[0]} ×{most[1]}"
    )


def point(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What the charts keep of a sample: utilisation in percent and memory in use in bytes."""
    cards = sample.get("gpus") or []
    return {
        "t": sample["t"],
        "gpus": {key(card): [card.get("util"), card.get("used")] for card in cards},
    }


def columns(points: list[dict[str, Any]]) -> dict[str, Any]:
    """The points as uPlot wants them: one list of times, and for each GPU its two lists."""
    keys = sorted({name for each in points for name in each["gpus"]})
    return {
        "t": [each["t"] for each in points],
        "gpus": {
            name: {
                "util": [each["gpus"].get(name, [None, None])[0] for each in points],
                "used": [each["gpus"].get(name, [None, None])[1] for each in points],
            }
            for name in keys
        },
    }
