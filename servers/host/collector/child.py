"""The collector: a program that prints one JSON line a second about GPUs, memory and processes.

It is a program of its own because a call of NVML may block for minutes, or for ever in a state
in which not even SIGKILL helps; nobody but servers.host.collector.parent, its parent, waits for it.
"""

import argparse
import dataclasses
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from servers.host.gpus import GpuError, Nvml
from servers.host.gpus.events import GpuEvents
from servers.host.gpus.readings import CardReading
from servers.host.kernel.log import KernelLog, OomKill, OomKills
from servers.host.kernel.proc import Kernel, KernelError, Processes
from servers.host.kernel.processes import Programs

# How long to wait before NVML is tried again where it is missing or broken.
NVML_RETRY = 30.0
# After the kernel's module has come or gone, its devices follow: so long it is tried each time.
EAGER_FOR = 15.0

# Parameters of the NVIDIA module that a sample carries.
_DRIVER_PARAMS = ("EnableSystemMemoryPools",)


class Sampler:
    """Makes samples: see docs/gpu-memory.md for what is in one."""

    def __init__(self, kernel: Kernel, *, nvml_retry: float = NVML_RETRY) -> None:
        self._kernel = kernel
        self._nvml_retry = nvml_retry
        self._processes = Processes(kernel)
        self._programs = Programs(kernel)
        self._log = KernelLog(kernel.root)
        self._happenings = GpuEvents()
        self._oom_kills = OomKills(kernel)
        self._nvml: Nvml | None = None
        self._error: GpuError | None = None
        self._try_again_at = self._eager_until = 0.0
        self._module: str | None = None  # the kernel's, by its version, when NVML was tried last

    def sample(self) -> dict[str, Any]:
        """Everything at this moment; `error` says why there is no GPU when NVML is to blame.

        Raises KernelError when /proc/meminfo cannot be read.
        """
        kernel = self._kernel
        meminfo = kernel.meminfo()
        readings = self._read_gpus(meminfo)
        self._hear(readings)
        pids = {holder.pid for reading in readings for holder in reading.processes or []}
        params = kernel.driver_params()
        pressure = kernel.memory_pressure()
        swapped = kernel.read_swapped()
        # Elsewhere the machine's memory is not the GPU's, and nobody asks whose it is.
        is_unified = any(reading.kind == "unified" for reading in readings)
        look = self._processes
        processes = look.with_own(pids) if is_unified else look.read(pids)
        programs = self._programs.largest(besides=pids) if is_unified else []
        return {
            "t": round(time.time(), 3),
            "boot_id": kernel.boot_id(),
            "uptime_s": kernel.uptime(),
            "driver": self._nvml.driver if self._nvml else kernel.driver_version(),
            "driver_params": {name: params[name] for name in _DRIVER_PARAMS if name in params},
            "sees_host_pids": kernel.sees_host_pids(),
            "collector_ok": self._error is None,
            "stale_s": None,
            "error": str(self._error) if self._error else None,
            "error_kind": self._error.kind if self._error else None,
            "meminfo": meminfo | kernel.outside_meminfo(),
            "pressure": dataclasses.asdict(pressure) if pressure else None,
            "swap": {"in": swapped[0], "out": swapped[1]} if swapped else None,
            "gpus": [dataclasses.asdict(reading) for reading in readings],
            "happened": self._happenings.to_json(),
            "oom": self._oom_kills.to_json(),
            "unseen": self._unseen(),
            "processes": [dataclasses.asdict(process) for process in processes],
            "programs": [dataclasses.asdict(program) for program in programs],
        }

    def _hear(self, readings: list[CardReading]) -> None:
        self._happenings.know(readings)
        if self._nvml is not None:
            self._happenings.add(self._nvml.read_events(readings))
        for each in self._log.news():
            if isinstance(each, OomKill):
                self._oom_kills.add(each)
            else:
                self._happenings.add([each])
        self._oom_kills.look(round(time.time(), 3))

    def _unseen(self) -> dict[str, str]:
        """Where nothing would be heard of an error, and why."""
        nvml = self._nvml.xids_unseen if self._nvml else "NVML cannot be used."
        reasons = {"nvml_xids": nvml, "kernel_log": self._log.unseen}
        return {source: why for source, why in reasons.items() if why is not None}

    def _is_time_to_try(self) -> bool:
        """A driver that comes is not waited for: what NVML asks of it may be dear, this is not."""
        now = time.monotonic()
        if self._kernel.driver_version() != self._module:
            self._eager_until = now + EAGER_FOR
        return now >= self._try_again_at or now < self._eager_until

    def _read_gpus(self, meminfo: dict[str, int]) -> list[CardReading]:
        try:
            if self._nvml is None:
                if not self._is_time_to_try():
                    return []
                self._nvml = Nvml(self._kernel)
            self._error = None
            return self._nvml.read_all(meminfo)
        except GpuError as error:
            self._error = error
            self._module = self._kernel.driver_version()
            self._try_again_at = time.monotonic() + self._nvml_retry
            if self._nvml is not None:
                self._nvml.close()
                self._nvml = None
            return []


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m servers.host.collector.child", description=__doc__
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help="where proc and sys are")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--nvml-retry", type=float, default=NVML_RETRY, metavar="SECONDS")
    parser.add_argument("--once", action="store_true", help="print one sample and end")
    parser.add_argument(
        "--while-stdin", action="store_true", help="end as soon as standard input is closed"
    )
    arguments = parser.parse_args()
    if arguments.while_stdin:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    sampler = Sampler(Kernel(root=arguments.root), nvml_retry=arguments.nvml_retry)
    try:
        if arguments.once:
            _write(sampler.sample())
        else:
            _write_for_ever(sampler, arguments.interval)
    except KernelError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except BrokenPipeError:
        # Nobody reads any more. Python would complain once more on flushing at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


def _write_for_ever(sampler: Sampler, interval: float) -> None:
    due = time.monotonic()
    while True:
        _write(sampler.sample())
        # After a pause (a slow driver, a machine that slept) the rhythm starts anew
        # rather than making up for the samples that were missed.
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _write(sample: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(sample, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    # In a thread, because the main one may be inside a call that never returns.
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
