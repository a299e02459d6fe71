"""Network namespaces of the tests' own, and cables from them to where the tests are.

A cable is a pair of TUN devices with this process between them: packets are delayed, lost and
counted here, as not every kernel has netem.
"""

import fcntl
import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.namespace import PATH
from tests.waiting import wait_until

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_MTU = 1500
# In full: dockerd has a PATH of its own.
_NSENTER = shutil.which("nsenter", path=PATH) or "nsenter"
_MOST = 100  # of these networks on a machine


class NetworkNamespace:
    """It is there as long as any process is in it; what runs() starts is."""

    def __init__(self) -> None:
        # It ends with the tests, however these end: then nobody holds its standard input.
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        self.path = Path(f"/proc/{self._holder.pid}/ns/net")
        own = Path("/proc/self/ns/net").readlink()
        wait_until(lambda: self.path.readlink() != own, "it has a network of its own")
        self.run("ip", "link", "set", "lo", "up")

    @property
    def prefix(self) -> list[str]:
        """Words before a command. Not `ip netns exec`, which hides the cgroups from Docker."""
        return [_NSENTER, f"--net={self.path}"]

    def run(self, *command: str) -> None:
        run(*self.prefix, *command)

    def enter[T](self, work: Callable[[], T]) -> T:
        """What the work gives, done inside; only the thread that does it is moved."""
        found: list[T] = []

        def do() -> None:
            target = os.open(self.path, os.O_RDONLY)
            os.setns(target, os.CLONE_NEWNET)
            os.close(target)
            found.append(work())

        thread = threading.Thread(target=do)
        thread.start()
        thread.join()
        return found[0]

    def close(self) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()


@dataclass(kw_only=True)
class Cable:
    """Between this process's network and a namespace; its faults are set while it is in use."""

    near: int  # TUN devices
    far: int
    delay: float = 0.0  # seconds, each way
    loss: float = 0.0  # of packets, 0 to 1
    is_cut: bool = False  # nothing arrives, and nobody is told
    carried: int = 0  # bytes both ways, with the heads of their packets
    _queue: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _end: tuple[int, int] = field(default_factory=os.pipe)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._carry, daemon=True, name="cable")
        self._thread.start()

    def _carry(self) -> None:
        other = {self.near: self.far, self.far: self.near}
        chance, number = random.Random(1), 0  # noqa: S311
        while True:
            wait = max(0.0, self._queue[0][0] - time.monotonic()) if self._queue else None
            ready, _, _ = select.select([self.near, self.far, self._end[0]], [], [], wait)
            if self._end[0] in ready:
                return
            for device in ready:
                packet = os.read(device, _MTU + 100)
                if self.is_cut or chance.random() < self.loss:
                    continue
                self.carried += len(packet)
                number += 1
                due = time.monotonic() + self.delay
                heapq.heappush(self._queue, (due, number, other[device], packet))
            while self._queue and self._queue[0][0] <= time.monotonic():
                with suppress(OSError):  # the device is down
                    os.write(self._queue[0][2], self._queue[0][3])
                heapq.heappop(self._queue)

    def close(self) -> None:
        os.write(self._end[1], b".")
        self._thread.join()
        for each in (self.near, self.far, *self._end):
            os.close(each)


@dataclass(kw_only=True)
class CabledNetwork:
    """A namespace that reaches this one, and nothing else."""

    number: int  # of all that there are on this machine now
    namespace: NetworkNamespace
    cable: Cable
    hub: str  # our address on the cable
    address: str  # its own

    @property
    def device(self) -> str:
        return f"ifdlan{self.number}"

    def drop_packets(self, *, is_on: bool) -> None:
        for chain in ("INPUT", "OUTPUT"):
            way = "--in-interface" if chain == "INPUT" else "--out-interface"
            rule = [chain, way, self.device, "--jump", "DROP"]
            self.namespace.run("iptables", "--append" if is_on else "--delete", *rule)

    def set_link(self, *, is_up: bool) -> None:
        self.namespace.run("ip", "link", "set", self.device, "up" if is_up else "down")


@contextmanager
def cabled_network() -> Iterator[CabledNetwork]:
    with _hold_number() as number:
        namespace = NetworkNamespace()
        device = f"ifdlan{number}"
        # TEST-NET-2, which nobody has: two addresses a cable.
        hub, address = f"198.51.100.{2 * number}", f"198.51.100.{2 * number + 1}"
        try:
            near = open_tun(device)
            far = namespace.enter(lambda: open_tun(device))
            cable = Cable(near=near, far=far)
            try:
                run("ip", "addr", "add", hub, "peer", address, "dev", device)
                run("ip", "link", "set", device, "up")
                namespace.run("ip", "addr", "add", address, "peer", hub, "dev", device)
                namespace.run("ip", "link", "set", device, "up")
                yield CabledNetwork(
                    number=number, namespace=namespace, cable=cable, hub=hub, address=address
                )
            finally:
                cable.close()
        finally:
            namespace.close()


def open_tun(name: str) -> int:
    """A file of whole packets; the device is gone when it is closed."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def run(*command: str) -> None:
    done = subprocess.run(
        command, env=os.environ | {"PATH": PATH}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@contextmanager
def _hold_number() -> Iterator[int]:
    """One that no other tests on this machine have: devices and addresses are named by it."""
    for number in range(_MOST):
        with socket.socket(socket.AF_UNIX) as holder:
            try:
                holder.bind(f"\0inferdash-test-lan-{number}")
            except OSError:
                continue
            yield number
            return
    raise AssertionError("Every network of the tests is in use.")
