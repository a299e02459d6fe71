"""A simulated box: its GPUs as NVML tells of them, its kernel's files, and checkpoints in its cache."""

import hashlib
import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from inferdash.demo.load import Heat
from inferdash.demo.script import GIB, SAMPLE, find_model

_PART = 5 * GIB
_HEADS: dict[str, Any] = {
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "hidden_size": 5120, "vocab_size": 151936, "torch_dtype": "bfloat16",
}  # fmt: skip


def write(hub: Path, name: str) -> None:
    """One of the demo's models, as huggingface_hub lays it out."""
    model = find_model(name)
    commit = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    folder = hub / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True, exist_ok=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs/main").write_text(commit)
    config = {"architectures": [model.architecture], "max_position_embeddings": model.longest}
    (snapshot / "config.json").write_text(json.dumps({**_HEADS, **config, **model.config}))
    size = int(model.weights * GIB)
    count = -(-size // _PART)
    files = [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    places = {}
    for n, file in enumerate(files):
        tensor = f"model.layers.{n}.weight"
        places[tensor] = file
        _write_part(snapshot / file, tensor, min(_PART, size - n * _PART))
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_part(path: Path, tensor: str, size: int) -> None:
    told = {tensor: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    header = json.dumps(told).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


GIB, MIB = 2**30, 2**20
DRIVER = "580.95.05"
UP_FOR = 9 * 86400 + 4 * 3600  # seconds since its boot, when the demo begins
_PAGES = {"Buffers": 0.4, "Cached": 61.0, "SwapCached": 0.0, "AnonPages": 6.2, "Slab": 2.1}
_MORE = {"KernelStack": 0.02, "PageTables": 0.05, "Shmem": 0.1, "SReclaimable": 1.2}


@dataclass(kw_only=True)
class Held:
    """A process that holds memory of a GPU."""

    pid: int
    size: int  # bytes


def utilisation(effort: float, heat: Heat) -> int:
    """Percent of the time in which something ran on the card, as NVML counts it."""
    if effort < 0.02:
        return 0
    if effort < 0.3:
        return min(100, round(180 * effort))
    return max(1, min(100, round(72 + 28 * effort + heat.wobble)))


@dataclass(kw_only=True)
class SimulatedCard:
    facts: dict[str, Any]
    heat: Heat
    held: list[Held] = field(default_factory=list)
    effort: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """What the simulated NVML answers."""
        heat, is_busy = self.heat, self.effort > 0.02
        changing = {
            "util": utilisation(self.effort, heat),
            "mem_util": round(58 * self.effort),
            "temperature": round(heat.temperature),
            "power": round(heat.watts * 1000),
            "sm_clock": 2310 + round(120 * self.effort) if is_busy else 180,
            "throttle": 0 if is_busy else 1,
            "pstate": 0 if self.held else 8,
            "processes": [(each.pid, each.size) for each in self.held],
        }  # fmt: skip
        if self.facts.get("total"):
            used = 420 * MIB + sum(each.size for each in self.held)
            changing |= {"used": used, "margin": 90 - round(heat.temperature)}
            changing["mem_clock"] = 12481 if is_busy else 405
            changing["pcie_gen"] = 5 if is_busy else 1
        return self.facts | changing


def _rtx_pro_6000(index: int) -> SimulatedCard:
    facts = {
        "uuid": f"GPU-5f1d0c3a-7e42-4b6d-9a10-{0x6000 + index:012x}",
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "capability": (12, 0), "pci": (0, 0x11 + 0x10 * index),
        "total": 97887 * MIB, "reserved": 637 * MIB, "power_limit": 600_000,
        "sm_clock_max": 2430, "mem_clock_max": 12481, "pcie_gen_max": 5, "pcie_width": 16,
        "pcie_replays": 0, "ecc": 0, "rows": (0, 0, 0, 0),
    }  # fmt: skip
    heat = Heat(idle_watts=31.5 + 0.7 * index, most_watts=560, temperature=29 + index, seed=index)
    return SimulatedCard(facts=facts, heat=heat)


def _gb10() -> SimulatedCard:
    facts = {
        "uuid": f"GPU-5f1d0c3a-7e42-4b6d-9a10-{0x10:012x}",
        "name": "NVIDIA GB10", "capability": (12, 1), "pci": (0xF, 1), "sm_clock_max": 3003,
    }  # fmt: skip
    return SimulatedCard(facts=facts, heat=Heat(idle_watts=4.2, most_watts=92, temperature=41))


@dataclass(kw_only=True)
class SimulatedBox:
    """A box below a folder of its own: `root` is what inferdash takes for its "/"."""

    name: str
    folder: Path
    cards: list[SimulatedCard]
    memory: int  # bytes
    architecture: Literal["x86_64", "aarch64"]
    ports: str
    system: str

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def socket(self) -> Path:
        return self.folder / "docker.sock"

    @property
    def gpus(self) -> Path:
        return self.folder / "gpus.json"

    @property
    def is_unified(self) -> bool:
        return not self.cards[0].facts.get("total")

    def environment(self) -> dict[str, str]:
        """What worker and watcher of this box are told."""
        return {
            "INFERDASH_BOX": self.name,
            "INFERDASH_BOX_FILE": str(self.folder / "box.toml"),
            "INFERDASH_HOST_ROOT": str(self.root),
            "INFERDASH_KERNEL_ROOT": str(self.root),
            "INFERDASH_HOME": "/home/ada",
            "INFERDASH_ENGINE_PORTS": self.ports,
            "INFERDASH_MANAGE": "manage.py",
            "INFERDASH_DEMO_GPUS": str(self.gpus),
            "DOCKER_HOST": f"unix://{self.socket}",
        }

    def build(self) -> None:
        """Write the files that do not change."""
        began = int(time.time()) - UP_FOR
        for place in ("proc", "sys", "dev/shm", "var/lib/docker", "home/ada", "data/models", "etc"):
            (self.root / place).mkdir(parents=True, exist_ok=True)
        self._write(
            "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n"
        )
        self._write("proc/stat", f"cpu  1 1 1 1\nbtime {began}\n")
        self._write(
            "proc/sys/kernel/random/boot_id", f"5d4f3c52-0000-4000-8000-{len(self.cards):012d}\n"
        )
        self._write("proc/sys/kernel/osrelease", "6.8.0-88-generic\n")
        self._write("proc/pressure/memory", _PRESSURE)
        self._write("proc/vmstat", "pswpin 0\npswpout 0\n")
        self._write(
            "proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX Open Kernel Module  {DRIVER}  Release\n",
        )
        self._write("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\n")
        self._write("usr/bin/nvidia-container-runtime-hook", "")
        for name, model in SAMPLE["models"].items():
            if model["box"] == self.name:
                write(self.root / "home/ada/.cache/huggingface/hub", name)
        space = self.root / "proc/self/ns/pid"
        space.parent.mkdir(parents=True, exist_ok=True)
        space.unlink(missing_ok=True)
        space.symlink_to("pid:[4026531836]")
        self.began = began
        self.show(1.0)

    def show(self, seconds: float) -> None:
        """Let time pass for the cards, and write what changes."""
        for card in self.cards:
            card.heat.step(seconds, card.effort)
        told = {"driver": DRIVER, "cards": [card.to_json() for card in self.cards]}
        self._replace(self.gpus, json.dumps(told))
        self._replace(self.root / "proc/meminfo", self._meminfo())
        up = time.time() - self.began
        self._replace(self.root / "proc/uptime", f"{up:.2f} {up * 30:.2f}\n")

    def begin_process(self, pid: int, container: str, title: str, parent: int) -> None:
        """The files of a process of a container."""
        name = Path(title.partition(" ")[0]).name[:15]  # the kernel keeps no more
        ticks = int((time.time() - self.began) * 100)
        kib = 1_900_000 if self.is_unified else 2_400_000
        self._write(f"proc/{pid}/comm", f"{name}\n")
        self._write(f"proc/{pid}/stat", f"{pid} ({name}) S {parent} {'0 ' * 17}{ticks} 0 0\n")
        self._write(
            f"proc/{pid}/status", f"Name:\t{name}\nUid:\t0\t0\t0\t0\nRssAnon:\t{kib // 9} kB\n"
        )
        self._write(f"proc/{pid}/cmdline", title.replace(" ", "\0") + "\0")
        self._write(f"proc/{pid}/cgroup", f"0::/system.slice/docker-{container}.scope\n")

    def end_process(self, pid: int) -> None:
        for name in ("comm", "stat", "status", "cmdline", "cgroup"):
            (self.root / f"proc/{pid}/{name}").unlink(missing_ok=True)
        if (folder := self.root / f"proc/{pid}").is_dir():
            folder.rmdir()

    def _meminfo(self) -> str:
        held = sum(each.size for card in self.cards for each in card.held)
        pages = _PAGES | ({"Cached": 14.0, "AnonPages": 3.1} if self.is_unified else {})
        gpu = held + int(2.0 * GIB) if self.is_unified else int(3 * GIB)
        free = self.memory - int(sum(pages.values()) * GIB) - gpu
        sizes = {
            "MemTotal": self.memory,
            "MemFree": free,
            "MemAvailable": free + int(pages["Cached"] * GIB),
            **{name: int(size * GIB) for name, size in (pages | _MORE).items()},
            "SwapTotal": 8 * GIB,
            "SwapFree": 8 * GIB,
        }
        return "".join(f"{name}: {size // 1024:>12} kB\n" for name, size in sizes.items())

    def _write(self, place: str, text: str) -> None:
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @staticmethod
    def _replace(path: Path, text: str) -> None:
        """In one step: the collector reads it at any moment."""
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)


_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def make_boxes(folder: Path, *, port: int, names: str = "rtx8 spark") -> list[SimulatedBox]:
    """The boxes of the demo; `port`: the first of those for their engines."""
    made = [
        SimulatedBox(
            name="rtx8",
            folder=folder / "rtx8",
            cards=[_rtx_pro_6000(index) for index in range(8)],
            memory=755 * GIB,
            architecture="x86_64",
            ports=f"{port}-{port + 49}",
            system="Ubuntu 24.04.3 LTS",
        ),
        SimulatedBox(
            name="spark",
            folder=folder / "spark",
            cards=[_gb10()],
            memory=125513040 * 1024,
            architecture="aarch64",
            ports=f"{port + 50}-{port + 99}",
            system="NVIDIA DGX OS 7.2.3",
        ),
    ]
    return [each for each in made if each.name in names.split()]
