"""Roots with the kernel's files: recorded on a plain virtual machine, changed where a test says.

What only a machine with an NVIDIA GPU has is written in the kernel's and the driver's format.
"""

from collections.abc import Mapping
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded")

KIB = 1024
GIB = 1024**3

INITIAL_PID_NAMESPACE = 4026531836

_PLACES = {
    "meminfo": "proc/meminfo",
    "uptime": "proc/uptime",
    "stat": "proc/stat",
    "vmstat": "proc/vmstat",
    "pressure_memory": "proc/pressure/memory",
    "boot_id": "proc/sys/kernel/random/boot_id",
    "node0_meminfo": "sys/devices/system/node/node0/meminfo",
}


def root(
    folder: Path,
    *,
    meminfo: Mapping[str, int] | None = None,
    pid_namespace: int = INITIAL_PID_NAMESPACE,
) -> Path:
    """Write the recorded files below a folder; `meminfo` has lines to change, in bytes."""
    for name, place in _PLACES.items():
        write(folder, place, (RECORDED / name).read_text())
    path = folder / "proc/meminfo"
    path.write_text(_changed(path.read_text(), meminfo or {}))
    namespace = folder / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to(f"pid:[{pid_namespace}]")
    write(
        folder, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n"
    )
    return folder


def gb10_root(folder: Path) -> Path:
    """A DGX Spark that holds a model: 119.7 GiB, of which 84 GiB can be had."""
    sizes = {"MemTotal": 125513040, "MemFree": 43974656, "MemAvailable": 88080384}
    return root(folder, meminfo={name: kib * KIB for name, kib in sizes.items()})


def node(folder: Path, number: int, sizes: Mapping[str, int]) -> None:
    """A NUMA node with these lines, in bytes."""
    lines = [f"Node {number} {name}: {size // KIB:>12} kB" for name, size in sizes.items()]
    write(folder, f"sys/devices/system/node/node{number}/meminfo", "\n".join(lines) + "\n")


def driver(folder: Path, version: str, params: Mapping[str, int] | None = None) -> None:
    write(
        folder,
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {version}  Release Build  "
        "(dvs-builder@U22)\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n",
    )
    lines = ["ResmanDebugLevel: 4294967295", 'RegistryDwords: ""']
    lines += [f"{name}: {value}" for name, value in (params or {}).items()]
    write(folder, "proc/driver/nvidia/params", "\n".join(lines) + "\n")


def process(
    folder: Path,
    pid: int,
    *,
    name: str = "python3",
    cmdline: tuple[str, ...] = (),
    state: str = "S",
    start: int = 120_000,
    uid: int = 1000,
    cgroup: str = "0::/",
    own: int = 0,
) -> None:
    tail = "0 " * 17 + f"{start} 0 0"
    write(folder, f"proc/{pid}/stat", f"{pid} ({name}) {state} 1 {tail}\n")
    write(
        folder,
        f"proc/{pid}/status",
        f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nRssAnon:\t{own // KIB:>8} kB\n",
    )
    write(folder, f"proc/{pid}/cmdline", "".join(f"{word}\0" for word in cmdline))
    write(folder, f"proc/{pid}/cgroup", f"{cgroup}\n")


def write(folder: Path, place: str, text: str) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _changed(meminfo: str, sizes: Mapping[str, int]) -> str:
    lines = []
    for line in meminfo.splitlines():
        name = line.partition(":")[0]
        lines.append(f"{name}: {sizes[name] // KIB:>12} kB" if name in sizes else line)
    return "\n".join(lines) + "\n"
