"""Rules on cards and their driver: answers, memory errors, persistence mode, heat and power."""

from collections.abc import Iterator, Mapping
from typing import Any

from servers.judge.memory.hardware.finding import (
    BOX,
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

# A reset takes a card away for some seconds, on purpose.
_LOST_AFTER = 5.0
_ODD_AFTER = 30.0
_PERSISTENCE_AFTER = 30.0


class Answers(HardwareRule):
    """Sources: NVML's return codes 15 (lost) and 16 (reset required), nvml.h."""

    ids = ("gpu_lost", "gpu_reset", "gpu_answer")
    needs_cards = True

    def __init__(self) -> None:
        self._known: dict[str, Card] = {}  # of this boot
        self._lost = Lasting(enter=_LOST_AFTER, leave=_LOST_AFTER)
        self._reset = Lasting(enter=_LOST_AFTER, leave=_LOST_AFTER)
        self._odd = Lasting(enter=_ODD_AFTER, leave=_ODD_AFTER)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        listed = {uuid(card): card for card in now.cards}
        # One that has not told its UUID yet may turn out to be any of the others.
        self._known |= {key: card for key, card in listed.items() if card.get("uuid")}
        for key, card in (listed | self._known).items():
            kind = _kind(card) if key in listed else "missing"
            if since := self._lost.find_start(key, now.t, kind in ("lost", "missing")):
                code = "memory.gpu-missing" if kind == "missing" else "memory.gpu-lost"
                yield build_finding("gpu_lost", key, since, say(code, gpu=card.get("index")))
            if since := self._reset.find_start(key, now.t, kind == "reset"):
                said = say("memory.gpu-needs-reset", gpu=card.get("index"))
                yield build_finding("gpu_reset", key, since, said)
            if since := self._odd.find_start(key, now.t, kind == "odd"):
                said = say("memory.gpu-odd-answer", gpu=card.get("index"), fault=card.get("fault"))
                yield build_finding("gpu_answer", key, since, said)


def _kind(card: Card) -> str | None:
    """Recordings of earlier versions have the sentence alone."""
    if not card.get("fault"):
        return None
    return card.get("fault_kind") or ("odd" if card.get("total") is not None else "lost")


class Persistence(CardRule):
    """Source: NVIDIA's driver persistence guide: without it the driver lets go of an idle card."""

    ids = ("persistence",)

    def __init__(self) -> None:
        self._off = Lasting(enter=_PERSISTENCE_AFTER, leave=0)

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        mode = card.get("persistence")
        is_off = None if mode is None or card.get("kind") == "unified" else not mode
        if since := self._off.find_start(uuid(card), now.t, is_off):
            said = say("memory.persistence-off", gpu=card.get("index"))
            yield build_finding("persistence", uuid(card), since, said)


# Degrees. Near enough to a limit of the card's own to say so.
_NEAR_SLOWDOWN = 2
_NEAR_SHUTDOWN = 3
# For a card that tells no limit: the choice of this project.
_HOT = 92
_HOT_AFTER, _COOL_AFTER = 20.0, 30.0

# A part of the last minute; gpud calls 0.6 events a minute unhealthy, and each lasts seconds.
_WINDOW, _SOME, _NONE = 60.0, 0.1, 0.02
_MUCH = 0.5
# The driver's own slow-down is gentle, so it is told only when it goes on.
_GENTLE_WINDOW, _GENTLE = 300.0, 0.5


class Thermal(CardRule):
    """Sources: clocks event reasons of nvml.h (0x20, 0x40); the card's own limits."""

    ids = ("thermal",)

    def __init__(self) -> None:
        self._hot = Lasting(enter=_HOT_AFTER, leave=_COOL_AFTER)
        self._burning = Lasting(enter=3.0, leave=_COOL_AFTER)
        self._braked = Often(window=_WINDOW, enter=_SOME, leave=_NONE)
        self._mostly = Often(window=_WINDOW, enter=_MUCH, leave=_MUCH / 2)
        self._slowed = Often(window=_GENTLE_WINDOW, enter=_GENTLE, leave=_GENTLE / 2)

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        key, reasons = uuid(card), card.get("throttle") or []
        burning = self._burning.find_start(key, now.t, _is_burning(card))
        hot = self._hot.find_start(key, now.t, _is_hot(card))
        braked = self._braked.find_start(key, now.t, "hw_thermal" in reasons)
        mostly = self._mostly.find_start(key, now.t, "hw_thermal" in reasons)
        slowed = self._slowed.find_start(key, now.t, "sw_thermal" in reasons)
        severity: Severity = "critical" if burning or mostly else "warning"
        gpu, degrees = card.get("index"), card.get("temperature_c")
        more: list[Sentence] = []
        if burning:
            said = say("memory.gpu-near-shutdown", gpu=gpu, degrees=degrees)
        elif braked:
            percent = round(self._braked.part(key) * 100)
            said = say("memory.gpu-clocks-held-back", gpu=gpu, percent=percent)
            if degrees is not None:
                more.append(say("memory.gpu-temperature", degrees=degrees))
        elif hot:
            said = _describe_heat(card)
        elif slowed:
            said = say("memory.gpu-slowed-by-heat", gpu=gpu)
        else:
            return
        advice = say("memory.heat-advice-unified").advice
        yield build_finding(
            "thermal", key, min(since for since in (burning, braked, hot, slowed) if since),
            said, *more, *_limits(card), severity=severity,
            advice=advice if card.get("kind") == "unified" else "",
        )  # fmt: skip


def _is_burning(card: Card) -> bool | None:
    degrees, limit = card.get("temperature_c"), card.get("shutdown_c")
    return None if degrees is None or limit is None else degrees >= limit - _NEAR_SHUTDOWN


def _is_hot(card: Card) -> bool | None:
    """By the margin that newer cards tell, else the limit of older ones, else a fixed one."""
    if (margin := card.get("margin_c")) is not None:
        return bool(margin <= _NEAR_SLOWDOWN)
    if (degrees := card.get("temperature_c")) is None:
        return None
    limit = card.get("slowdown_c")
    return bool(degrees >= (_HOT if limit is None else limit - _NEAR_SLOWDOWN))


def _describe_heat(card: Card) -> Sentence:
    gpu, degrees, margin = (card.get(each) for each in ("index", "temperature_c", "margin_c"))
    if degrees is None:
        return say("memory.gpu-hot", gpu=gpu)
    if margin is None:
        return say("memory.gpu-hot-degrees", gpu=gpu, degrees=degrees)
    return say("memory.gpu-hot-margin", gpu=gpu, degrees=degrees, margin=max(0, margin))


def _limits(card: Card) -> Iterator[Sentence]:
    slowdown, shutdown = card.get("slowdown_c"), card.get("shutdown_c")
    if slowdown is not None and shutdown is not None:
        yield say("memory.gpu-limits", slowdown=slowdown, shutdown=shutdown)
    elif slowdown is not None:
        yield say("memory.gpu-slows-down-at", slowdown=slowdown)
    elif shutdown is not None:
        yield say("memory.gpu-turns-off-at", shutdown=shutdown)


# Parts of the last minute.
_POWER_WINDOW, _SOME_POWER, _NO_POWER, _MUCH_POWER = 60.0, 0.1, 0.02, 0.5

# Under load a healthy GB10 draws 45 W and more at over 2000 MHz; one that its firmware holds
# back was seen at 799 MHz and 19.5 W, others at 500 to 850 MHz and about 14 W. In a deadlock,
# which is another fault, the clock is high. Sources: model-serving-minefield, trap 124;
# sparkview's limit of 1400 MHz.
_BUSY, _LOW_CLOCK, _LOW_POWER = 90, 1400, 45.0
_STUCK, _WELL = 0.9, 0.5
_NAMED = {"hw_thermal", "sw_thermal", "hw_power_brake", "hw_slowdown", "applications_clocks"}


class PowerBrake(CardRule):
    """Sources: clocks event reasons of nvml.h: 0x80 from outside, 0x8 for want of a better word."""

    ids = ("power_brake",)

    def __init__(self) -> None:
        self._braked = Often(window=_POWER_WINDOW, enter=_SOME_POWER, leave=_NO_POWER)
        self._mostly = Often(window=_POWER_WINDOW, enter=_MUCH_POWER, leave=_MUCH_POWER / 2)

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        key, reasons = uuid(card), card.get("throttle") or []
        is_braked = "hw_power_brake" in reasons
        # Heat sets the general bit, too.
        is_slowed = "hw_slowdown" in reasons and "hw_thermal" not in reasons
        since = self._braked.find_start(key, now.t, is_braked or is_slowed)
        mostly = self._mostly.find_start(key, now.t, is_braked or is_slowed)
        if since is None:
            return
        percent = round(self._braked.part(key) * 100)
        said = say("memory.gpu-power-brake", gpu=card.get("index"), percent=percent)
        severity: Severity = "critical" if mostly else "warning"
        yield build_finding("power_brake", key, since, said, *_draws(card), severity=severity)


def _draws(card: Card) -> Iterator[Sentence]:
    power, limit = card.get("power_w"), card.get("power_limit_w")
    if power is not None and limit:
        yield say("memory.gpu-draws-of", watts=round(power), limit=round(limit))
    elif power is not None:
        yield say("memory.gpu-draws", watts=round(power))


class LowPower(CardRule):
    """Only under load can it be told; what was told holds until the next load shows better."""

    ids = ("low_power",)

    def __init__(self) -> None:
        self._stuck = Often(window=_POWER_WINDOW, enter=_STUCK, leave=_WELL)
        self._seen: dict[str, str] = {}

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        key, is_down = uuid(card), _is_held_down(card)
        since = self._stuck.current(key)
        if is_down is not None:
            since = self._stuck.find_start(key, now.t, is_down)
            self._seen[key] = _figures(card)
        if since is not None:
            gpu = card.get("index")
            said = say("memory.gpu-low-power", gpu=gpu, figures=self._seen[key])
            yield build_finding("low_power", key, since, said)


def _is_held_down(card: Card) -> bool | None:
    """None: not at work, or not told."""
    util, clock, power = card.get("util"), card.get("sm_mhz"), card.get("power_w")
    if card.get("kind") != "unified" or util is None or clock is None or util < _BUSY:
        return None
    is_named = bool(_NAMED & set(card.get("throttle") or []))
    return bool(clock < _LOW_CLOCK and (power is None or power < _LOW_POWER) and not is_named)


def _figures(card: Card) -> str:
    power = card.get("power_w")
    return f"{card.get('sm_mhz')} MHz" + (f" and {power:.0f} W" if power is not None else "")


# Seconds for which an error that was seen to happen is news.
_NEWS = 3600.0
# Corrected errors an hour; harmless by themselves. The choice of this project.
_MANY_CORRECTED = 100
# NVIDIA takes a card back at this number of retired pages (dynamic page retirement guide).
_PAGES_END = 60


class EccRule(CardRule):
    """Counts of nvmlDeviceGetTotalEccErrors since the driver was loaded."""

    ids = ("ecc_uncorrected", "ecc_corrected")

    def __init__(self) -> None:
        self._uncorrected = Rise(within=_NEWS)
        self._corrected = Rise(within=_NEWS)
        self._there = Lasting(enter=0, leave=0)
        self._many = Lasting(enter=0, leave=_NEWS)

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        ecc: Mapping[str, Any] = card.get("ecc") or {}
        yield from self._find_lost(now, card, ecc)
        yield from self._find_corrected(now, card, ecc)

    def _find_lost(
        self, now: HardwareSample, card: Card, ecc: Mapping[str, Any]
    ) -> Iterator[HardwareFinding]:
        key, count = uuid(card), ecc.get("uncorrected")
        grown = self._uncorrected.add(key, now.t, count)
        since = self._there.find_start(key, now.t, None if count is None else count > 0)
        if since is None or not count:
            return
        gpu, ever = card.get("index"), ecc.get("uncorrected_ever")
        said = (
            say("memory.ecc-uncorrected-lately", gpu=gpu, count=count, grown=grown)
            if grown
            else say("memory.ecc-uncorrected", gpu=gpu, count=count)
        )
        more = [] if ever is None else [say("memory.ecc-uncorrected-ever", ever=ever)]
        yield build_finding("ecc_uncorrected", key, since, said, *more)

    def _find_corrected(
        self, now: HardwareSample, card: Card, ecc: Mapping[str, Any]
    ) -> Iterator[HardwareFinding]:
        key, count = uuid(card), ecc.get("corrected")
        grown = self._corrected.add(key, now.t, count)
        is_much = None if count is None else grown >= _MANY_CORRECTED
        if since := self._many.find_start(key, now.t, is_much):
            said = say("memory.ecc-corrected", gpu=card.get("index"), grown=grown, count=count)
            yield build_finding("ecc_corrected", key, since, said)


class RemappedRowsRule(CardRule):
    """Source: NVIDIA's GPU memory error management guide, row remapping (Ampere and later)."""

    ids = ("row_remapping",)

    def __init__(self) -> None:
        self._failed = Lasting(enter=0, leave=0)
        self._pending = Lasting(enter=0, leave=0)
        self._full = Lasting(enter=0, leave=0)

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        key, rows = uuid(card), card.get("rows")
        failed = self._failed.find_start(key, now.t, rows and rows["failed"])
        pending = self._pending.find_start(key, now.t, rows and rows["pending"])
        full = self._full.find_start(key, now.t, rows and bool(rows["without_spare"]))
        if not rows:
            return
        gpu = card.get("index")
        replaced = say(
            "memory.rows-replaced",
            uncorrected=rows["uncorrected"],
            corrected=rows["corrected"],
        )
        if failed:
            said, since = say("memory.row-not-replaced", gpu=gpu), failed
        elif pending:
            said, since = say("memory.row-waits-for-reset", gpu=gpu), pending
        elif full:
            banks = rows["without_spare"]
            said, since = say("memory.rows-without-spare", gpu=gpu, banks=banks), full
        else:
            return
        yield build_finding("row_remapping", key, since, said, replaced)


class RetiredPagesRule(CardRule):
    """Source: NVIDIA's dynamic page retirement guide (before Ampere)."""

    ids = ("retired_pages",)

    def __init__(self) -> None:
        self._pending = Lasting(enter=0, leave=0)
        self._many = Lasting(enter=0, leave=0)

    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]:
        key, retired = uuid(card), card.get("retired")
        pending = self._pending.find_start(key, now.t, retired and retired["pending"])
        is_end = retired and retired["pages"] >= _PAGES_END
        many = self._many.find_start(key, now.t, is_end)
        if not retired:
            return
        gpu, pages = card.get("index"), retired["pages"]
        if many:
            said = say("memory.pages-too-many", gpu=gpu, pages=pages, most=_PAGES_END)
            yield build_finding("retired_pages", key, many, said)
        elif pending:
            said = say("memory.page-waits-for-reset", gpu=gpu, pages=pages)
            yield build_finding("retired_pages", key, pending, said)


