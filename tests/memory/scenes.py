"""Snapshots as a collector would have seen them, one a second or as told."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

GIB = 2**30
BEGAN = 1_790_000_000.0
OURS = "a" * 64


@dataclass
class MemoryScene:
    """A box with one GPU, as it is now; `for_` lets time pass."""

    kind: str = "unified"
    total: float = 119.7  # GiB, as all sizes here
    lost: float = 0.0  # in use, and no process has it
    cached: float = 10.0
    anonymous: float = 3.0
    reserved: float = 0.5
    driver: str = "580.126.09"
    pools: int = 0
    boot: str = "one"
    uptime: float = 50_000.0
    sees: bool = True
    is_well: bool = True
    clients: dict[int, float | None] = field(default_factory=dict)  # pid -> GiB
    known: dict[int, dict[str, Any]] = field(default_factory=dict)
    containers: list[dict[str, Any]] = field(default_factory=list)
    shm: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, Any] | None = None
    t: float = BEGAN
    made: list[dict[str, Any]] = field(default_factory=list)

    def process(
        self, pid: int, gib: float | None, name: str = "VLLM::EngineCore", **of: Any
    ) -> None:
        self.clients[pid] = gib
        self.known[pid] = {
            "pid": pid, "start": self.t - 100, "ppid": 4000, "name": name, "state": "S",
            "container": None, **of,
        }  # fmt: skip

    def end(self, *pids: int) -> None:
        for pid in pids:
            del self.clients[pid]
            self.known.pop(pid, None)

    def container(self, state: str, stopped_at: float | None = None, name: str = OURS) -> None:
        self.containers = [
            {"id": name, "run": 7, "ours": True, "state": state, "stopped_at": stopped_at}
        ]

    def for_(self, seconds: float, step: float = 5.0) -> "MemoryScene":
        until = self.t + seconds
        while self.t < until:
            self.made.append(self.snapshot())
            self.events = []
            self.t += step
            self.uptime += step
        return self

    def snapshot(self) -> dict[str, Any]:
        held = sum(gib or 0 for gib in self.clients.values())
        in_use = held + self.lost + 0.5
        is_card = self.kind == "discrete"
        free = self.total - in_use - (self.reserved if is_card else self.cached + self.anonymous)
        counts = {
            "MemTotal": self.total, "MemFree": free, "MemAvailable": free + self.cached,
            "Buffers": 0.0, "Cached": self.cached, "SwapCached": 0.0, "AnonPages": self.anonymous,
            "Slab": 0.0, "KernelStack": 0.0, "PageTables": 0.0, "Shmem": 0.0,
        }  # fmt: skip
        meminfo = {name: int(gib * GIB) for name, gib in counts.items()}
        plain = {"MemTotal": 503 * GIB, "MemFree": 400 * GIB, "MemAvailable": 480 * GIB}
        return {
            "t": self.t,
            "boot_id": self.boot,
            "uptime_s": self.uptime,
            "driver": self.driver,
            "driver_params": {"EnableSystemMemoryPools": self.pools},
            "sees_host_pids": self.sees,
            "collector_ok": self.is_well,
            "meminfo": meminfo if self.kind == "unified" else plain,
            "gpus": [
                {
                    "uuid": "GPU-1", "name": "NVIDIA GB10", "compute_capability": "12.1",
                    "kind": self.kind, "total": int(self.total * GIB),
                    "free": int(free * GIB), "reserved": int(self.reserved * GIB),
                    "util": 0, "mem_util": 0, "power_w": 11.0, "sm_mhz": 208,
                    "processes": [
                        {"pid": pid, "used": None if gib is None else int(gib * GIB)}
                        for pid, gib in self.clients.items()
                    ],
                    "node_meminfo": _node(meminfo) if self.kind == "numa" else {},
                }
            ],
            "processes": [dict(each) for each in self.known.values()],
            "containers": [dict(each) for each in self.containers],
            "shm": [dict(each) for each in self.shm],
            "events": list(self.events),
            "pending": self.pending,
        }  # fmt: skip

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.made)


def _node(meminfo: dict[str, int]) -> dict[str, int]:
    """A NUMA node's list calls buffers, cache and swap cache by one name."""
    kept = ("MemTotal", "MemFree", "AnonPages", "Slab", "KernelStack", "PageTables")
    return {name: meminfo[name] for name in kept} | {"FilePages": meminfo["Cached"]}


def served(scene: MemoryScene, gib: float = 90.0, seconds: float = 600) -> MemoryScene:
    """A box that was idle, and then served with an engine of ours."""
    scene.for_(300)
    scene.container("running")
    scene.process(100, gib, container=OURS)
    return scene.for_(seconds)


def crashed(scene: MemoryScene, lost: float = 0.0, gib: float = 90.0) -> MemoryScene:
    """The same, after the engine has ended and left so much behind."""
    served(scene, gib)
    scene.end(100)
    scene.lost = lost
    scene.container("exited", scene.t)
    return scene
