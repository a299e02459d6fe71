"""Machines that inferdash is made for, as their idle cards describe themselves to NVML."""

from tests.nvml import SimulatedMachine, StandInCard

MIB = 1024**2


def rtx_pro_6000(cards: int = 8) -> SimulatedMachine:
    return SimulatedMachine(cards=[_rtx_pro_6000(index) for index in range(cards)])


def h200(cards: int = 8) -> SimulatedMachine:
    return SimulatedMachine(cards=[_h200(index) for index in range(cards)])


def gb300_station() -> SimulatedMachine:
    """A DGX Station: one GPU whose memory is a NUMA node, and one ordinary card."""
    gb300 = StandInCard(
        uuid=_uuid(0x300),
        name="NVIDIA GB300",
        pci="00000009:01:00.0",
        numbers={
            "cc_major": 10, "cc_minor": 3, "numa_node": 1,
            "total": 284208 * MIB, "free": 283102 * MIB, "reserved": 640 * MIB,
            "util": 0, "mem_util": 0, "temperature": 34, "power": 162_400,
            "power_limit": 1_400_000, "sm_clock": 345, "sm_clock_max": 2032,
            "mem_clock": 3996, "mem_clock_max": 3996, "throttle": 0x1, "pstate": 0,
            "pcie_gen": 6, "pcie_gen_max": 6, "pcie_width": 16, "pcie_width_max": 16,
            "persistence": 1, "ecc_corrected": 0, "ecc_uncorrected": 0,
        },
    )  # fmt: skip
    return SimulatedMachine(cards=[gb300, _rtx_pro_6000(0)])


def gb10() -> SimulatedMachine:
    """A DGX Spark: no memory of its own, no fan, no memory clock, no power limit."""
    card = StandInCard(
        uuid=_uuid(0x10),
        name="NVIDIA GB10",
        pci="0000000F:01:00.0",
        numbers={
            "cc_major": 12, "cc_minor": 1, "util": 0, "mem_util": 0, "temperature": 41,
            "power": 4_210, "sm_clock": 208, "sm_clock_max": 3003, "throttle": 0x1,
            "pstate": 8, "persistence": 1, "energy": 918_273_645,
            "pcie_gen": 1, "pcie_gen_max": 1, "pcie_width": 1, "pcie_width_max": 1,
        },
    )  # fmt: skip
    return SimulatedMachine(cards=[card], driver="580.95.05")


def _rtx_pro_6000(index: int) -> StandInCard:
    return StandInCard(
        uuid=_uuid(0x6000 + index),
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        pci=f"00000000:{0x11 + 0x10 * index:02X}:00.0",
        numbers={
            "cc_major": 12, "cc_minor": 0,
            "total": 97887 * MIB, "free": 97250 * MIB, "reserved": 637 * MIB,
            "util": 0, "mem_util": 0, "temperature": 29 + index, "power": 31_500 + 700 * index,
            "power_limit": 600_000, "sm_clock": 180, "sm_clock_max": 2430,
            "mem_clock": 405, "mem_clock_max": 12481, "throttle": 0x1, "pstate": 8,
            "pcie_gen": 1, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16,
            "pcie_replays": 0, "persistence": 1, "mig": 0, "margin": 58 - index,
            "ecc_corrected": 0, "ecc_uncorrected": 0, "ecc_corrected_ever": 0,
            "ecc_uncorrected_ever": 0, "rows_corrected": 0, "rows_uncorrected": 0,
            "rows_pending": 0, "rows_failed": 0, "rows_without_spare": 0,
        },
    )  # fmt: skip


def _h200(index: int) -> StandInCard:
    return StandInCard(
        uuid=_uuid(0x200 + index),
        name="NVIDIA H200",
        pci=f"00000000:{0x18 + 0x10 * index:02X}:00.0",
        numbers={
            "cc_major": 9, "cc_minor": 0,
            "total": 143771 * MIB, "free": 143166 * MIB, "reserved": 605 * MIB,
            "util": 0, "mem_util": 0, "temperature": 31 + index, "power": 76_900 + 400 * index,
            "power_limit": 700_000, "sm_clock": 345, "sm_clock_max": 1980,
            "mem_clock": 3201, "mem_clock_max": 3201, "throttle": 0x1, "pstate": 0,
            "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16,
            "pcie_replays": 0, "persistence": 1, "mig": 0, "margin": 55 - index,
            "slowdown_at": 87, "shutdown_at": 92,
            "ecc_corrected": 0, "ecc_uncorrected": 0, "ecc_corrected_ever": 0,
            "ecc_uncorrected_ever": 0, "rows_corrected": 0, "rows_uncorrected": 0,
            "rows_pending": 0, "rows_failed": 0, "rows_without_spare": 0,
        },
    )  # fmt: skip


def _uuid(number: int) -> str:
    return f"GPU-5f1d0c3a-7e42-4b6d-9a10-{number:012x}"
