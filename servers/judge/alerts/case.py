"""One thing that a person should know of, in the words in which it is told."""

from dataclasses import dataclass
from typing import Literal

type Severity = Literal["info", "warning", "critical"]

# What an alert may be about, and its name in a list.
KINDS = {
    "failed": "start failed",
    "died": "died",
    "unhealthy": "unhealthy",
    "ready": "ready after a long start",
    "leaked": "memory leaked",
    "residual": "memory left behind",
    "floor": "little memory left",
    "thermal": "temperature",
    "disk": "disk",
    "hardware": "hardware",
    "download": "download failed",
    "pull": "image pull failed",
    "box": "box lacks something",
    "silent": "box silent",
}

# What is told of a server's end.
ENDS = frozenset({"failed", "died"})

ORDER: tuple[Severity, ...] = ("info", "warning", "critical")

type Key = tuple[str, str]  # kind and subject


@dataclass(frozen=True, kw_only=True)
class AlertCase:
    """Sentences end with a full stop; `title` has none."""

    kind: str  # of KINDS
    subject: str  # tells those of one kind apart; stays the same while it lasts
    severity: Severity
    title: str  # names the model and the box: "glm-5 on rtx8 died after 3 h"
    detail: str = ""
    memory: str = ""  # what happened to it; "": nobody can say, or nothing did
    advice: str = ""
    run: int | None = None
    began: float | None = None  # unix seconds; None: now
    is_event: bool = False  # happened, and is over at once

    @property
    def key(self) -> Key:
        return self.kind, self.subject


def is_worse(severity: str, than: str) -> bool:
    """Both of ORDER."""
    return list(ORDER).index(severity) > list(ORDER).index(than)  # type: ignore[arg-type]
