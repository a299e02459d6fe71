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
    Severity,
    build_card_finding,
    uuid,
)

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
        ever = ecc.get("uncorrected_ever")
        in_all = f"; {ever} in the card's life" if ever is not None else ""
        news = f", {grown} of them in the last hour" if grown else ""
        yield build_card_finding(
            card, "ecc_uncorrected", "critical" if grown else "warning", since,
            title="has lost data in its memory",
            because=f"{_times(count, 'error')} since the driver was loaded could not be corrected"
            f"{news}{in_all}.",
            advice="What ran on the card then has ended, or may compute nonsense: restart its "
            "servers. Reset the card when it is free (“sudo nvidia-smi --gpu-reset "
            f"-i {card.get('index')}”), so that it replaces the bad row. If it comes back, the "
            "card is one for its maker.",
        )  # fmt: skip

    def _find_corrected(
        self, now: HardwareSample, card: Card, ecc: Mapping[str, Any]
    ) -> Iterator[HardwareFinding]:
        key, count = uuid(card), ecc.get("corrected")
        grown = self._corrected.add(key, now.t, count)
        is_much = None if count is None else grown >= _MANY_CORRECTED
        if since := self._many.find_start(key, now.t, is_much):
            yield build_card_finding(
                card, "ecc_corrected", "info", since,
                title="corrects many memory errors",
                because=f"{grown} in the last hour, {count} since the driver was loaded. "
                "No data were lost.",
                advice="Nothing to do now. Memory that does so more and more often wears out: "
                "keep an eye on errors that cannot be corrected.",
            )  # fmt: skip


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
            replaced = (
                f"{_times(rows['uncorrected'], 'row')} replaced so far after errors that could not "
                f"be corrected, {rows['corrected']} after others"
            )
            if failed:
                yield build_card_finding(
                    card, "row_remapping", "critical", failed,
                    title="could not replace a bad row of its memory",
                    because=f"A row of its memory is bad, and no spare one could take its place "
                    f"({replaced}).",
                    advice="Take the card out of use: this is what its maker replaces it for. "
                    "“nvidia-smi -q -d ROW_REMAPPER” is the proof that they ask for.",
                )  # fmt: skip
            elif pending:
                yield build_card_finding(
                    card, "row_remapping", "warning", pending,
                    title="waits for a reset to replace a bad row of its memory",
                    because=f"The row is known and avoided ({replaced}).",
                    advice="What runs may go on. When the card is free: “sudo nvidia-smi "
                    f"--gpu-reset -i {card.get('index')}”, or restart the box.",
                )  # fmt: skip
            elif full:
                yield build_card_finding(
                    card, "row_remapping", "warning", full,
                    title="has used up spare rows of its memory",
                    because=f"In {_times(rows['without_spare'], 'bank')} of its memory no spare row "
                    f"is left ({replaced}).",
                    advice="It works. The next bad row there cannot be replaced, so plan for "
                    "another card.",
                )  # fmt: skip


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
            so_far = f"{_times(retired['pages'], 'page')} of its memory are no longer used"
            if many:
                yield build_card_finding(
                    card, "retired_pages", "critical", many,
                    title="has lost too many pages of its memory",
                    because=f"{so_far}; its maker takes it back at {_PAGES_END}.",
                    advice="Take the card out of use and have it replaced.",
                )  # fmt: skip
            elif pending:
                yield build_card_finding(
                    card, "retired_pages", "warning", pending,
                    title="waits for a reset to leave out a bad page",
                    because=f"{so_far}, and one more will be after a reset.",
                    advice="When the card is free: “sudo nvidia-smi --gpu-reset "
                    f"-i {card.get('index')}”, or restart the box.",
                )  # fmt: skip


def _times(count: int, word: str) -> str:
    return f"1 {word}" if count == 1 else f"{count} {word}s"


# While a driver is being installed it is away for a moment.
_AFTER = 5.0
_SILENT_AFTER = 5.0

type _Words = tuple[Severity, str, str, str]

# A box without NVIDIA's library ("no_library") has no such GPU, as far as anybody knows.
_WORDS: dict[str, _Words] = {
    "driver_mismatch": (
        "critical",
        "The NVIDIA driver and its library are of different versions",
        "The driver was updated while its old kernel module {driver}is still loaded. Engines that "
        "run go on; none can be started, and no GPU can be read.",
        "Stop the servers and restart the box. So that updates do not do this by themselves: "
        "“sudo apt-mark hold” for the driver's packages.",
    ),
    "driver_not_loaded": (
        "critical",
        "The NVIDIA driver is not loaded",
        "NVML is there, but the kernel module is not: no GPU can be used.",
        "Run “sudo modprobe nvidia”; if that fails, “sudo dmesg” says why. After an update of the "
        "kernel the module may have to be built anew: “sudo dkms autoinstall”.",
    ),
    "no_permission": (
        "warning",
        "The GPUs may not be read",
        "The watcher's user may not open /dev/nvidia*.",
        "See who may with “ls -l /dev/nvidia*”, and run inferdash's watcher as such a user.",
    ),
    "other": (
        "critical",
        "NVML cannot be used",
        "{error}",
        "Compare with “nvidia-smi” on the box, and look for lines with NVRM in “sudo dmesg”.",
    ),
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
        words = _WORDS.get(str(now.sample.get("error_kind")))
        if (since := self._broken.find_start(BOX, now.t, words is not None)) and words:
            severity, title, because, advice = words
            driver = now.sample.get("driver")
            said = {
                "driver": f"{driver} " if driver else "",
                "error": now.sample.get("error") or "It gives no reason.",
            }
            yield HardwareFinding(
                rule="driver",
                subject=BOX,
                severity=severity,
                title=title,
                because=because.format(**said),
                advice=advice,
                since=since,
            )


class Silence:
    """The collector's parent tells how long it has been silent, and what it has done about it."""

    ids: ClassVar[tuple[str, ...]] = ("collector",)
    needs_cards: ClassVar[bool] = False

    def __init__(self) -> None:
        self._silent = Lasting(enter=_SILENT_AFTER, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        stale = now.sample.get("stale_s")
        if self._silent.find_start(BOX, now.t, stale is not None) and stale is not None:
            yield HardwareFinding(
                rule="collector",
                subject=BOX,
                severity="critical",
                title="NVIDIA's driver does not answer",
                because=str(now.sample.get("error") or f"No sample arrived for {stale:.0f} s."),
                advice="See whether “nvidia-smi” answers on the box. If it hangs too, stop the "
                "engines and restart the box; “ps -eo pid,stat,comm” shows by a D who is stuck "
                "in the driver.",
                since=now.t - float(stale),
            )
