"""XID errors, and memory that the driver itself did not get: what has happened, and how long ago."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from servers.judge.memory.hardware.finding import (
    BOX,
    SEVERITIES,
    HardwareFinding,
    HardwareSample,
    Severity,
    build_finding,
)
from servers.judge.messages import say
from servers.launch.yaml_files import load_yaml

FILE = Path(__file__).with_name("xids.yaml")

# Whose fault it mostly is, and the message that says so. "driver": the driver's or the firmware's.
type Origin = Literal["application", "driver", "hardware", "link", "unknown"]

ORIGINS: dict[Origin, str] = {
    "application": "memory.xid-of-program",
    "driver": "memory.xid-of-driver",
    "hardware": "memory.xid-of-hardware",
    "link": "memory.xid-of-link",
    "unknown": "memory.xid-of-unknown",
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
        return say(ORIGINS[self.origin]).text


def xid_of(number: int) -> Xid:
    """A number that is not in the book says so, and is taken seriously."""
    if known := load_shipped().get(number):
        return known
    said = say("memory.xid-unknown", number=number)
    return Xid(
        number=number, severity="warning", origin="unknown", means=said.text, advice=said.advice
    )


@cache
def load_shipped() -> dict[int, Xid]:
    said = load_yaml(FILE.read_text())
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
    said = say(
        "memory.xid",
        where=where,
        number=worst.number,
        means=worst.means,
        origin=worst.because,
        advice=worst.advice,
    )
    more = []
    if event["count"] > 1:
        more.append(say("memory.happened-often", count=event["count"]))
    if event.get("said"):
        more.append(say("memory.xid-kernel-log", said=event["said"].rstrip(" .")))
    if others := [f"XID {xid.number} ({xid.means})" for xid, _event in found[1:]]:
        more.append(say("memory.xid-others", others=", ".join(others)))
    return build_finding("xid", subject, event["first"], said, *more, severity=worst.severity)


class DriverMemory:
    """Source: reports of GB10s that hang soon after (open-gpu-kernel-modules#1358)."""

    ids: ClassVar[tuple[str, ...]] = ("driver_memory",)
    needs_cards: ClassVar[bool] = False

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for event in now.sample.get("happened") or []:
            if event["what"] != "no_memory" or now.t - event["last"] > HOUR:
                continue
            own, shared = "memory.driver-got-no-memory", "memory.driver-got-no-memory-unified"
            said = say(shared if now.is_unified else own, said=event["said"])
            often = [say("memory.happened-often", count=event["count"])]
            more = often if event["count"] > 1 else []
            yield build_finding("driver_memory", BOX, event["first"], said, *more)
