"""Faults between a hub and a box: each is put in, lasts, and is taken away."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psutil

from tests.boxes.lan import BoxLan, LanBox
from tests.boxes.rig import LinkedMachine
from tests.waiting import wait_until

type Work = Callable[[], None]
type Fault = Callable[[], AbstractContextManager[None]]

SLOW = 0.2  # seconds each way
LOSSY = 0.05  # of packets
SSH = "ServerAliveInterval"


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """What may go wrong between and on the two machines."""

    lan: BoxLan
    box: LanBox

    @property
    def all(self) -> dict[str, Callable[[Work], None]]:
        """Each does its work while the fault is there, and takes it away again."""
        return {
            "a cut of seconds": self._short(self._cut),
            "a cut that ssh notices": self._long(self._cut),
            "packets dropped": self._long(self._drop),
            "the link down": self._long(self._unplug),
            "slow and lossy": self._short(self._slow),
            "both links killed": lambda work: _kill(self.box.machine, SSH, work),
            "the box's watcher killed": lambda work: _kill(self.box.machine, "watch", work),
            "the box's worker killed": lambda work: _kill(self.box.machine, "celery", work),
            "the relay killed": lambda work: _kill(self.box.machine, " relay", work),
            "the box started again": self._restart_box,
            "Redis killed": lambda work: _kill(self.lan.hub, "redis-server", work),
            "Redis frozen": lambda work: _freeze(self.lan.hub, "redis-server", work),
            "PostgreSQL killed": lambda work: _kill(self.lan.hub, "postgres -D", work),
            "sshd killed": lambda work: _kill(self.lan.hub, "sshd_config", work),
            "the keeper killed": lambda work: _kill(self.lan.hub, "keep_links", work),
            "the hub started again": self._restart_hub,
        }

    def _short(self, fault: Fault) -> Callable[[Work], None]:
        def do(work: Work) -> None:
            with fault():
                work()

        return do

    def _long(self, fault: Fault) -> Callable[[Work], None]:
        """Until the box's ssh has given its connections up."""

        def do(work: Work) -> None:
            said = self.box.machine.up.said.count("control ended")
            with fault():
                work()
                self.box.machine.up.waits_for("control ended", times=said + 1)

        return do

    @contextmanager
    def _cut(self) -> Iterator[None]:
        cable = self.box.network.cable
        cable.is_cut = True
        yield
        cable.is_cut = False

    @contextmanager
    def _drop(self) -> Iterator[None]:
        self.box.network.drop_packets(is_on=True)
        yield
        self.box.network.drop_packets(is_on=False)

    @contextmanager
    def _unplug(self) -> Iterator[None]:
        self.box.network.set_link(is_up=False)
        yield
        self.box.network.set_link(is_up=True)

    @contextmanager
    def _slow(self) -> Iterator[None]:
        cable = self.box.network.cable
        cable.delay, cable.loss = SLOW, LOSSY
        yield
        cable.delay = cable.loss = 0.0

    def _restart_box(self, work: Work) -> None:
        self.box.machine.end()
        work()
        self.box.start()

    def _restart_hub(self, work: Work) -> None:
        self.lan.hub.end()
        work()
        self.lan.hub.start()
        self.lan.hub.up.waits_for("ready at")


def _kill(machine: LinkedMachine, word: str, work: Work) -> None:
    """What its supervisor or its keeper starts again."""
    killed = find_programs(machine, word)
    for each in killed:
        each.kill()
    work()
    wait_until(
        lambda: {each.pid for each in machine.list_programs(word)} - {each.pid for each in killed},
        lambda: f"{word} runs again: {machine.up.said[-2000:]}",
    )


def _freeze(machine: LinkedMachine, word: str, work: Work) -> None:
    """It takes connections, and answers nobody."""
    found = find_programs(machine, word)
    for each in found:
        each.send_signal(signal.SIGSTOP)
    work()
    for each in found:
        each.send_signal(signal.SIGCONT)


def find_programs(machine: LinkedMachine, word: str) -> list[psutil.Process]:
    """Of these, at least one is up: what was killed before may be about to be started again."""
    return wait_until(lambda: machine.list_programs(word), f"{word} runs")
