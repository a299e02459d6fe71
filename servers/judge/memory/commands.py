"""Commands and buttons for verdicts on memory. Sizes in bytes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.advice import RECLAIM

REBOOT = "sudo systemctl reboot"
# Of /proc/sys/vm/drop_caches. 1: page cache, 2: what drivers and the kernel keep.
LEVELS = {"page_cache": 1, "reclaimable": 2}
NO_POOLS = "/etc/modprobe.d/nvidia-no-memory-pools.conf"


@dataclass(frozen=True, kw_only=True)
class ShellCommand:
    says: str
    text: str  # for a shell on the box


@dataclass(frozen=True, kw_only=True)
class Cure:
    gpu: int  # its index
    verdict: str
    reason: str
    level: int  # that reclaiming would take; 0: it is no cure
    commands: tuple[ShellCommand, ...]

    @property
    def key(self) -> str:
        """Of the action that would be it."""
        return f"level-{self.level}"


def cures(sample: Mapping[str, Any] | None) -> tuple[Cure, ...]:
    """One for each GPU whose verdict somebody can do something about; () while all is well."""
    known = sample or {}
    cards = {card.get("uuid"): card for card in known.get("gpus") or []}
    return tuple(
        Cure(
            gpu=cards[each["gpu"]]["index"],
            verdict=each["verdict"],
            reason=each["reason"],
            level=LEVELS.get(each["verdict"], 0),
            commands=tuple(_commands(each["verdict"], cards[each["gpu"]], known)),
        )
        for each in known.get("verdicts") or []
        if each["gpu"] in cards and each["verdict"] in ("leaked", "residual", *LEVELS)
    )


def _commands(
    verdict: str, card: Mapping[str, Any], sample: Mapping[str, Any]
) -> Iterator[ShellCommand]:
    match verdict:
        case "reclaimable":
            yield ShellCommand(
                says="Give it back now, while no engine serves:",
                text=f"sudo sh -c '{RECLAIM}'",
            )
            if (sample.get("driver_params") or {}).get("EnableSystemMemoryPools"):
                yield ShellCommand(
                    says="Or for good, from the next restart of the box on: a driver without "
                    "pools of its own (NVreg_EnableSystemMemoryPools).",
                    text="echo 'options nvidia NVreg_EnableSystemMemoryPools=0' | "
                    f"sudo tee {NO_POOLS} && sudo update-initramfs -u",
                )
        case "page_cache":
            yield ShellCommand(
                says="Flush it; files are read from disk again afterwards:",
                text=f"sudo sh -c '{RECLAIM.replace('echo 2', 'echo 1')}'",
            )
        case "leaked":
            if card.get("kind") == "discrete":
                yield ShellCommand(
                    says="With nobody on the card, try to reset it:",
                    text=f"sudo nvidia-smi --gpu-reset -i {card['index']}",
                )
            yield ShellCommand(says="Restart the box, after stopping its engines:", text=REBOOT)
