"""Simulated nvidia-ml-py: what its functions answer is in the file that INFERDASH_DEMO_GPUS names.

Constants and errors are the real package's. What a card has no value for is "not supported".
"""

import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Callable
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


# Functions that answer with one value of a card, whatever else they are asked.
_VALUES = {
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetNumaNodeId": "numa_node",
    "nvmlDeviceGetTemperatureV": "temperature",
    "nvmlDeviceGetTemperatureThreshold": "threshold",
    "nvmlDeviceGetMarginTemperature": "margin",
    "nvmlDeviceGetPowerUsage": "power",
    "nvmlDeviceGetEnforcedPowerLimit": "power_limit",
    "nvmlDeviceGetCurrentClocksEventReasons": "throttle",
    "nvmlDeviceGetFanSpeed": "fan",
    "nvmlDeviceGetPerformanceState": "pstate",
    "nvmlDeviceGetCurrPcieLinkGeneration": "pcie_gen",
    "nvmlDeviceGetMaxPcieLinkGeneration": "pcie_gen_max",
    "nvmlDeviceGetCurrPcieLinkWidth": "pcie_width",
    "nvmlDeviceGetMaxPcieLinkWidth": "pcie_width",
    "nvmlDeviceGetPcieReplayCounter": "pcie_replays",
    "nvmlDeviceGetTotalEccErrors": "ecc",
    "nvmlDeviceGetRetiredPages": "retired_pages",
    "nvmlDeviceGetRetiredPagesPendingStatus": "retired_pages",
}


def _answer_with(name: str) -> Callable[..., Any]:
    def answer(card: Any, *_more: Any) -> Any:
        return _value(card, name)

    return answer


globals().update({function: _answer_with(name) for function, name in _VALUES.items()})


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


def nvmlDeviceGetCudaComputeCapability(card: Any) -> tuple[int, int]:
    major, minor = _value(card, "capability")
    return major, minor


def nvmlDeviceGetMemoryInfo(card: Any, version: Any = None) -> Any:
    total, reserved, used = (_value(card, name) for name in ("total", "reserved", "used"))
    free = total - reserved - used
    return SimpleNamespace(total=total, free=free, used=used, reserved=reserved)


def nvmlDeviceGetUtilizationRates(card: Any) -> Any:
    return SimpleNamespace(gpu=_value(card, "util"), memory=_value(card, "mem_util"))


def nvmlDeviceGetClockInfo(card: Any, clock: int) -> Any:
    return _value(card, "sm_clock" if clock == _real.NVML_CLOCK_SM else "mem_clock")


def nvmlDeviceGetMaxClockInfo(card: Any, clock: int) -> Any:
    return _value(card, "sm_clock_max" if clock == _real.NVML_CLOCK_SM else "mem_clock_max")


def nvmlDeviceGetPersistenceMode(_card: Any) -> int:
    return 1


def nvmlDeviceGetPciInfo(card: Any) -> Any:
    domain, bus = _value(card, "pci")
    return SimpleNamespace(domain=domain, bus=bus, device=0)


def nvmlDeviceGetRemappedRows(card: Any) -> Any:
    return tuple(_value(card, "rows"))


def nvmlDeviceGetRowRemapperHistogram(card: Any) -> Any:
    return SimpleNamespace(none=_value(card, "ecc"))


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
