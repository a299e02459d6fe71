"""One GPU at one moment, in the words of a sample."""

from dataclasses import dataclass
from typing import Literal

# discrete: memory on the card. unified: the machine's memory is the GPU's. numa: memory on the
# card that the kernel hands out as one of its NUMA nodes.
type Kind = Literal["discrete", "unified", "numa"]

# lost: it answers nothing. reset: it asks for one. odd: an answer nobody expects.
type Fault = Literal["lost", "reset", "odd"]


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    """A process that has something on a card."""

    pid: int  # as seen in our own pid namespace
    used: int | None  # bytes


@dataclass(frozen=True, kw_only=True)
class EccErrors:
    """Errors that the memory's ECC has met. None: not counted."""

    corrected: int | None  # since the driver was loaded, as the next
    uncorrected: int | None
    corrected_ever: int | None  # in the card's life, as the next
    uncorrected_ever: int | None


@dataclass(frozen=True, kw_only=True)
class RemappedRows:
    """Rows of the card's memory that were replaced by spare ones (Ampere and later)."""

    corrected: int  # after errors that could be corrected
    uncorrected: int  # after one that could not
    pending: bool  # one waits for a reset
    failed: bool  # one could not be replaced
    without_spare: int | None  # banks that have no spare row left


@dataclass(frozen=True, kw_only=True)
class RetiredPages:
    """Pages of the card's memory that are no longer used (before Ampere)."""

    pages: int
    pending: bool  # one waits for a reset


@dataclass(frozen=True, kw_only=True)
class GpuEvent:
    """Something that the driver has reported once, by NVML or in the kernel's log."""

    what: Literal["xid", "no_memory"]  # no_memory: the driver itself got none from the kernel
    t: float  # unix seconds
    source: Literal["nvml", "kernel"]
    gpu: str | None = None  # UUID
    pci: str | None = None  # "0000:65:00"
    number: int | None = None  # of the XID
    said: str = ""  # the kernel's words


@dataclass(frozen=True, kw_only=True)
class CardReading:
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
    processes: list[GpuProcess] | None = None
    pci: str | None = None  # domain, bus and device: "0000:65:00"
    pstate: int | None = None  # 0 is the fastest
    margin_c: int | None = None  # degrees until the card slows down by itself
    slowdown_c: int | None = None  # where it does, as the next on older cards only
    shutdown_c: int | None = None
    persistence: bool | None = None  # the driver stays awake with nobody on the card
    pcie_replays: int | None = None  # packets sent again since the driver was loaded
    ecc: EccErrors | None = None
    rows: RemappedRows | None = None
    retired: RetiredPages | None = None
    numa_node: int | None = None
    node_meminfo: dict[str, int] | None = None  # bytes; of a card whose memory is a NUMA node
    fault: str | None = None  # what is wrong with this card and what to do
    fault_kind: Fault | None = None
