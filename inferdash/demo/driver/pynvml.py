"""Simulated nvidia-ml-py: what its functions answer is in the file that INFERDASH_DEMO_GPUS names.

Constants and errors are the real package's. What a card has no value for is "not supported".
"""

import ctypes
import importlib.util
import json
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

_HERE = Path(__file__).resolve().parent


def _load_real() -> ModuleType:
    elsewhere = [each for each in sys.path if Path(each or ".").resolve() != _HERE]
    spec = PathFinder.find_spec("pynvml", elsewhere)
    if spec is None or spec.loader is None:
        raise ImportError("nvidia-ml-py is not installed")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_real = _load_real()
globals().update({name: value for name, value in vars(_real).items() if name[:2] != "__"})


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(os.environ["INFERDASH_DEMO_GPUS"]).read_text())
    return found


def _card(handle: Any) -> dict[str, Any]:
    found: dict[str, Any] = _read()["cards"][handle.value - 1]
    return found


def _value(handle: Any, name: str) -> Any:
    value = _card(handle).get(name)
    if value is None:
        raise _real.NVMLError(_real.NVML_ERROR_NOT_SUPPORTED)
    return value


def nvmlInitWithFlags(_flags: int) -> None:
    """There is always a simulated driver."""


def nvmlShutdown() -> None:
    """Nothing is held."""


def nvmlSystemGetDriverVersion() -> str:
    return str(_read()["driver"])


def nvmlDeviceGetCount() -> int:
    return len(_read()["cards"])


def nvmlDeviceGetHandleByIndex(index: int) -> Any:
    return ctypes.c_void_p(index + 1)


def nvmlDeviceGetUUID(card: Any) -> Any:
    return _value(card, "uuid")


def nvmlDeviceGetName(card: Any) -> Any:
    return _value(card, "name")


def nvmlDeviceGetCudaComputeCapability(card: Any) -> tuple[int, int]:
    major, minor = _value(card, "capability")
    return major, minor


def nvmlDeviceGetNumaNodeId(card: Any) -> Any:
    return _value(card, "numa_node")


def nvmlDeviceGetMemoryInfo(card: Any, version: Any = None) -> Any:
    total, reserved, used = (_value(card, name) for name in ("total", "reserved", "used"))
    free = total - reserved - used
    return SimpleNamespace(total=total, free=free, used=used, reserved=reserved)


def nvmlDeviceGetUtilizationRates(card: Any) -> Any:
    return SimpleNamespace(gpu=_value(card, "util"), memory=_value(card, "mem_util"))


def nvmlDeviceGetTemperatureV(card: Any, _sensor: int) -> Any:
    return _value(card, "temperature")


def nvmlDeviceGetTemperatureThreshold(card: Any, _threshold: int) -> Any:
    return _value(card, "threshold")


def nvmlDeviceGetMarginTemperature(card: Any) -> Any:
    return _value(card, "margin")


def nvmlDeviceGetPowerUsage(card: Any) -> Any:
    return _value(card, "power")


def nvmlDeviceGetEnforcedPowerLimit(card: Any) -> Any:
    return _value(card, "power_limit")


def nvmlDeviceGetClockInfo(card: Any, clock: int) -> Any:
    return _value(card, "sm_clock" if clock == _real.NVML_CLOCK_SM else "mem_clock")


def nvmlDeviceGetMaxClockInfo(card: Any, clock: int) -> Any:
    return _value(card, "sm_clock_max" if clock == _real.NVML_CLOCK_SM else "mem_clock_max")


def nvmlDeviceGetCurrentClocksEventReasons(card: Any) -> Any:
    return _value(card, "throttle")


def nvmlDeviceGetFanSpeed(card: Any) -> Any:
    return _value(card, "fan")


def nvmlDeviceGetPerformanceState(card: Any) -> Any:
    return _value(card, "pstate")


def nvmlDeviceGetPersistenceMode(_card: Any) -> int:
    return 1


def nvmlDeviceGetCurrPcieLinkGeneration(card: Any) -> Any:
    return _value(card, "pcie_gen")


def nvmlDeviceGetMaxPcieLinkGeneration(card: Any) -> Any:
    return _value(card, "pcie_gen_max")


def nvmlDeviceGetCurrPcieLinkWidth(card: Any) -> Any:
    return _value(card, "pcie_width")


def nvmlDeviceGetMaxPcieLinkWidth(card: Any) -> Any:
    return _value(card, "pcie_width")


def nvmlDeviceGetPcieReplayCounter(card: Any) -> Any:
    return _value(card, "pcie_replays")


def nvmlDeviceGetPciInfo(card: Any) -> Any:
    domain, bus = _value(card, "pci")
    return SimpleNamespace(domain=domain, bus=bus, device=0)


def nvmlDeviceGetTotalEccErrors(card: Any, _which: int, _period: int) -> Any:
    return _value(card, "ecc")


def nvmlDeviceGetRemappedRows(card: Any) -> Any:
    return tuple(_value(card, "rows"))


def nvmlDeviceGetRowRemapperHistogram(card: Any) -> Any:
    return SimpleNamespace(none=_value(card, "ecc"))


def nvmlDeviceGetRetiredPages(card: Any, _cause: int) -> Any:
    return _value(card, "retired_pages")


def nvmlDeviceGetRetiredPagesPendingStatus(card: Any) -> Any:
    return _value(card, "retired_pages")


def nvmlDeviceGetComputeRunningProcesses_v3(card: Any) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in _card(card)["processes"]]


def nvmlDeviceGetGraphicsRunningProcesses_v3(_card: Any) -> list[Any]:
    return []


def nvmlDeviceGetMPSComputeRunningProcesses_v3(_card: Any) -> list[Any]:
    return []


def nvmlEventSetCreate() -> Any:
    return SimpleNamespace()


def nvmlDeviceRegisterEvents(_card: Any, _kinds: int, _set: Any) -> None:
    """No XID error is simulated."""


def nvmlEventSetWait_v2(_set: Any, _timeout: int) -> Any:
    raise _real.NVMLError(_real.NVML_ERROR_TIMEOUT)


def nvmlEventSetFree(_set: Any) -> None:
    """Nothing is held."""