# While a driver is being installed it is away for a moment.
_AFTER = 5.0
_SILENT_AFTER = 5.0

# A box without NVIDIA's library ("no_library") has no such GPU, as far as is known.
_CODES = {
    "driver_mismatch": "memory.driver-mismatch",
    "driver_not_loaded": "memory.driver-not-loaded",
    "no_permission": "memory.driver-no-permission",
}


class Driver(HardwareRule):
    """Source: NVML's return codes 4, 9 and 18, nvml.h."""

    ids = ("driver",)

    def __init__(self) -> None:
        self._broken = Lasting(enter=_AFTER, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        if now.sample.get("stale_s") is not None:
            return
        kind = str(now.sample.get("error_kind"))
        is_broken = kind == "other" or kind in _CODES
        if (since := self._broken.find_start(BOX, now.t, is_broken)) and is_broken:
            yield build_finding("driver", BOX, since, *_describe_driver(kind, now))


def _describe_driver(kind: str, now: HardwareSample) -> Iterator[Sentence]:
    if kind == "other":
        error = now.sample.get("error") or say("memory.driver-no-reason").text
        yield say("memory.driver-unusable", error=error)
        return
    yield say(_CODES[kind])
    if kind == "driver_mismatch" and (driver := now.sample.get("driver")):
        yield say("memory.driver-loaded", driver=driver)


class Silence(HardwareRule):
    """The collector's parent tells how long it has been silent, and what it has done about it."""

    ids = ("collector",)

    def __init__(self) -> None:
        self._silent = Lasting(enter=_SILENT_AFTER, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        stale = now.sample.get("stale_s")
        if self._silent.find_start(BOX, now.t, stale is not None) and stale is not None:
            silent = say("memory.driver-no-sample", seconds=stale).text
            said = say("memory.driver-silent", error=now.sample.get("error") or silent)
            yield build_finding("collector", BOX, now.t - float(stale), said)
