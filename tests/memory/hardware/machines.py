"""A real collector over the stand-in driver, whose cards a test can break."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers.host.collector.parent import Collector
from tests import proc
from tests.nvml import SimulatedMachine, StandIn
from tests.waiting import wait_until

KMSG = "dev/kmsg"


class WatchedMachine:
    """A machine and the samples of a collector that looks at it."""

    def __init__(
        self,
        folder: Path,
        machine: SimulatedMachine,
        *,
        log: str | None = "",
        patience: float = 5.0,
    ) -> None:
        """`log`: lines of the kernel's log, as /dev/kmsg has them; None: there is none."""
        self.machine = machine
        self.root = proc.root(folder / "root")
        if log is not None:
            proc.write(self.root, KMSG, log)
        self._standin = StandIn(folder)
        self._standin.show(machine)
        self._collector = Collector(
            root=self.root,
            interval=0.05,
            patience=patience,
            nvml_retry=0.1,
            env=self._standin.env,
        )

    def show(self) -> None:
        """What was changed about the machine holds from now on."""
        self._standin.show(self.machine)

    def until(self, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first sample that is as wanted."""

        def found() -> dict[str, Any] | None:
            sample = self._collector.next_sample(timeout=1.0)
            return sample if sample is not None and wanted(sample) else None

        return wait_until(found, "a sample that is as wanted", every=0)

    def __enter__(self) -> "WatchedMachine":
        self._collector.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._collector.stop()


@contextmanager
def watched(folder: Path, machine: SimulatedMachine, **options: Any) -> Iterator[WatchedMachine]:
    """With Watched's options."""
    with WatchedMachine(folder, machine, **options) as found:
        yield found


def record(text: str, *, after_boot: float | None = None) -> str:
    """A line of /dev/kmsg; of now where nobody says how many seconds after the boot."""
    after_boot = time.monotonic() if after_boot is None else after_boot
    return f"3,{int(after_boot * 100)},{int(after_boot * 1e6)},-;{text}\n"


def xid_line(number: int, rest: str = "pid=4711, name=python3", *, pci: str = "0000:18:00") -> str:
    return f"NVRM: Xid (PCI:{pci}): {number}, {rest}"
