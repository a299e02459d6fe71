"""The context and the items of a preflight."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

GIB = 2**30

type Level = Literal["ok", "error", "warning", "unknown"]
LEVELS: tuple[Level, ...] = ("error", "warning", "unknown", "ok")
WORDS: dict[Level, str] = {
    "error": "error", "warning": "warning", "unknown": "unknown", "ok": "passed",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PreflightItem:
    id: str
    title: str
    level: Level
    says: str
    remedy: str = ""

    @property
    def level_word(self) -> str:
        return WORDS[self.level]


@dataclass(frozen=True, kw_only=True)
class OtherWorkload:
    """Another server that runs on the box, or is about to."""

    name: str
    gpus: frozenset[int] | None  # None: not known which
    ports: frozenset[int]
    is_loading: bool  # its engine has not become ready yet


@dataclass(frozen=True, kw_only=True)
class ClockOffset:
    """How far a box's clock is ahead of the one that all boxes compare theirs with."""

    ahead: float  # seconds; negative: behind
    within: float  # seconds that the comparison may be off


@dataclass(frozen=True, kw_only=True)
class StartContext:
    """What is known around a start. None and missing keys mean "not known"."""

    box: str
    is_silent: bool = False
    # As models.Supplies keeps them.
    found: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)
    other_workloads: tuple[OtherWorkload, ...] = ()
    port_holders: Mapping[int, str] = field(default_factory=dict)  # other people's, by the port
    own_ports: frozenset[int] = frozenset()  # of the run that this start replaces
    checkpoint: Literal["there", "part", "missing", "unknown"] = "unknown"
    missing: int | None = None  # bytes that are still to be downloaded
    remote: str = ""  # what the Hub says of one that is missing: "open", "refused", "gone"
    refusals: tuple[str, ...] = ()  # why the box's limits forbid its container
    has_cache: bool | None = None  # the box has a Hugging Face cache to mount
    has_token: bool = False  # the engine is given one of Hugging Face
    was_refused: bool = False  # an earlier run for want of a token, or of a licence
    clocks: Mapping[str, ClockOffset | None] = field(
        default_factory=dict
    )  # of this box and all others


def item(id: str, title: str, level: Level, says: str, remedy: str = "") -> PreflightItem:
    return PreflightItem(id=id, title=title, level=level, says=says, remedy=remedy)


def gib(size: float | None) -> str:
    return f"{(size or 0) / GIB:.1f}"
