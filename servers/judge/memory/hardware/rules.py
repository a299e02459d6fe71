"""Every rule there is: what it looks at, for pages and for docs/health.md."""

RULES = {
    "gpu_lost": "GPUs that no longer answer",
    "gpu_reset": "GPUs that ask for a reset",
    "gpu_answer": "odd answers of the driver",
    "driver": "the driver and its library",
    "collector": "a driver that hangs",
    "xid": "XID errors",
    "driver_memory": "memory that the driver did not get",
    "ecc_uncorrected": "errors of GPU memory that ECC could not correct",
    "ecc_corrected": "errors of GPU memory that ECC has corrected",
    "row_remapping": "rows of GPU memory that were replaced",
    "retired_pages": "pages of GPU memory that are no longer used",
    "thermal": "temperatures, and clocks held back by heat",
    "power_brake": "clocks held back by the power supply",
    "low_power": "a GB10 stuck at low power",
    "pcie_link": "PCIe links below their best under load",
    "pcie_replays": "PCIe packets that had to be sent again",
    "persistence": "persistence mode",
    "memory_pressure": "programs that wait for memory",
    "swap": "swap",
    "disk": "disks that fill up",
}
