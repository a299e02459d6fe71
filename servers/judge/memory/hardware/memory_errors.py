"""Rules on errors of the cards' own memory, and on the driver."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from servers.judge.memory.hardware.finding import (
    BOX,
    Card,
    HardwareFinding,
    HardwareSample,
    Lasting,
    Rise,
    build_finding,
    uuid,
)
from servers.judge.messages import Sentence, say

# Seconds for which an error that was seen to happen is news.
_NEWS = 3600.0
# Corrected errors an hour; harmless by themselves. The choice of this project.
_MANY_CORRECTED = 100
# NVIDIA takes a card back at this number of retired pages (dynamic page retirement guide).
_PAGES_END = 60


class EccRule:
    """Counts of nvmlDeviceGetTotalEccErrors since the driver was loaded."""

    ids: ClassVar[tuple[str, ...]] = ("ecc_uncorrected", "ecc_corrected")
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._uncorrected = Rise(within=_NEWS)
        self._corrected = Rise(within=_NEWS)
        self._there = Lasting(enter=0, leave=0)
        self._many = Lasting(enter=0, leave=_NEWS)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
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


class RemappedRowsRule:
    """Source: NVIDIA's GPU memory error management guide, row remapping (Ampere and later)."""

    ids: ClassVar[tuple[str, ...]] = ("row_remapping",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._failed = Lasting(enter=0, leave=0)
        self._pending = Lasting(enter=0, leave=0)
        self._full = Lasting(enter=0, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            key, rows = uuid(card), card.get("rows")
            failed = self._failed.find_start(key, now.t, rows and rows["failed"])
            pending = self._pending.find_start(key, now.t, rows and rows["pending"])
            full = self._full.find_start(key, now.t, rows and bool(rows["without_spare"]))
            if not rows:
                continue
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
                continue
            yield build_finding("row_remapping", key, since, said, replaced)


class RetiredPagesRule:
    """Source: NVIDIA's dynamic page retirement guide (before Ampere)."""

    ids: ClassVar[tuple[str, ...]] = ("retired_pages",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._pending = Lasting(enter=0, leave=0)
        self._many = Lasting(enter=0, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            key, retired = uuid(card), card.get("retired")
            pending = self._pending.find_start(key, now.t, retired and retired["pending"])
            is_end = retired and retired["pages"] >= _PAGES_END
            many = self._many.find_start(key, now.t, is_end)
            if not retired:
                continue
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


class Driver:
    """Source: NVML's return codes 4, 9 and 18, nvml.h."""

    ids: ClassVar[tuple[str, ...]] = ("driver",)
    needs_cards: ClassVar[bool] = False

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


class Silence:
    """The collector's parent tells how long it has been silent, and what it has done about it."""

    ids: ClassVar[tuple[str, ...]] = ("collector",)
    needs_cards: ClassVar[bool] = False

    def __init__(self) -> None:
        self._silent = Lasting(enter=_SILENT_AFTER, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        stale = now.sample.get("stale_s")
        if self._silent.find_start(BOX, now.t, stale is not None) and stale is not None:
            silent = say("memory.driver-no-sample", seconds=stale).text
            said = say("memory.driver-silent", error=now.sample.get("error") or silent)
            yield build_finding("collector", BOX, now.t - float(stale), said)
