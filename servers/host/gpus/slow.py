"""Readings that change seldom: memory errors and the card's settings."""

from dataclasses import dataclass
from typing import Any

import pynvml

from servers.host.gpus.answers import NvmlDevice
from servers.host.gpus.readings import EccErrors, RemappedRows, RetiredPages


@dataclass(frozen=True, kw_only=True)
class SlowReadings:
    """None: not reported."""

    persistence: bool | None
    pcie_replays: int | None
    ecc: EccErrors | None
    rows: RemappedRows | None
    retired: RetiredPages | None


def read(asking: NvmlDevice, card: Any) -> SlowReadings:
    """Raises Lost and GpuError as Asking does."""
    mode = asking.ask("persistence mode", pynvml.nvmlDeviceGetPersistenceMode, card)
    rows = _rows(asking, card)
    return SlowReadings(
        persistence=None if mode is None else bool(mode),
        pcie_replays=asking.ask("PCIe replays", pynvml.nvmlDeviceGetPcieReplayCounter, card),
        ecc=_ecc(asking, card),
        rows=rows,
        # Cards that replace rows retire no pages.
        retired=_read_retired_pages(asking, card) if rows is None else None,
    )


def pci_of(card: Any) -> str:
    """Domain, bus and device as the kernel writes them in its log: "0000:65:00"."""
    found = pynvml.nvmlDeviceGetPciInfo(card)
    return f"{found.domain:04x}:{found.bus:02x}:{found.device:02x}"


def _ecc(asking: NvmlDevice, card: Any) -> EccErrors | None:
    corrected = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
    uncorrected = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    query = pynvml.nvmlDeviceGetTotalEccErrors
    counts = [
        asking.ask(f"{which} ECC errors {period}", query, card, which, period)
        for period in (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
        for which in (corrected, uncorrected)
    ]
    if all(count is None for count in counts):
        return None
    return EccErrors(
        corrected=counts[0],
        uncorrected=counts[1],
        corrected_ever=counts[2],
        uncorrected_ever=counts[3],
    )


def _rows(asking: NvmlDevice, card: Any) -> RemappedRows | None:
    rows = asking.ask("remapped rows", pynvml.nvmlDeviceGetRemappedRows, card)
    if rows is None:
        return None
    spare = asking.ask("spare rows", pynvml.nvmlDeviceGetRowRemapperHistogram, card)
    return RemappedRows(
        corrected=rows[0],
        uncorrected=rows[1],
        pending=bool(rows[2]),
        failed=bool(rows[3]),
        without_spare=spare.none if spare else None,
    )


def _read_retired_pages(asking: NvmlDevice, card: Any) -> RetiredPages | None:
    lists = [
        asking.ask(f"retired pages {cause}", pynvml.nvmlDeviceGetRetiredPages, card, cause)
        for cause in (
            pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
            pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
        )
    ]
    if all(pages is None for pages in lists):
        return None
    query = pynvml.nvmlDeviceGetRetiredPagesPendingStatus
    return RetiredPages(
        pages=sum(len(pages or ()) for pages in lists),
        pending=bool(asking.ask("pages to retire", query, card)),
    )
