"""Alert cases of failed downloads and pulls."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from servers.judge.alerts.case import AlertCase

# Seconds after the click within which its person is still there, and reads what went wrong.
STILL_THERE = 60.0
# Seconds after which the page tells no more of it, and nobody waits for it.
NEWS = 86400.0

_WHAT = {"download": "the download of", "pull": "the pull of"}
_AGAIN = {
    "download": "The page Models has the button that goes on with it.",
    "pull": "The page Images has the button that begins it again.",
}


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """The newest try of one thing; times are unix seconds."""

    kind: str  # download, pull
    subject: str  # the same for each try
    name: str
    box: str
    is_failed: bool
    asked_at: float
    ended_at: float | None
    said: str  # what came of it
    advice: str = ""


def cases(fetches: Iterable[Fetch], *, now: float) -> Iterator[AlertCase]:
    """A try that ended at once is told on its page alone, to who has just pressed the button."""
    for each in fetches:
        if not each.is_failed or each.ended_at is None or now - each.ended_at > NEWS:
            continue
        if each.ended_at - each.asked_at < STILL_THERE:
            continue
        yield AlertCase(
            kind=each.kind,
            subject=each.subject[:200],
            severity="warning",
            title=f"{each.box}: {_WHAT[each.kind]} {each.name} failed",
            detail=each.said,
            advice=" ".join(part for part in (each.advice, _AGAIN[each.kind]) if part),
            began=each.ended_at,
        )
