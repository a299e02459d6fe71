"""Rules on the driver: whether it can be used, and answers."""

from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.duration import Lasting
from servers.judge.memory.hardware.finding import BOX, HardwareFinding, Severity
from servers.judge.memory.hardware.sample import HardwareSample

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
                because=str(now.sample.get("error") or f"Nothing was heard for {stale:.0f} s."),
                advice="See whether “nvidia-smi” answers on the box. If it hangs too, stop the "
                "engines and restart the box; “ps -eo pid,stat,comm” shows by a D who is stuck "
                "in the driver.",
                since=now.t - float(stale),
            )
