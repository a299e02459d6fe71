"""One GPU at one moment, in the words of a sample."""

from dataclasses import dataclass
from typing import Literal

# discrete: memory on the card. unified: the machine's memory is the GPU's. numa: memory on the
# card that the kernel hands out as one of its NUMA nodes.
type Kind = Literal["discrete", "unified", "numa"]


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that has something on a card."""

    pid: int  # as seen in our own pid namespace
    used: int | None  # bytes


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One card at one moment. None means that the card does not report the value."""

    index: int
    uuid: str | None
    name: str | None
    compute_capability: str | None  # "12.0"
    kind: Kind | None
    total: int | None = None  # bytes, as the four below
    used: int | None = None  # total - free - reserved; NVML's own "used" changed its meaning
    free: int | None = None
    reserved: int | None = None
    util: int | None = None  # percent of the last moments in which any kernel was on the card
    mem_util: int | None = None  # percent
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_mhz: int | None = None
    sm_max_mhz: int | None = None
    mem_mhz: int | None = None
    mem_max_mhz: int | None = None
    throttle: list[str] | None = None  # reasons in force; empty = none
    fan: int | None = None  # percent of its full speed
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    processes: list[Holder] | None = None
    numa_node: int | None = None
    node_meminfo: dict[str, int] | None = None  # bytes; of a card whose memory is a NUMA node
    fault: str | None = None  # what is wrong with this card and what to do
