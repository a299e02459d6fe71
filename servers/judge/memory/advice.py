"""Reasons and advice for verdicts on memory, with the commands that cure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.pools import GIB, PoolProcess, Snapshot
from servers.judge.messages import Sentence, say

RECLAIM = "sync; echo 2 > /proc/sys/vm/drop_caches"


def describe_use(size: int, warn: int, is_bad: bool) -> Sentence:
    if is_bad or size <= warn:
        return say("memory.accounted-for")
    return say("memory.little-unattributed", size=size)


def describe_settling(size: int, seconds: float) -> Sentence:
    return say("memory.settling", size=size, seconds=max(seconds, 0))


def describe_return(size: int, seconds: float) -> Sentence:
    rest = f" but for {size / GIB:.1f} GiB" if size >= GIB // 10 else ""
    return say("memory.back", rest=rest, seconds=max(seconds, 0))


def describe_stuck(client: PoolProcess) -> Sentence:
    process = f"Process {client.pid}" + (f" ({client.name})" if client.name else "")
    size = client.used or 0
    if not client.is_known:
        return say("memory.stuck-after-end", process=process, size=size)
    how = "is a zombie" if client.state.startswith("Z") else "is stuck in the driver"
    return say("memory.stuck", process=process, how=how, state=client.state, size=size)


def describe_residual(left: Sequence[PoolProcess]) -> Sentence:
    most = max(left, key=lambda each: each.used or 0)
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    known = {"pid": most.pid, "name": most.name or "unnamed", "more": more}
    if any(each.used is None for each in left):
        return say("memory.residual-size-unknown", **known)
    return say("memory.residual", **known, size=sum(each.used or 0 for each in left))


def describe_reclaimable(size: int, snapshot: Snapshot) -> Sentence:
    if has_driver_pool(snapshot.get("driver_params") or {}):
        return say("memory.reclaimable-from-pool", size=size, command=RECLAIM)
    return say("memory.reclaimable", size=size, command=RECLAIM)


def has_driver_pool(params: dict[str, Any]) -> bool:
    return params.get("EnableSystemMemoryPools") not in (None, 0, "", "0")


def describe_unused_shm(size: int, paths: Sequence[str]) -> Sentence:
    more = " …" if len(paths) == 3 else ""
    return say("memory.shm-unused", size=size, paths=", ".join(paths) + more)


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
                says=say("memory.cure-reclaim").text,
                text=f"sudo sh -c '{RECLAIM}'",
            )
            if (sample.get("driver_params") or {}).get("EnableSystemMemoryPools"):
                yield ShellCommand(
                    says=say("memory.cure-no-pools").text,
                    text="echo 'options nvidia NVreg_EnableSystemMemoryPools=0' | "
                    f"sudo tee {NO_POOLS} && sudo update-initramfs -u",
                )
        case "page_cache":
            yield ShellCommand(
                says=say("memory.cure-page-cache").text,
                text=f"sudo sh -c '{RECLAIM.replace('echo 2', 'echo 1')}'",
            )
        case "leaked":
            if card.get("kind") == "discrete":
                yield ShellCommand(
                    says=say("memory.cure-reset").text,
                    text=f"sudo nvidia-smi --gpu-reset -i {card['index']}",
                )
            yield ShellCommand(says=say("memory.cure-restart").text, text=REBOOT)
