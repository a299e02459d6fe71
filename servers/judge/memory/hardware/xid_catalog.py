"""The catalogue of XID errors: xids.yaml beside this file."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

import yaml

from servers.judge.memory.hardware.finding import Severity

FILE = Path(__file__).with_name("xids.yaml")

# Whose fault it mostly is. "driver": the driver's or the firmware's.
type Origin = Literal["application", "driver", "hardware", "link", "unknown"]

ORIGINS: dict[Origin, str] = {
    "application": "Mostly a fault of the program, not of the card.",
    "driver": "A fault of the driver or of the card's firmware.",
    "hardware": "A fault of the hardware.",
    "link": "A fault on the way to the card.",
    "unknown": "Nobody has told inferdash what it means.",
}


@dataclass(frozen=True, kw_only=True)
class Xid:
    number: int
    severity: Severity
    origin: Origin
    means: str  # a few words
    advice: str
    well_if: str = ""  # with this in the kernel's words it is good news

    def is_well(self, said: str) -> bool:
        return bool(self.well_if) and self.well_if in said

    @property
    def because(self) -> str:
        return ORIGINS[self.origin]


def xid_of(number: int) -> Xid:
    """A number that is not in the book says so, and is taken seriously."""
    return load_shipped().get(number) or Xid(
        number=number,
        severity="warning",
        origin="unknown",
        means="not known here",
        advice=f"Look for {number} in NVIDIA's catalog of XID errors "
        "(docs.nvidia.com/deploy/xid-errors) and at the lines around it in “sudo dmesg”.",
    )


@cache
def load_shipped() -> dict[int, Xid]:
    said = yaml.safe_load(FILE.read_text())
    return {
        number: Xid(
            number=number,
            severity=cast(Severity, each["severity"]),
            origin=cast(Origin, each["origin"]),
            means=each["means"],
            advice=" ".join(each["advice"].split()),
            well_if=each.get("well_if", ""),
        )
        for number, each in said.items()
    }
