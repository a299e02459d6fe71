"""The only package that speaks to NVML: what each NVIDIA card says about itself."""

import logging
from collections.abc import Mapping

import pynvml

from servers.host.gpus.answers import GpuError, describe_error
from servers.host.gpus.card import NvmlCard
from servers.host.gpus.events import XidEvents
from servers.host.gpus.readings import CardReading, GpuEvent
from servers.host.kernel.proc import Kernel

log = logging.getLogger(__name__)

__all__ = ["GpuError", "Nvml"]


class Nvml:
    """A session: every card, and what the driver reports of them by itself.

    Its calls may block for ever: use it in a process that may be killed.
    """

    def __init__(self, kernel: Kernel) -> None:
        """Raises GpuError when the driver or its library is missing or broken."""
        self._kernel = kernel
        self._cards: dict[int, NvmlCard] = {}
        try:
            pynvml.nvmlInitWithFlags(0)
            self.driver: str = pynvml.nvmlSystemGetDriverVersion()
        except pynvml.NVMLError as error:
            raise describe_error(error, self._kernel) from error
        self._xids = XidEvents()

    def read_all(self, meminfo: Mapping[str, int]) -> list[CardReading]:
        """Every card. One that is lost says so in `fault` and hides no other.

        `meminfo` is /proc/meminfo in bytes: on a GPU without memory of its own it is the memory.
        Raises GpuError when NVML itself is gone; then make a new session.
        """
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise describe_error(error, self._kernel) from error
        # A card that the driver has dropped from its count is still one that people miss.
        for index in range(count):
            if index not in self._cards:
                self._cards[index] = NvmlCard(index, self._kernel)
        readings = [card.read(meminfo) for card in self._cards.values()]
        self._watch()
        return readings

    def _watch(self) -> None:
        for index, card in self._cards.items():
            self._xids.watch(index, card.handle)

    def read_events(self, readings: list[CardReading]) -> list[GpuEvent]:
        """XID errors that the driver has reported since the last call. Does not wait."""
        cards = {reading.index: reading for reading in readings}
        happened = self._xids.read()
        # Once a card is lost its set is of no use, and there is a new one for the others.
        self._watch()
        return [
            GpuEvent(
                what="xid",
                t=t,
                gpu=cards[index].uuid if index in cards else None,
                pci=cards[index].pci if index in cards else None,
                number=number,
                source="nvml",
            )
            for index, t, number in happened
        ]

    @property
    def xids_unseen(self) -> str | None:
        """Why no XID error would be heard of through NVML; None when one would."""
        return self._xids.unseen

    def close(self) -> None:
        self._xids.close()
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            log.warning("NVML did not shut down: %s", error)
