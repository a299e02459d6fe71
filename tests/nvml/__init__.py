"""A stand-in for the NVIDIA driver's library, and machines to fill it with.

    standin = StandIn(tmp_path)
    standin.show(profiles.rtx_pro_6000())
    subprocess.Popen(..., env=standin.env)

The library is loaded by the real nvidia-ml-py through LD_LIBRARY_PATH. It looks at its state
at each call, so show() changes the cards under a running program.
"""

import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

_SOURCE = Path(__file__).with_name("nvml.c")

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999


@dataclass(kw_only=True)
class StandInCard:
    """What is not in `numbers` is not supported: see nvml.c for the keys."""

    uuid: str
    name: str
    numbers: dict[str, int]
    processes: list[tuple[str, int, int | None]] = field(default_factory=list)  # list, pid, bytes
    errors: dict[str, int] = field(default_factory=dict)  # NVML function -> its code
    sleeps: dict[str, float] = field(default_factory=dict)  # NVML function -> seconds
    lost: bool = False
    pci: str = ""  # "00000000:65:00.0"
    xids: list[tuple[int, int]] = field(default_factory=list)  # serial, number
    grow: int = 0  # how often the process list outgrows the room between the two calls

    def xid(self, number: int) -> None:
        """Let this XID error happen."""
        self.xids.append((len(self.xids) + 1, number))

    def run(self, pid: int, used: int | None, kind: str = "compute") -> None:
        """Let a process take memory, also from what is free."""
        self.processes.append((kind, pid, used))
        if "free" in self.numbers and used is not None:
            self.numbers["free"] -= used


@dataclass(kw_only=True)
class SimulatedMachine:
    cards: list[StandInCard]
    driver: str = "580.95.05"
    errors: dict[str, int] = field(default_factory=dict)
    sleeps: dict[str, float] = field(default_factory=dict)


class StandIn:
    """One stand-in driver: what its library shows is in a file of this folder."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "nvml-standin"
        self.env = {**os.environ, **self.variables}
        self.shown: list[SimulatedMachine] = []

    @property
    def variables(self) -> dict[str, str]:
        """What a program's environment needs for its nvidia-ml-py to load the stand-in."""
        return {"LD_LIBRARY_PATH": str(library().parent), "NVML_STANDIN": str(self._state)}

    def show(self, machine: SimulatedMachine) -> None:
        """From its next call on the library answers for this machine."""
        self.shown.append(machine)
        new = self._state.with_suffix(".new")
        new.write_text("\n".join(_lines(machine)) + "\n")
        new.replace(self._state)


def env(machine: SimulatedMachine, folder: Path) -> dict[str, str]:
    """The environment of a program that shall see this machine, with our own variables."""
    standin = StandIn(folder)
    standin.show(machine)
    return standin.env


@functools.cache
def library() -> Path:
    """The compiled library, made once for all tests of this process."""
    _compiled = tempfile.TemporaryDirectory(prefix="nvml-standin-")
    _keep.append(_compiled)
    path = Path(_compiled.name) / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden",
         "-shared", "-fPIC", "-o", str(path), str(_SOURCE)],
        check=True,
    )  # fmt: skip
    return path


_keep: list[tempfile.TemporaryDirectory[str]] = []


def _lines(machine: SimulatedMachine) -> list[str]:
    lines = [f"driver {machine.driver}", *_faults(machine)]
    for card in machine.cards:
        lines += ["card", f"text uuid {card.uuid}", f"text name {card.name}", *_faults(card)]
        lines += [f"number {key} {value}" for key, value in card.numbers.items()]
        lines += [f"grow {card.grow}"] if card.grow else []
        lines += ["lost"] if card.lost else []
        lines += [f"text pci {card.pci}"] if card.pci else []
        lines += [f"xid {serial} {number}" for serial, number in card.xids]
        for kind, pid, used in card.processes:
            lines.append(f"process {kind} {pid} {'-' if used is None else used}")
    return lines


def _faults(of: SimulatedMachine | StandInCard) -> list[str]:
    return [
        *(f"error {symbol} {code}" for symbol, code in of.errors.items()),
        *(f"sleep {symbol} {seconds}" for symbol, seconds in of.sleeps.items()),
    ]
