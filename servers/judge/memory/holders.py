"""The GPUs of one sample of the collector, and whose containers hold their memory."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.ledger import Ledger, ledger
from servers.judge.memory.pools import Pool, pools

# How loud a page says it.
LEVELS = {"leaked": "failed", "residual": "attention", "reclaimable": "attention"}


@dataclass(frozen=True, kw_only=True)
class PoolWarning:
    """What the judge of its memory says when all is not plainly well."""

    verdict: str
    reason: str
    advice: str
    code: str = ""  # of its message; "": of an earlier version's watcher

    @property
    def level(self) -> str:
        return LEVELS.get(self.verdict, "")


@dataclass(frozen=True, kw_only=True)
class GpuMemory:
    """One GPU as a page shows it. None means that the card does not report the value."""

    index: int
    key: str  # the UUID, and what the charts call it
    name: str
    capability: str
    kind: str  # discrete, unified, numa; "" when nobody knows
    total: int | None
    used: int | None
    free: int | None
    ledger: Ledger | None
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
    fault: str  # why nothing is known of it; "" = it answers
    verdict: "PoolWarning | None"  # None: not judged yet, or nothing but in order

    @property
    def is_unified(self) -> bool:
        return self.kind == "unified"

    @property
    def in_use(self) -> int | None:
        """What no program can have of it; of unified memory, page cache can be had."""
        if self.ledger is not None and self.ledger.available is not None:
            return max(0, self.ledger.total - self.ledger.available)
        return self.used

    @property
    def is_interesting(self) -> bool:
        """Whether it has something that a person should look at first."""
        is_told = self.verdict is not None and self.verdict.level != ""
        return is_told or (self.ledger is not None and self.ledger.is_loud)


def gpus(sample: Mapping[str, Any], servers: Mapping[str, str]) -> tuple[GpuMemory, ...]:
    """The GPUs of a sample. `servers` maps container ids to the slugs of their servers."""
    verdicts = {each["gpu"]: _build_warning(each) for each in sample.get("verdicts") or []}
    tones: dict[str, int] = {}
    found = []
    for card, pool in zip(sample.get("gpus") or [], pools(sample), strict=True):
        of = ledger(card, pool if isinstance(pool, Pool) else None, sample, servers, tones)
        found.append(_gpu(card, of, verdicts.get(card.get("uuid"))))
    return tuple(found)


def memory_by_container(sample: Mapping[str, Any]) -> dict[str, int]:
    """Bytes that each container holds on all GPUs together.

    A container is left out where the driver does not tell how much a process of it holds.
    """
    containers = {each["pid"]: each.get("container") for each in sample.get("processes") or []}
    held: dict[str, int | None] = {}
    for pid, used in memory_by_pid(sample).items():
        if container := containers.get(pid):
            before = held.get(container, 0)
            held[container] = None if before is None or used is None else before + used
    return {container: size for container, size in held.items() if size is not None}


def memory_by_pid(sample: Mapping[str, Any]) -> dict[int, int | None]:
    """Bytes that each process holds on all GPUs together; None where the driver does not tell."""
    held: dict[int, int | None] = {}
    for card in sample.get("gpus") or []:
        for process in card.get("processes") or []:
            before, used = held.get(process["pid"], 0), process.get("used")
            held[process["pid"]] = None if before is None or used is None else before + used
    return held


def cards_by_container(sample: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    """The indices of the GPUs on which each container has a process."""
    containers = {each["pid"]: each.get("container") for each in sample.get("processes") or []}
    found: dict[str, frozenset[int]] = {}
    for card in sample.get("gpus") or []:
        for process in card.get("processes") or []:
            if container := containers.get(process["pid"]):
                found[container] = found.get(container, frozenset()) | {card["index"]}
    return found


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


def _build_warning(said: Mapping[str, Any]) -> PoolWarning | None:
    if said["verdict"] == "ok":
        return None
    return PoolWarning(
        verdict=said["verdict"],
        reason=said["reason"],
        advice=said["advice"],
        code=said.get("code", ""),
    )


def _gpu(card: Mapping[str, Any], of: Ledger | None, verdict: PoolWarning | None) -> GpuMemory:
    throttle = card.get("throttle")
    return GpuMemory(
        index=card["index"],
        key=key(card),
        name=(card.get("name") or "unnamed GPU").removeprefix("NVIDIA "),
        capability=card.get("compute_capability") or "",
        kind=card.get("kind") or "",
        total=card.get("total"),
        used=card.get("used"),
        free=card.get("free"),
        ledger=of,
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
        # After an odd answer to one question the card is as good as ever.
        fault="" if card.get("fault_kind") == "odd" else card.get("fault") or "",
        verdict=verdict,
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
