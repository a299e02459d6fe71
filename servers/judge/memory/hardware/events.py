"""XID errors, and memory that the driver itself did not get: what has happened, and how long ago."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import yaml

from servers.judge.memory.hardware.finding import (
    BOX,
    SEVERITIES,
    HardwareFinding,
    HardwareSample,
    Severity,
)

FILE = Path(__file__).with_name("xids.yaml")

# Whose fault it mostly is. "driver": the driver's or the firmware's.
type Origin = Literal["application", "driver", "hardware", "link", "unknown"]

ORIGINS: dict[Origin, str] = {
    "application": "Mostly a fault of the program, not of the card.",
    "driver": "A fault of the driver or of the card's firmware.",
    "hardware": "A fault of the hardware.",
    "link": "A fault on the way to the card.",
    "unknown": "inferdash does not know what it means.",
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


HOUR = 3600.0
# For how long after the last time it is told. A restart of the box ends it at once.
TOLD_FOR: dict[Severity, float] = {"info": HOUR, "warning": 6 * HOUR, "critical": 24 * HOUR}

type Event = Mapping[str, Any]


class XidRule:
    """One finding a card: its worst, with the others beside it."""

    ids: ClassVar[tuple[str, ...]] = ("xid",)
    needs_cards: ClassVar[bool] = False

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        names = {card.get("uuid"): f"GPU {card.get('index')}" for card in now.cards}
        by_card: dict[str, list[tuple[Xid, Event]]] = {}
        for event in now.sample.get("happened") or []:
            if event["what"] != "xid":
                continue
            xid = xid_of(event["number"])
            is_news = now.t - event["last"] <= TOLD_FOR[xid.severity]
            if is_news and not xid.is_well(event.get("said") or ""):
                subject = str(event.get("gpu") or event.get("pci") or BOX)
                by_card.setdefault(subject, []).append((xid, event))
        for subject, found in by_card.items():
            found.sort(key=lambda each: (SEVERITIES.index(each[0].severity), -each[1]["last"]))
            where = names.get(subject) or f"The GPU at {subject}"
            yield _build_finding(subject, where, found)


def _build_finding(subject: str, where: str, found: list[tuple[Xid, Event]]) -> HardwareFinding:
    worst, event = found[0]
    often = "" if event["count"] == 1 else f", {event['count']} times"
    kernel = f" The kernel's log: “{event['said'].rstrip(' .')}”." if event.get("said") else ""
    others = [f"XID {xid.number} ({xid.means})" for xid, _event in found[1:]]
    beside = f" Also {', '.join(others)}." if others else ""
    return HardwareFinding(
        rule="xid",
        subject=subject,
        severity=worst.severity,
        title=f"{where} reported XID {worst.number}: {worst.means}",
        because=f"{worst.because}{often and f' It came{often[1:]}.'}{kernel}{beside}",
        advice=worst.advice,
        since=event["first"],
    )


class DriverMemory:
    """Source: reports of GB10s that hang soon after (open-gpu-kernel-modules#1358)."""

    ids: ClassVar[tuple[str, ...]] = ("driver_memory",)
    needs_cards: ClassVar[bool] = False

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for event in now.sample.get("happened") or []:
            if event["what"] != "no_memory" or now.t - event["last"] > HOUR:
                continue
            often = "" if event["count"] == 1 else f" {event['count']} times"
            yield HardwareFinding(
                rule="driver_memory",
                subject=BOX,
                severity="critical" if now.is_unified else "warning",
                title="NVIDIA's driver got no memory from the kernel",
                because=f"The kernel's log says so{often}: “{event['said']}”."
                + (
                    " On such a box that often comes right before it hangs."
                    if now.is_unified
                    else ""
                ),
                advice="Stop a server, or start one with less memory (a smaller "
                "--gpu-memory-utilization, --mem-fraction-static or context)."
                if now.is_unified
                else "Look at main memory: something else has taken it.",
                since=event["first"],
            )
