"""Samples of a box, second by second, as its collector would give them."""

from typing import Any

from servers.judge.memory.hardware.finding import HardwareFinding
from servers.judge.memory.hardware.judge import HardwareJudge

GIB = 2**30
T = 1_790_000_000.0
UUID = "GPU-one"


def card(**values: Any) -> dict[str, Any]:
    """A discrete card at work, with which all is well."""
    return {
        "index": 0, "uuid": UUID, "name": "NVIDIA RTX PRO 6000", "kind": "discrete",
        "compute_capability": "12.0", "total": 96 * GIB, "used": 80 * GIB, "free": 15 * GIB,
        "reserved": GIB, "util": 97, "mem_util": 60, "temperature_c": 71, "margin_c": 20,
        "slowdown_c": None, "shutdown_c": None, "power_w": 580.0, "power_limit_w": 600.0,
        "sm_mhz": 2400, "sm_max_mhz": 2430, "pstate": 0, "throttle": ["sw_power_cap"],
        "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16,
        "pcie_replays": 0, "persistence": True, "retired": None, "fault": None, "fault_kind": None,
        "ecc": {"corrected": 0, "uncorrected": 0, "corrected_ever": 3, "uncorrected_ever": 0},
        "rows": {"corrected": 0, "uncorrected": 0, "pending": False, "failed": False,
                 "without_spare": 0},
        "processes": [],
    } | values  # fmt: skip


def idle(**values: Any) -> dict[str, Any]:
    """The same with nobody on it: its link and clocks go down on purpose."""
    quiet = {"util": 0, "mem_util": 0, "temperature_c": 31, "margin_c": 60, "power_w": 14.0}
    low = {"sm_mhz": 180, "pstate": 8, "throttle": ["gpu_idle"], "pcie_gen": 1}
    return card(**quiet | low | values)


def gb10(**values: Any) -> dict[str, Any]:
    """A GB10 at work: much is not reported."""
    silent = ("margin_c", "power_limit_w", "mem_util", "pcie_gen", "pcie_gen_max", "pcie_width",
              "pcie_width_max", "pcie_replays", "ecc", "rows", "reserved")  # fmt: skip
    own = {"name": "NVIDIA GB10", "kind": "unified", "compute_capability": "12.1", "util": 96,
           "power_w": 62.0, "sm_mhz": 2400, "sm_max_mhz": 3003, "throttle": []}  # fmt: skip
    return card(**dict.fromkeys(silent) | own | values)


def xid(number: int, *, ago: float = 0.0, count: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "what": "xid", "number": number, "gpu": UUID, "pci": "0000:18:00", "count": count,
        "first": T - ago, "last": T - ago, "said": "", "sources": ["nvml"],
    } | values  # fmt: skip


def disk(free: float, total: float, path: str = "/data/hf", device: int = 1) -> dict[str, Any]:
    """In GiB."""
    return {"path": path, "free": int(free * GIB), "total": int(total * GIB), "device": device}


class HardwareScene:
    """A box; `pass_` lets time go by and tells what is found at its end."""

    def __init__(self, *cards: dict[str, Any]) -> None:
        self.t = T
        self.judge = HardwareJudge()
        self.cards = list(cards) or [card()]
        self.values: dict[str, Any] = {
            "boot_id": "one", "uptime_s": 5000.0, "driver": "580.95.05", "driver_params": {},
            "collector_ok": True, "stale_s": None, "error": None, "error_kind": None,
            "meminfo": {"MemTotal": 512 * GIB, "MemAvailable": 400 * GIB,
                        "SwapTotal": 16 * GIB, "SwapFree": 16 * GIB},
            "pressure": {"some": 0.0, "full": 0.0}, "swap": {"in": 0, "out": 0},
            "happened": [], "unseen": {},
            "disks": {"images": disk(400, 900, "/var/lib/docker", 2), "cache": disk(4000, 9000),
                      "shm": disk(64, 64, "/dev/shm", 3)},  # noqa: S108
        }  # fmt: skip

    def sample(self) -> dict[str, Any]:
        return {"t": self.t, **self.values, "gpus": self.cards}

    def pass_(self, seconds: float = 1.0) -> list[HardwareFinding]:
        found = self.judge.step(self.sample())
        for _second in range(int(seconds)):
            self.t += 1
            found = self.judge.step(self.sample())
        return found

    def rules(self, seconds: float = 1.0) -> list[tuple[str, str]]:
        """Rule and severity of what is found after this time."""
        return [(each.rule, each.severity) for each in self.pass_(seconds)]
