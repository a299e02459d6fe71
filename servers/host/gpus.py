"""The only module that speaks to NVML: what each NVIDIA card says about itself."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from servers.host.kernel import Kernel
from servers.host.readings import Holder, Kind, Reading

log = logging.getLogger(__name__)

# Integrated GPUs: Orin, Thor, GB10 and its relatives. Their memory is the machine's.
_UNIFIED_NAMES = ("GB10", "Thor", "Orin", "N1X")
_UNIFIED_CAPABILITIES = {(8, 7), (11, 0), (12, 1)}
_SAME_SIZE = 0.03  # NVML's total and MemTotal closer than this are the same memory

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

_ABSENT = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
)
# No value just now, and no fault of the card's. With MIG some are for administrators only.
_NOT_NOW = (
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_NOT_READY,
)
# Answers after which there is no point in asking the same card anything else.
_LOST = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
)
# Answers that concern NVML as a whole: the session is over.
_OVER = (
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
)

_SENTENCES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "No GPU can be read because the NVIDIA driver's library libnvidia-ml.so.1 is not here: "
        "install the NVIDIA driver, or in a container give it the NVIDIA runtime with the "
        "“utility” capability."
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "No GPU can be read because the NVIDIA kernel module is not loaded: run "
        "“sudo modprobe nvidia”, and if that fails look for the reason in “sudo dmesg”."
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "No GPU can be read because the NVIDIA driver was updated while its old kernel module "
        "{driver}is still loaded: reboot the box."
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "No GPU can be read because this user may not open /dev/nvidia*: see who may with "
        "“ls -l /dev/nvidia*” and run the worker as such a user."
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: (
        "This GPU no longer answers the driver (it fell off the bus, or was taken away): stop what "
        "uses it and reboot the box; if it happens again, check its power cables and slot."
    ),
    pynvml.NVML_ERROR_RESET_REQUIRED: (
        "This GPU needs a reset before it can work again: stop what uses it, then run "
        "“sudo nvidia-smi --gpu-reset”, or reboot the box."
    ),
}


class GpuError(Exception):
    """NVML as a whole cannot be used; says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class _Memory:
    total: int | None = None
    free: int | None = None
    reserved: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Link:
    gen: int | None = None
    gen_max: int | None = None
    width: int | None = None
    width_max: int | None = None


class _Lost(Exception):
    """The card is beyond answering; carries the sentence."""


class Nvml:
    """A session with NVML. Its calls may block for ever: use it in a process that may be killed."""

    def __init__(self, kernel: Kernel) -> None:
        """Raises GpuError when the driver or its library is missing or broken."""
        self._kernel = kernel
        self._cards: dict[int, Card] = {}
        try:
            pynvml.nvmlInitWithFlags(0)
            self.driver: str = pynvml.nvmlSystemGetDriverVersion()
        except pynvml.NVMLError as error:
            raise _over(error, self._kernel) from error

    def read_all(self, meminfo: Mapping[str, int]) -> list[Reading]:
        """Every card. One that is lost says so in `fault` and hides no other.

        `meminfo` is /proc/meminfo in bytes: on a GPU without memory of its own it is the memory.
        Raises GpuError when NVML itself is gone; then make a new session.
        """
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise _over(error, self._kernel) from error
        # A card that the driver has dropped from its count is still one that people miss.
        for index in range(count):
            if index not in self._cards:
                self._cards[index] = Card(index, self._kernel)
        return [card.read(meminfo) for card in self._cards.values()]

    def close(self) -> None:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            log.warning("NVML did not shut down: %s", error)


