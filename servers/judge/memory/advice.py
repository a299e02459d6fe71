"""Reasons and advice for verdicts on memory, with the commands that cure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.pools import GIB, PoolProcess, Snapshot

type Said = dict[str, str]

RECLAIM = "sync; echo 2 > /proc/sys/vm/drop_caches"


def _format_said(reason: str, advice: str = "") -> Said:
    return {"reason": reason, "advice": advice}


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


NO_COLLECTOR = _format_said(
    "The collector does not get an answer from the driver, so nothing is known of this moment.",
    "Look at the box's page for what NVML says; if nvidia-smi hangs too, the box needs a restart.",
)
NO_MEMORY = _format_said(
    "The driver does not tell how much memory this GPU has in use.",
    "A GPU that was lost, or MIG without the right to see it, looks like this: see nvidia-smi.",
)
NO_LIST = _format_said(
    "Memory is in use, and the driver does not list the processes on this GPU, so nobody can tell "
    "whose it is.",
    "Virtual machines, WSL and MIG hide them: see nvidia-smi there, or on the host of the machine.",
)
NO_LINES = _format_said(
    "Memory is in use, and the list of the kernel's figures (meminfo) has no AnonPages or no Cached, "
    "so nobody can tell what programs and files take of it.",
    "Look whether something replaces /proc/meminfo here, as lxcfs does, and record again without it.",
)
NO_GPU = _format_said(
    "The driver no longer lists this GPU.",
    "It may have fallen off the bus: see nvidia-smi and the kernel's log; a restart of the box "
    "brings it back.",
)
NO_PROCESSES = _format_said(
    "Memory is in use, and the box's processes cannot be seen from here, so nobody can tell "
    "whose it is.",
    "Run inferdash's watcher on the box itself, or its container with pid: host.",
)


def fine(size: int, warn: int, is_bad: bool) -> Said:
    if is_bad or size <= warn:
        return _format_said("All memory in use is accounted for.")
    return _format_said(
        f"{_gib(size)} are in use without an owner: too little, or for too short a time, to mean a loss."
    )


def describe_booting(size: int) -> Said:
    return _format_said(f"The box has just started; {_gib(size)} are not accounted for yet.")


def describe_settling(size: int, seconds: float) -> Said:
    return _format_said(
        f"{_gib(size)} are still on their way back after an engine has ended.",
        f"Wait: the driver may take {max(seconds, 0):.0f} s more.",
    )


def back(size: int, seconds: float) -> Said:
    left = f" but for {_gib(size)}" if size >= GIB // 10 else ""
    return _format_said(
        f"What was in use without an owner is back{left}.",
        f"Nothing: it is looked at for {max(seconds, 0):.0f} s more.",
    )


def describe_stuck(client: PoolProcess) -> Said:
    who = f"Process {client.pid}" + (f" ({client.name})" if client.name else "")
    held = _gib(client.used or 0)
    if not client.is_known:
        return _format_said(
            f"{who} has ended, but the driver still keeps {held} for it.",
            "If no other process holds the GPU's device files, only a restart of the box gives "
            "the memory back. Stop the engines first.",
        )
    how = "is dead but not buried" if client.state.startswith("Z") else "is stuck in the driver"
    return _format_said(
        f"{who} {how} (state {client.state}) and holds {held}; not even SIGKILL ends it.",
        "Restart the box, after stopping the engines.",
    )


def residual(left: Sequence[PoolProcess]) -> Said:
    most = max(left, key=lambda each: each.used or 0)
    size = sum(each.used or 0 for each in left)
    several = f" and {len(left) - 1} more" if len(left) > 1 else ""
    held = f"holds {_gib(size)}"
    if any(each.used is None for each in left):
        held = "holds GPU memory; the driver does not tell how much"
    return _format_said(
        f"Process {most.pid} ({most.name or 'unnamed'}){several} has outlived its container and "
        f"{held}.",
        "End it: SIGTERM, and SIGKILL ten seconds later. That gives the memory back.",
    )


def while_serving(size: int) -> Said:
    return _format_said(
        f"{_gib(size)} are in use that no process accounts for, while an engine runs. It may be "
        "its managed memory, which the driver does not count.",
        "Nothing now; it is judged again when the GPU is idle.",
    )


def reclaimable(size: int, snapshot: Snapshot) -> Said:
    command = f"{RECLAIM} (as root, while no engine serves)"
    if has_driver_pool(snapshot.get("driver_params") or {}):
        return _format_said(
            f"{_gib(size)} lie in the driver's own pool of pages. The next CUDA program can use "
            "them, but engines that check the free memory first will refuse to start.",
            f"Give them back with: {command}. For good: options nvidia "
            "NVreg_EnableSystemMemoryPools=0 in /etc/modprobe.d, or a 580 driver.",
        )
    return _format_said(
        f"{_gib(size)} are in use although no process holds them: the kernel or the driver still "
        "keeps them.",
        f"Try to get them back with: {command}.",
    )


def has_driver_pool(params: dict[str, Any]) -> bool:
    return params.get("EnableSystemMemoryPools") not in (None, 0, "", "0")


def leaked_box(size: int) -> Said:
    return _format_said(
        f"{_gib(size)} are in use, no process holds them, and reclaiming has not brought them "
        "back.",
        "Restart the box, after stopping the engines.",
    )


def leaked_card(size: int) -> Said:
    return _format_said(
        f"{_gib(size)} of this card are in use, and no process holds them.",
        "With nobody on the card, try nvidia-smi --gpu-reset for it; if that is refused, restart "
        "the box.",
    )


def shm(size: int, paths: Sequence[str]) -> Said:
    return _format_said(
        f"{_gib(size)} of shared memory belong to nobody any more: {', '.join(paths)}"
        + (" …" if len(paths) == 3 else ""),
        "Delete these files; no process uses them.",
    )


def less_at_boot(size: int, less: int) -> Said:
    return _format_said(
        f"This boot has started with {_gib(less)} less than earlier ones: {_gib(size)} were in use "
        "without an owner before anything used the GPU.",
        "Look at what has changed: uname -r, /proc/cmdline, dmesg. A kernel that sets memory aside "
        "(crashkernel, CMA, kexec handover: kho=off) takes it again at each start, so that a "
        "restart alone does not help.",
    )


def page_cache(size: int, needs: int, free: int) -> Said:
    return _format_said(
        f"The kernel uses {_gib(size)} as page cache. The start that waits needs {_gib(needs)}, "
        f"and its engine counts only the {_gib(free)} that are free.",
        "sync; echo 1 > /proc/sys/vm/drop_caches (as root) frees it; files are read from disk "
        "again afterwards.",
    )


def host_programs(grown: int) -> Said:
    return _format_said(
        f"Programs of the box itself hold {_gib(grown)} more than before, outside the GPU.",
        "ps aux --sort=-rss | head names them.",
    )


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


def list_cures(sample: Mapping[str, Any] | None) -> tuple[Cure, ...]:
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
