"""A DGX Spark to walk through: its stand-in GPU, and the kernel's recorded files as they change."""

import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests import proc
from tests.nvml import SimulatedMachine, StandIn, profiles

GIB = 2**30
USUAL = 2.0  # GiB that are in use with nobody there
_OWNED = (
    *("Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "KernelStack", "PageTables"),
    *("SecPageTables", "Percpu", "Hugetlb", "Zswap", "Bounce", "Balloon"),
)
_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


@dataclass
class Spark:
    root: Path  # where proc and sys are
    gpus: StandIn | None = None
    lost: float = 0.0  # GiB that are in use, and nobody has them
    held: dict[int, tuple[str, float]] = field(default_factory=dict)  # pid -> container, GiB

    def __post_init__(self) -> None:
        proc.gb10_root(self.root)
        proc.driver(self.root, "580.95.05")

    def machine(self) -> SimulatedMachine:
        made = profiles.gb10()
        for pid, (_container, size) in self.held.items():
            made.cards[0].run(pid, int(size * GIB))
        return made

    def show(self) -> None:
        """Let the collector's next sample find it as it is now."""
        path = self.root / "proc/meminfo"
        lines = {name: int(kib) for name, kib in _LINE.findall(path.read_text())}
        in_use = USUAL + self.lost + sum(size for _container, size in self.held.values())
        free = lines["MemTotal"] - sum(lines[name] for name in _OWNED) - int(in_use * GIB / 1024)
        changed = {"MemFree": free, "MemAvailable": free + lines["Cached"]}
        text = path.read_text()
        for name, kib in changed.items():
            text = re.sub(rf"^{name}:.*$", f"{name}: {kib:>12} kB", text, flags=re.MULTILINE)
        self._replace("proc/meminfo", text)
        if self.gpus is not None:
            self.gpus.show(self.machine())

    def load(self, pid: int, container: str, size: float) -> None:
        """An engine's process fills so many GiB."""
        title = ("VLLM::EngineCore",)
        proc.process(self.root, pid, cmdline=title, cgroup=f"0::/docker/{container}")
        self.held[pid] = (container, size)
        self.show()

    def crash(self, *, losing: float) -> None:
        """All that held memory is gone, and so much of it does not come back."""
        ended, self.held = self.held, {}
        self.lost = losing
        self.show()
        for pid in ended:
            shutil.rmtree(self.root / "proc" / str(pid))

    def reboot(self, name: str) -> None:
        self.lost = 0.0
        self._replace("proc/sys/kernel/random/boot_id", f"{name}\n")
        self._replace("proc/uptime", "300.00 500.00\n")
        stat = (self.root / "proc/stat").read_text()
        began = int(time.time()) - 300
        self._replace(
            "proc/stat", re.sub(r"^btime \d+", f"btime {began}", stat, flags=re.MULTILINE)
        )
        self.show()

    def _replace(self, place: str, text: str) -> None:
        """In one step: the collector reads it at any moment."""
        new = (self.root / place).with_suffix(".new")
        new.write_text(text)
        new.replace(self.root / place)
