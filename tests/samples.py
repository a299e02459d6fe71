"""Samples of the collector as real cards make them."""

from typing import Any

from django.utils import timezone

GIB = 2**30
RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def card(index: int, held: list[tuple[int, float]], **values: Any) -> dict[str, Any]:
    """A discrete card of the collector's sample; `held` are pids with GiB."""
    total, reserved = int(95.6 * GIB), int(0.6 * GIB)
    used = int(sum(size for _pid, size in held) * GIB + 0.4 * GIB)
    is_busy = bool(held)
    return {
        "index": index,
        "uuid": f"GPU-{index:08d}-1111-2222-3333-444444444444",
        "name": RTX,
        "compute_capability": "12.0",
        "kind": "discrete",
        "total": total,
        "free": total - reserved - used,
        "used": used,
        "reserved": reserved,
        "util": 40 + index * 7 if is_busy else 0,
        "mem_util": 31 if is_busy else 0,
        "temperature_c": 58 + index if is_busy else 31,
        "power_w": 312.4 + index * 9 if is_busy else 14.2,
        "power_limit_w": 600.0,
        "sm_mhz": 2422 if is_busy else 180,
        "sm_max_mhz": 2617,
        "mem_mhz": 14001,
        "mem_max_mhz": 14001,
        "throttle": ["sw_power_cap"] if index == 3 else [],
        "fan": 54,
        "persistence": True,
        "pcie_replays": 0,
        "ecc": {"corrected": 0, "uncorrected": 0, "corrected_ever": 0, "uncorrected_ever": 0},
        "rows": dict.fromkeys(
            ("corrected", "uncorrected", "pending", "failed", "without_spare"), 0
        ),
        "pcie_gen": 5,
        "pcie_gen_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "processes": [{"pid": pid, "used": int(size * GIB)} for pid, size in held],
        "fault": None,
        **values,
    }


SILENT_ON_GB10 = (
    *("power_limit_w", "mem_util", "mem_mhz", "mem_max_mhz", "fan", "reserved"),
    *("pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max"),
    *("pcie_replays", "ecc", "rows"),
)


def unified(free: float, held: list[tuple[int, float]], **values: Any) -> dict[str, Any]:
    """A GB10: its memory is the machine's, and much is not reported."""
    total = int(119.6 * GIB)
    values = {
        **dict.fromkeys(SILENT_ON_GB10),
        "name": "NVIDIA GB10",
        "uuid": "GPU-gb10",
        "compute_capability": "12.1",
        "kind": "unified",
        "total": total,
        "free": int(free * GIB),
        "used": total - int(free * GIB),
        "util": 96,
        "power_w": 38.2,
        "temperature_c": 61,
        "sm_mhz": 2418,
        "sm_max_mhz": 3003,
        **values,
    }
    return card(0, held, **values)


def process(pid: int, container: str | None = None, **values: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "start": 1000 + pid,
        "started_at": None,
        "ppid": 1,
        "name": "VLLM::EngineCore",
        "title": values.get("name", "VLLM::EngineCore"),
        "state": "S",
        "user": "root",
        "container": container,
        **values,
    }


def sample(
    gpus: list[dict[str, Any]], processes: list[dict[str, Any]], **values: Any
) -> dict[str, Any]:
    is_unified = any(each["kind"] == "unified" for each in gpus)
    free = gpus[0]["free"] if is_unified else int(412.3 * GIB)
    total = int((119.6 if is_unified else 503.5) * GIB)
    held = sum(each["used"] or 0 for gpu in gpus for each in gpu["processes"] or [])
    cached, at_once = int(free * 0.5), int(free * 0.4)
    kernel = int(2.1 * GIB)
    # What neither a GPU nor the kernel nor a file has is the programs'.
    own = max(0, total - at_once - cached - kernel - (held if is_unified else 0) - int(0.9 * GIB))
    return {
        "t": round(timezone.now().timestamp(), 3),
        "boot_id": "9f0c5d0e",
        "uptime_s": 521_000.0,
        "driver": "580.142",
        "driver_params": {},
        "sees_host_pids": True,
        "collector_ok": True,
        "stale_s": None,
        "error": None,
        "meminfo": {
            "MemTotal": total,
            "MemAvailable": free,
            "MemFree": at_once,
            "Cached": cached,
            "AnonPages": own,
            "Slab": kernel,
            "Shmem": int(0.2 * GIB),
            "SwapTotal": 16 * GIB,
            "SwapFree": 16 * GIB,
        },
        "pressure": {"some": 0.0, "full": 0.0},
        "swap": {"in": 0, "out": 0},
        "gpus": gpus,
        "processes": processes,
        "programs": [],
        "happened": [],
        "unseen": {},
        "disks": {
            "images": {"path": "/var/lib/docker", "free": 912 * GIB, "total": 1832 * GIB},
            "cache": {
                "path": "/home/ada/.cache/huggingface",
                "free": 3104 * GIB,
                "total": 7449 * GIB,
            },
            "shm": {"path": "/dev/shm", "free": total // 2, "total": total // 2},  # noqa: S108
        },
        **values,
    }
