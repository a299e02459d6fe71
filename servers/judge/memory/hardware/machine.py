"""Rules on the machine: its own memory, links, disks, and what its driver has reported."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from servers.judge.memory.hardware.finding import (
    BOX,
    GIB,
    SEVERITIES,
    Card,
    CardRule,
    HardwareFinding,
    HardwareRule,
    HardwareSample,
    Lasting,
    Often,
    Rise,
    Severity,
    build_finding,
    uuid,
)
from servers.judge.messages import Sentence, say
from servers.launch.tables import read_table

FILE = Path(__file__).with_name("xids.yaml")

# Whose fault it mostly is, and the message that says so. "driver": the driver's or the firmware's.
type Origin = Literal["application", "driver", "hardware", "link", "unknown"]

ORIGINS: dict[Origin, str] = {
    "application": "memory.xid-of-program",
    "driver": "memory.xid-of-driver",
    "hardware": "memory.xid-of-hardware",
    "link": "memory.xid-of-link",
    "unknown": "memory.xid-of-unknown",
}


@dataclass(frozen=True, kw_only=True)
class Xid:
    number: int
    severity: Severity
    origin: Origin
    means: str  # a few words
    advice: str
    well_if: str = ""  # with this in the kernel's words it is good news

    def is_well(self, said: str) -> bool:
        return bool(self.well_if) and self.well_if in said

    @property
    def because(self) -> str:
        return say(ORIGINS[self.origin]).text


def xid_of(number: int) -> Xid:
    """A number that is not in the book says so, and is taken seriously."""
    if known := load_shipped().get(number):
        return known
    said = say("memory.xid-unknown", number=number)
    return Xid(
        number=number, severity="warning", origin="unknown", means=said.text, advice=said.advice
    )


@cache
def load_shipped() -> dict[int, Xid]:
    said = read_table(FILE)
    return {
        number: Xid(
            number=number,
            severity=cast(Severity, each["severity"]),
            origin=cast(Origin, each["origin"]),
            means=each["means"],
            advice=" ".join(each["advice"].split()),
            well_if=each.get("well_if", ""),
        )
        for number, each in said.items()
    }


HOUR = 3600.0
# For how long after the last time it is told. A restart of the box ends it at once.
TOLD_FOR: dict[Severity, float] = {"info": HOUR, "warning": 6 * HOUR, "critical": 24 * HOUR}

type Event = Mapping[str, Any]


class XidRule(HardwareRule):
    """One finding a card: its worst, with the others beside it."""

    ids = ("xid",)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        names = {card.get("uuid"): f"GPU {card.get('index')}" for card in now.cards}
        by_card: dict[str, list[tuple[Xid, Event]]] = {}
        for event in now.sample.get("happened") or []:
            if event["what"] != "xid":
                continue
            xid = xid_of(event["number"])
            is_news = now.t - event["last"] <= TOLD_FOR[xid.severity]
            if is_news and not xid.is_well(event.get("said") or ""):
                subject = str(event.get("gpu") or event.get("pci") or BOX)
                by_card.setdefault(subject, []).append((xid, event))
        for subject, found in by_card.items():
            found.sort(key=lambda each: (SEVERITIES.index(each[0].severity), -each[1]["last"]))
            where = names.get(subject) or f"The GPU at {subject}"
            yield _build_finding(subject, where, found)


def _build_finding(subject: str, where: str, found: list[tuple[Xid, Event]]) -> HardwareFinding:
    worst, event = found[0]
    said = say(
        "memory.xid",
        where=where,
        number=worst.number,
        means=worst.means,
        origin=worst.because,
        advice=worst.advice,
    )
    more = []
    if event["count"] > 1:
        more.append(say("memory.happened-often", count=event["count"]))
    if event.get("said"):
        more.append(say("memory.xid-kernel-log", said=event["said"].rstrip(" .")))
    if others := [f"XID {xid.number} ({xid.means})" for xid, _event in found[1:]]:
        more.append(say("memory.xid-others", others=", ".join(others)))
    return build_finding("xid", subject, event["first"], said, *more, severity=worst.severity)


class DriverMemory(HardwareRule):
    """Source: reports of GB10s that hang soon after (open-gpu-kernel-modules#1358)."""

    ids = ("driver_memory",)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for event in now.sample.get("happened") or []:
            if event["what"] != "no_memory" or now.t - event["last"] > HOUR:
                continue
            own, shared = "memory.driver-got-no-memory", "memory.driver-got-no-memory-unified"
            said = say(shared if now.is_unified else own, said=event["said"])
            often = [say("memory.happened-often", count=event["count"])]
            more = often if event["count"] > 1 else []
            yield build_finding("driver_memory", BOX, event["first"], said, *more)


MIB = 2**20

# Percent of the last ten seconds in which some, or all, programs waited. The choice of this
# project: a model that is read from disk makes some wait for a moment, too.
_SOME, _FULL, _FULL_BAD = 10.0, 5.0, 25.0
_PRESSED_AFTER, _CALM_AFTER = 20.0, 30.0

# Swap in use: where the GPU works in the same memory, what is swapped out is part of an engine.
_USED = 1 * GIB
_USED_AFTER, _UNUSED_AFTER = 60.0, 60.0
# A storm, as while a model loads (servers/judge/memory/pools.py) but seen for longer.
_STORM = 100 * MIB  # bytes a second in and out
_STORM_WITHIN = 10.0
_STORM_AFTER, _STORM_OVER = 5.0, 30.0


class PressureRule(HardwareRule):
    """Source: pressure stall information, the kernel's Documentation/accounting/psi.rst."""

    ids = ("memory_pressure",)

    def __init__(self) -> None:
        self._pressed = Lasting(enter=_PRESSED_AFTER, leave=_CALM_AFTER)
        self._halted = Lasting(enter=_PRESSED_AFTER, leave=_CALM_AFTER)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        pressure = now.sample.get("pressure")
        some, full = (pressure["some"], pressure["full"]) if pressure else (0.0, 0.0)
        pressed = self._pressed.find_start(
            BOX, now.t, None if pressure is None else some > _SOME or full > _FULL
        )
        halted = self._halted.find_start(BOX, now.t, None if pressure is None else full > _FULL_BAD)
        if pressed is None or pressure is None:
            return
        left = (now.sample.get("meminfo") or {}).get("MemAvailable")
        code = "memory.pressure-unified" if now.is_unified else "memory.pressure"
        yield build_finding(
            "memory_pressure",
            BOX,
            pressed,
            say(code, some=some, full=full),
            *([] if left is None else [say("memory.available", size=left)]),
            severity="critical" if halted else "warning",
        )


class Swap(HardwareRule):
    ids = ("swap",)

    def __init__(self) -> None:
        self._used = Lasting(enter=_USED_AFTER, leave=_UNUSED_AFTER)
        self._storm = Lasting(enter=_STORM_AFTER, leave=_STORM_OVER)
        self._seen: deque[tuple[float, int]] = deque()

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        meminfo = now.sample.get("meminfo") or {}
        total, free = meminfo.get("SwapTotal"), meminfo.get("SwapFree")
        used = None if total is None or free is None else total - free
        rate = self._rate(now)
        is_storm = None if rate is None else rate >= _STORM
        is_used = None if used is None else used >= _USED
        storm = self._storm.find_start(BOX, now.t, is_storm)
        in_use = self._used.find_start(BOX, now.t, is_used)
        known = {"used": used, "total": total}
        if storm:
            yield build_finding(
                "swap",
                BOX,
                storm,
                say("memory.swap-storm", mib=(rate or 0) / MIB),
                *([] if used is None else [say("memory.swap-share", **known)]),
                severity="critical" if now.is_unified else "warning",
            )
        elif in_use and used is not None:
            code = "memory.swap-in-use-unified" if now.is_unified else "memory.swap-in-use"
            yield build_finding("swap", BOX, in_use, say(code, **known))

    def _rate(self, now: HardwareSample) -> float | None:
        """Bytes a second in and out; None until it was watched for some seconds."""
        swap = now.sample.get("swap")
        if swap is None or now.sample.get("stale_s") is not None:
            return None
        seen, moved = self._seen, int(swap["in"]) + int(swap["out"])
        if seen and (now.t < seen[-1][0] or moved < seen[-1][1]):
            seen.clear()
        seen.append((now.t, moved))
        while seen[0][0] < now.t - _STORM_WITHIN:
            seen.popleft()
        took = now.t - seen[0][0]
        return (moved - seen[0][1]) / took if took >= _STORM_WITHIN / 2 else None


# An idle link drops to its first generation on purpose. Under load (percent) it may not.
_LOAD = 50
_WINDOW, _LOW, _WELL = 20.0, 0.9, 0.5

# DCGM calls more than eight replays a minute a fault; over five minutes, so that one burst is none.
_REPLAYS_A_MINUTE = 8
_REPLAYS_WITHIN = 300.0
_REPLAYS_CALM = 600.0


class Link(CardRule):
    """Told of the last load; what was told holds until the next load shows better."""

    ids = ("pcie_link",)

    def __init__(self) -> None:
        self._low = Often(window=_WINDOW, enter=_LOW, leave=_WELL)
        self._seen: dict[str, Sentence] = {}  # of the last load

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        key, is_low = uuid(card), _is_low(card)
        since = self._low.current(key)
        if is_low is not None:
            since = self._low.find_start(key, now.t, is_low)
            if is_low:
                self._seen[key] = _describe_link(card)
        if since is not None:
            yield build_finding("pcie_link", key, since, self._seen[key])


def _is_low(card: Card) -> bool | None:
    """None: not under load, or not told."""
    names = ("util", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max")
    values = [card.get(each) for each in names]
    if card.get("kind") == "unified" or None in values:
        return None
    util, gen, gen_max, width, width_max = (int(value or 0) for value in values)
    if util < _LOAD:
        return None
    return gen < gen_max or width < width_max


def _describe_link(card: Card) -> Sentence:
    # Half the width at full speed is what many boards are built for.
    is_fast = card["pcie_gen"] >= card["pcie_gen_max"]
    is_half = card["pcie_width"] * 2 >= card["pcie_width_max"]
    return say(
        "memory.link-half" if is_fast and is_half else "memory.link-slow",
        gpu=card.get("index"),
        now=f"Gen{card['pcie_gen']} ×{card['pcie_width']}",
        best=f"Gen{card['pcie_gen_max']} ×{card['pcie_width_max']}",
    )


class Replays(CardRule):
    ids = ("pcie_replays",)

    def __init__(self) -> None:
        self._counts = Rise(within=_REPLAYS_WITHIN)
        self._many = Lasting(enter=0, leave=_REPLAYS_CALM)
        self._most: dict[str, float] = {}

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        count = card.get("pcie_replays")
        if count is None:
            return
        key = uuid(card)
        rate = self._counts.add(key, now.t, count) / (_REPLAYS_WITHIN / 60)  # a minute
        is_many = rate > _REPLAYS_A_MINUTE
        if since := self._many.find_start(key, now.t, is_many):
            if is_many:
                self._most[key] = rate
            gpu, rate = card.get("index"), self._most[key]
            said = say("memory.link-replays", gpu=gpu, rate=rate, count=count)
            yield build_finding("pcie_replays", key, since, said)


# By the names of models.memory: what each is, what a full one stops, what helps.
_PARTS = {
    "images": "memory.disk-of-images",
    "cache": "memory.disk-of-models",
    "shm": "memory.disk-of-shm",
}

# The larger of GiB and part, but no more than the last: 5 % of a large disk is plenty.
_LITTLE, _NONE = (20 * GIB, 0.05, 100 * GIB), (5 * GIB, 0.01, 20 * GIB)
# Shared memory is as large as somebody made it.
_LITTLE_SHM, _NONE_SHM = 0.10, 0.02
_ENOUGH = 1.1  # of what is little

# Soon full: at the pace of the last minutes, and not much room left.
_PACE_WITHIN, _PACE_LEAST = 300.0, 60.0
_SOON = 1800.0
_SOON_BELOW = 0.25  # of the disk


class Disks(HardwareRule):
    ids = ("disk",)

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}
        self._told = Lasting(enter=0, leave=30.0)
        self._full = Lasting(enter=0, leave=30.0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        disks: Mapping[str, Mapping[str, Any]] = now.sample.get("disks") or {}
        for kinds in _by_place(disks):
            yield from self._judge(now, kinds, disks[kinds[0]])

    def _judge(
        self, now: HardwareSample, kinds: list[str], disk: Mapping[str, Any]
    ) -> Iterator[HardwareFinding]:
        path, free, total = str(disk["path"]), int(disk["free"]), int(disk["total"])
        if total <= 0:
            return
        is_shm = kinds[0] == "shm"
        pace = 0.0 if is_shm else self._pace(path, now.t, free)
        left = free / pace if pace > 0 else None
        little, none = _limits(total, is_shm)
        is_told = self._told.find_start(path, now.t, None) is not None
        was_full = self._full.find_start(path, now.t, None) is not None
        is_soon = left is not None and left < _SOON and free < _SOON_BELOW * total
        is_little = free < little * (_ENOUGH if is_told else 1)
        is_full = self._full.find_start(path, now.t, free < none * (_ENOUGH if was_full else 1))
        since = self._told.find_start(path, now.t, is_little or is_soon)
        if since is None:
            return
        parts = [say(_PARTS[each]) for each in kinds]
        known = {"path": path, "free": free, "total": total}
        if is_shm:
            said = say("memory.shm-full" if is_full else "memory.shm-nearly-full", **known)
        else:
            nearly = "memory.disk-nearly-full" if is_little else "memory.disk-soon-full"
            code = "memory.disk-full" if is_full else nearly
            said = say(code, **known, what=" and ".join(each.title for each in parts))
        more = []
        if left is not None and is_soon:
            more.append(say("memory.disk-pace", mib=pace / MIB, span=_span(left)))
        if is_full:
            more += parts
        advice = " ".join(each.advice for each in parts)
        yield build_finding("disk", path, since, said, *more, advice=advice)

    def _pace(self, path: str, t: float, free: int) -> float:
        """Bytes a second that it fills by; 0 while it does not, or was not watched for long."""
        seen = self._seen.setdefault(path, deque())
        if seen and t < seen[-1][0]:
            seen.clear()
        # Disks are looked at every ten seconds, and told with each sample.
        if not seen or free != seen[-1][1] or t - seen[-1][0] >= 10:
            seen.append((t, free))
        while len(seen) > 1 and seen[1][0] <= t - _PACE_WITHIN:
            seen.popleft()
        took = seen[-1][0] - seen[0][0]
        return max(0.0, (seen[0][1] - free) / took) if took >= _PACE_LEAST else 0.0


def _by_place(disks: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Names of disks; those that lie on one file system together."""
    places: dict[Any, list[str]] = {}
    for kind in _PARTS:
        if kind in disks:
            place = disks[kind].get("device") or kind
            places.setdefault(place, []).append(kind)
    return list(places.values())


def _limits(total: int, is_shm: bool) -> tuple[int, int]:
    if is_shm:
        return int(total * _LITTLE_SHM), int(total * _NONE_SHM)
    least, none = (min(max(size, int(total * part)), most) for size, part, most in (_LITTLE, _NONE))
    # A disk that is smaller than that is judged by its parts alone.
    return min(least, total // 5), min(none, total // 20)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


# Bytes, and the share of the disk: whichever is less.
DATA_LOW, DATA_LOW_SHARE = 2**30, 0.05
DATA_FULL, DATA_FULL_SHARE = 64 * 2**20, 0.005

DATA_DISK = "data-folder"  # of the alert


def is_data_disk_low(free: float, total: int) -> bool:
    """Bytes. Below the smaller of 5 % and 1 GiB people are told."""
    return free < min(DATA_LOW, total * DATA_LOW_SHARE)


def is_data_disk_full(free: int, total: int) -> bool:
    """Bytes. What is left is for the database: a start, with its log, would take it."""
    return free < min(DATA_FULL, total * DATA_FULL_SHARE)


def describe_full_data_disk(*, of_database: bool = False) -> str:
    """What is said to whoever wanted to change something. `of_database`: it has a disk of its own."""
    database, folder = "people.database-disk-full", "people.data-disk-full"
    return say(database if of_database else folder).text