class Card:
    """One card, with what cannot change and what it is known not to report."""

    def __init__(self, index: int, kernel: Kernel) -> None:
        self._index = index
        self._kernel = kernel
        self._handle: Any = None
        self._absent: set[str] = set()
        self._fixed: dict[str, Any] = {}
        self._fault: str | None = None
        self._last = Reading(index=index, uuid=None, name=None, compute_capability=None, kind=None)

    def read(self, meminfo: Mapping[str, int]) -> Reading:
        """Raises GpuError when an answer shows that NVML as a whole is gone."""
        self._fault = None
        try:
            if self._handle is None:
                self._handle = self._ask("handle", pynvml.nvmlDeviceGetHandleByIndex, self._index)
            reading = self._reading(meminfo)
        except _Lost as lost:
            # The same place may get a fresh card after a reset: ask for it anew next time.
            self._handle = None
            return Reading(
                index=self._index,
                uuid=self._last.uuid,
                name=self._last.name,
                compute_capability=self._last.compute_capability,
                kind=self._last.kind,
                fault=str(lost),
            )
        self._last = replace(reading, fault=self._fault)
        return self._last

    def _reading(self, meminfo: Mapping[str, int]) -> Reading:
        card = self._handle
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
        return Reading(
            index=self._index,
            uuid=uuid,
            name=name,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            kind=kind,
            total=memory.total,
            used=_used(memory),
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
            pcie_gen=link.gen,
            pcie_gen_max=link.gen_max,
            pcie_width=link.width,
            pcie_width_max=link.width_max,
        )

    def _memory(self) -> _Memory:
        card, v2 = self._handle, pynvml.nvmlMemory_v2
        memory = self._ask("memory", pynvml.nvmlDeviceGetMemoryInfo, card, v2)
        reserved = memory.reserved if memory else None
        if memory is None:
            # Before driver 510 there is only the first version, without "reserved".
            memory = self._ask("memory, version 1", pynvml.nvmlDeviceGetMemoryInfo, card)
        if memory is None or memory.total == 0:
            return _Memory()
        return _Memory(total=memory.total, free=memory.free, reserved=reserved)

    def _temperature(self) -> int | None:
        card, sensor = self._handle, pynvml.NVML_TEMPERATURE_GPU
        degrees = self._ask("temperature", pynvml.nvmlDeviceGetTemperatureV, card, sensor)
        if degrees is None:
            # Drivers before 570 know only the older call.
            degrees = self._ask("temperature, old", pynvml.nvmlDeviceGetTemperature, card, sensor)
        return degrees  # type: ignore[no-any-return]

    def _throttle(self) -> int | None:
        card = self._handle
        bits = self._ask("clock reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons, card)
        if bits is None:
            old = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
            bits = self._ask("clock reasons, old", old, card)
        return bits  # type: ignore[no-any-return]

    def _clock(self, what: str, clock: int) -> Any:
        return self._ask(what, pynvml.nvmlDeviceGetClockInfo, self._handle, clock)

    def _max_clock(self, what: str, clock: int) -> Any:
        return self._once(what, pynvml.nvmlDeviceGetMaxClockInfo, self._handle, clock)

    def _link(self, kind: Kind) -> _Link:
        if kind == "unified":
            # The GPU is on the same chip; NVML's "Gen1 x1" there describes no real link.
            return _Link()
        card = self._handle
        return _Link(
            gen=self._ask("PCIe link", pynvml.nvmlDeviceGetCurrPcieLinkGeneration, card),
            gen_max=self._once("best link", pynvml.nvmlDeviceGetMaxPcieLinkGeneration, card),
            width=self._ask("PCIe width", pynvml.nvmlDeviceGetCurrPcieLinkWidth, card),
            width_max=self._once("best width", pynvml.nvmlDeviceGetMaxPcieLinkWidth, card),
        )

    def _processes(self) -> list[Holder] | None:
        lists = [
            self._ask(f"{name} processes", _patiently(listing), self._handle)
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
        return [Holder(pid=pid, used=used[pid]) for pid in sorted(used)]

    def _once(self, what: str, query: Callable[..., Any], *args: Any) -> Any:
        if what not in self._fixed:
            answer = self._ask(what, query, *args)
            if answer is None:
                return None
            self._fixed[what] = answer
        return self._fixed[what]

    def _ask(self, what: str, query: Callable[..., Any], *args: Any) -> Any:
        """The answer, or None for a value that the card does not report."""
        if what in self._absent:
            return None
        try:
            return query(*args)
        except pynvml.NVMLError as error:
            if error.value in _OVER:
                raise _over(error, self._kernel) from error
            if error.value in _LOST or self._handle is None:
                raise _Lost(_sentence(error)) from error
            if error.value in _ABSENT:
                self._absent.add(what)
            elif error.value not in _NOT_NOW:
                self._fault = self._fault or f"This GPU does not tell its {what}: {error}."
            return None


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


def _used(memory: _Memory) -> int | None:
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


def _over(error: pynvml.NVMLError, kernel: Kernel) -> GpuError:
    version = kernel.driver_version()
    return GpuError(_sentence(error).replace("{driver}", f"{version} " if version else ""))


def _sentence(error: pynvml.NVMLError) -> str:
    return _SENTENCES.get(
        error.value,
        f"NVML answers “{error}”: compare with “nvidia-smi” on the box, and look for lines "
        "with NVRM in “sudo dmesg”.",
    )
