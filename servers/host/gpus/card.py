"""One card: its readings, the quick ones and the slow ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from servers.host.gpus.answers import CardLostError, NvmlDevice
from servers.host.gpus.readings import (
    CardReading,
    EccErrors,
    GpuProcess,
    Kind,
    RemappedRows,
    RetiredPages,
)
from servers.host.kernel.proc import Kernel


@dataclass(frozen=True, kw_only=True)
class SlowReadings:
    """None: not reported."""

    persistence: bool | None
    pcie_replays: int | None
    ecc: EccErrors | None
    rows: RemappedRows | None
    retired: RetiredPages | None


def read_slow(asking: NvmlDevice, card: Any) -> SlowReadings:
    """Raises Lost and GpuError as Asking does."""
    mode = asking.ask("persistence mode", pynvml.nvmlDeviceGetPersistenceMode, card)
    rows = _rows(asking, card)
    return SlowReadings(
        persistence=None if mode is None else bool(mode),
        pcie_replays=asking.ask("PCIe replays", pynvml.nvmlDeviceGetPcieReplayCounter, card),
        ecc=_ecc(asking, card),
        rows=rows,
        # Cards that replace rows retire no pages.
        retired=_read_retired_pages(asking, card) if rows is None else None,
    )


def pci_of(card: Any) -> str:
    """Domain, bus and device as the kernel writes them in its log: "0000:65:00"."""
    found = pynvml.nvmlDeviceGetPciInfo(card)
    return f"{found.domain:04x}:{found.bus:02x}:{found.device:02x}"


def _ecc(asking: NvmlDevice, card: Any) -> EccErrors | None:
    corrected = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
    uncorrected = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    query = pynvml.nvmlDeviceGetTotalEccErrors
    counts = [
        asking.ask(f"{which} ECC errors {period}", query, card, which, period)
        for period in (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
        for which in (corrected, uncorrected)
    ]
    if all(count is None for count in counts):
        return None
    return EccErrors(
        corrected=counts[0],
        uncorrected=counts[1],
        corrected_ever=counts[2],
        uncorrected_ever=counts[3],
    )


def _rows(asking: NvmlDevice, card: Any) -> RemappedRows | None:
    rows = asking.ask("remapped rows", pynvml.nvmlDeviceGetRemappedRows, card)
    if rows is None:
        return None
    spare = asking.ask("spare rows", pynvml.nvmlDeviceGetRowRemapperHistogram, card)
    return RemappedRows(
        corrected=rows[0],
        uncorrected=rows[1],
        pending=bool(rows[2]),
        failed=bool(rows[3]),
        without_spare=spare.none if spare else None,
    )


def _read_retired_pages(asking: NvmlDevice, card: Any) -> RetiredPages | None:
    lists = [
        asking.ask(f"retired pages {cause}", pynvml.nvmlDeviceGetRetiredPages, card, cause)
        for cause in (
            pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
            pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
        )
    ]
    if all(pages is None for pages in lists):
        return None
    query = pynvml.nvmlDeviceGetRetiredPagesPendingStatus
    return RetiredPages(
        pages=sum(len(pages or ()) for pages in lists),
        pending=bool(asking.ask("pages to retire", query, card)),
    )


# Integrated GPUs: Orin, Thor, GB10 and its relatives. Their memory is the machine's.
_UNIFIED_NAMES = ("GB10", "Thor", "Orin", "N1X")
_UNIFIED_CAPABILITIES = {(8, 7), (11, 0), (12, 1)}
_SAME_SIZE = 0.03  # NVML's total and MemTotal closer than this are the same memory

# What changes slowly is asked every so many rounds, each card in another one.
_SLOW_EVERY = 10

_THROTTLE = {
    0x1: "gpu_idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}


@dataclass(frozen=True, kw_only=True)
class _Memory:
    total: int | None = None
    free: int | None = None
    reserved: int | None = None


class NvmlCard:
    """One card, with what cannot change and what it is known not to report."""

    def __init__(self, index: int, kernel: Kernel) -> None:
        self._index = index
        self._kernel = kernel
        self._asking = NvmlDevice(kernel)
        self._ask, self._once = self._asking.ask, self._asking.once
        self._slow: SlowReadings | None = None
        self._slow_fault: str | None = None
        self._limits: dict[str, Any] = {}
        self._rounds = index
        self.handle: Any = None  # None while the card is lost
        self._last = CardReading(
            index=index, uuid=None, name=None, compute_capability=None, kind=None
        )

    def read(self, meminfo: Mapping[str, int]) -> CardReading:
        """Raises GpuError when an answer shows that NVML as a whole is gone."""
        self._asking.forget_fault()
        try:
            if self.handle is None:
                self.handle = self._asking.handle(self._index)
            reading = self._build_reading(meminfo)
        except CardLostError as lost:
            # The same place may get a fresh card after a reset: ask for it anew next time.
            self.handle = self._slow = None
            return CardReading(
                index=self._index,
                uuid=self._last.uuid,
                name=self._last.name,
                compute_capability=self._last.compute_capability,
                kind=self._last.kind,
                pci=self._last.pci,
                fault=str(lost),
                fault_kind=lost.kind,
            )
        fault = self._asking.fault
        self._last = replace(reading, fault=fault, fault_kind="odd" if fault else None)
        return self._last

    def _build_reading(self, meminfo: Mapping[str, int]) -> CardReading:
        card = self.handle
        uuid = self._once("uuid", pynvml.nvmlDeviceGetUUID, card)
        name = self._once("name", pynvml.nvmlDeviceGetName, card)
        capability = self._once("capability", pynvml.nvmlDeviceGetCudaComputeCapability, card)
        node = self._once("numa node", pynvml.nvmlDeviceGetNumaNodeId, card)
        memory = self._memory()
        kind = _kind(name or "", capability, node, memory, meminfo)
        if kind == "unified":
            memory = _Memory(total=meminfo["MemTotal"], free=meminfo.get("MemAvailable"))
        util = self._ask("utilisation", pynvml.nvmlDeviceGetUtilizationRates, card)
        link = self._link(kind)
        seldom = self._seldom()
        return CardReading(
            index=self._index,
            uuid=uuid,
            name=name,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            kind=kind,
            total=memory.total,
            used=_compute_used(memory),
            free=memory.free,
            reserved=memory.reserved,
            util=util.gpu if util else None,
            # A GPU without memory of its own answers 0 whatever it does.
            mem_util=util.memory if util and kind != "unified" else None,
            temperature_c=self._temperature(),
            power_w=_watts(self._ask("power", pynvml.nvmlDeviceGetPowerUsage, card)),
            power_limit_w=_watts(
                self._ask("power limit", pynvml.nvmlDeviceGetEnforcedPowerLimit, card)
            ),
            sm_mhz=self._clock("SM clock", pynvml.NVML_CLOCK_SM),
            sm_max_mhz=self._max_clock("greatest SM clock", pynvml.NVML_CLOCK_SM),
            mem_mhz=self._clock("memory clock", pynvml.NVML_CLOCK_MEM),
            mem_max_mhz=self._max_clock("greatest memory clock", pynvml.NVML_CLOCK_MEM),
            throttle=_reasons(self._throttle()),
            fan=self._ask("fan", pynvml.nvmlDeviceGetFanSpeed, card),
            processes=self._processes(),
            numa_node=node if kind == "numa" else None,
            node_meminfo=self._kernel.node_meminfo(node) if kind == "numa" else None,
            **link,
            pci=self._once("PCI address", pci_of, card),
            pstate=self._ask("performance state", pynvml.nvmlDeviceGetPerformanceState, card),
            margin_c=self._asking.ask_gently(
                "thermal margin", pynvml.nvmlDeviceGetMarginTemperature, card
            ),
            slowdown_c=self._limit("slowdown", pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
            shutdown_c=self._limit("shutdown", pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
            persistence=seldom.persistence,
            # Of a GPU on the chip it counts nothing that could be mended.
            pcie_replays=seldom.pcie_replays if kind != "unified" else None,
            ecc=seldom.ecc,
            rows=seldom.rows,
            retired=seldom.retired,
        )

    def _seldom(self) -> SlowReadings:
        asking, before = self._asking, self._asking.fault
        if self._slow is None or self._rounds % _SLOW_EVERY == 0:
            asking.forget_fault()
            self._slow = read_slow(asking, self.handle)
            self._slow_fault = asking.fault
        # An odd answer stays one until it is asked for again.
        asking.fault = before or self._slow_fault
        self._rounds += 1
        return self._slow

    def _memory(self) -> _Memory:
        card, v2 = self.handle, pynvml.nvmlMemory_v2
        memory = self._ask("memory", pynvml.nvmlDeviceGetMemoryInfo, card, v2)
        reserved = memory.reserved if memory else None
        if memory is None:
            # Before driver 510 there is only the first version, without "reserved".
            memory = self._ask("memory, version 1", pynvml.nvmlDeviceGetMemoryInfo, card)
        if memory is None or memory.total == 0:
            return _Memory()
        return _Memory(total=memory.total, free=memory.free, reserved=reserved)

    def _temperature(self) -> int | None:
        card, sensor = self.handle, pynvml.NVML_TEMPERATURE_GPU
        degrees = self._ask("temperature", pynvml.nvmlDeviceGetTemperatureV, card, sensor)
        if degrees is None:
            # Drivers before 570 know only the older call.
            degrees = self._ask("temperature, old", pynvml.nvmlDeviceGetTemperature, card, sensor)
        return degrees  # type: ignore[no-any-return]

    def _limit(self, what: str, threshold: int) -> Any:
        query = pynvml.nvmlDeviceGetTemperatureThreshold
        if what not in self._limits:
            args = (f"{what} temperature", query, self.handle, threshold)
            self._limits[what] = self._asking.ask_gently(*args)
        return self._limits[what]

    def _throttle(self) -> int | None:
        card = self.handle
        bits = self._ask("clock reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons, card)
        if bits is None:
            old = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
            bits = self._ask("clock reasons, old", old, card)
        return bits  # type: ignore[no-any-return]

    def _clock(self, what: str, clock: int) -> Any:
        return self._ask(what, pynvml.nvmlDeviceGetClockInfo, self.handle, clock)

    def _max_clock(self, what: str, clock: int) -> Any:
        return self._once(what, pynvml.nvmlDeviceGetMaxClockInfo, self.handle, clock)

    def _link(self, kind: Kind) -> dict[str, Any]:
        if kind == "unified":
            # The GPU is on the same chip; NVML's "Gen1 x1" there describes no real link.
            return {}
        card = self.handle
        return {
            "pcie_gen": self._ask("PCIe link", pynvml.nvmlDeviceGetCurrPcieLinkGeneration, card),
            "pcie_gen_max": self._once(
                "best link", pynvml.nvmlDeviceGetMaxPcieLinkGeneration, card
            ),
            "pcie_width": self._ask("PCIe width", pynvml.nvmlDeviceGetCurrPcieLinkWidth, card),
            "pcie_width_max": self._once("best width", pynvml.nvmlDeviceGetMaxPcieLinkWidth, card),
        }

    def _processes(self) -> list[GpuProcess] | None:
        lists = [
            self._ask(f"{name} processes", _patiently(listing), self.handle)
            for name, listing in (
                ("compute", pynvml.nvmlDeviceGetComputeRunningProcesses_v3),
                ("graphics", pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3),
                ("MPS", pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3),
            )
        ]
        if all(found is None for found in lists):
            return None
        # A process that computes and draws is in two lists with the same memory in both.
        used: dict[int, int | None] = {}
        for process in (process for found in lists for process in found or []):
            known = used.get(process.pid)
            if known is None or (process.usedGpuMemory or 0) > known:
                used[process.pid] = process.usedGpuMemory
        return [GpuProcess(pid=pid, used=used[pid]) for pid in sorted(used)]


def _patiently(listing: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Ask again when the list has outgrown the room made for it between NVML's two calls."""

    def query(handle: Any) -> list[Any]:
        for _attempt in range(4):
            try:
                return listing(handle)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
                    raise
        return listing(handle)

    return query


def _kind(
    name: str,
    capability: tuple[int, int] | None,
    node: int | None,
    memory: _Memory,
    meminfo: Mapping[str, int],
) -> Kind:
    machine = meminfo["MemTotal"]
    is_integrated = capability in _UNIFIED_CAPABILITIES or any(
        word in name.split() or name.endswith(word) for word in _UNIFIED_NAMES
    )
    has_none_of_its_own = memory.total is None or (
        abs(memory.total - machine) <= machine * _SAME_SIZE
    )
    if is_integrated and has_none_of_its_own:
        return "unified"
    return "discrete" if node is None or node < 0 else "numa"


def _compute_used(memory: _Memory) -> int | None:
    if memory.total is None or memory.free is None:
        return None
    return max(0, memory.total - memory.free - (memory.reserved or 0))


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _reasons(bits: int | None) -> list[str] | None:
    if bits is None:
        return None
    known = [name for bit, name in _THROTTLE.items() if bits & bit]
    unknown = bits & ~sum(_THROTTLE)
    return [*known, f"unknown_{unknown:#x}"] if unknown else known
