"""One alert case, and the debounce that keeps it from flapping."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from servers.judge.messages import Sentence

type Severity = Literal["info", "warning", "critical"]

# What is told of a server's end.
ENDS = frozenset({"failed", "died"})

ORDER: tuple[Severity, ...] = ("info", "warning", "critical")

type Key = tuple[str, str]  # kind and subject


@dataclass(frozen=True, kw_only=True)
class AlertCase:
    """Sentences end with a full stop; `title` has none."""

    kind: str  # of models.alerts.AlertKind
    subject: str  # tells those of one kind apart; stays the same while it lasts
    severity: Severity
    title: str  # names the model and the box: "glm-5 on rtx8 died after 3 h"
    detail: str = ""
    memory: str = ""  # what happened to it; "": nobody can say, or nothing did
    advice: str = ""
    run: int | None = None
    began: float | None = None  # unix seconds; None: now
    is_event: bool = False  # happened, and is over at once
    code: str = ""  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def from_sentence(cls, said: Sentence, *, kind: str, subject: str, **known: Any) -> Self:
        return cls(
            kind=kind,
            subject=subject,
            severity=cast(Severity, said.severity),
            title=said.title,
            detail=said.text,
            advice=said.advice,
            code=said.code,
            params=said.params,
            **known,
        )

    @property
    def key(self) -> Key:
        return self.kind, self.subject


def is_worse(severity: str, than: str) -> bool:
    """Both of ORDER."""
    return list(ORDER).index(severity) > list(ORDER).index(than)  # type: ignore[arg-type]


# Seconds that a case must be seen for before it is told, by kind; others are at once.
AFTER = {"floor": 10.0, "box": 60.0, "thermal": 10.0, "hardware": 5.0, "disk": 5.0}
# Seconds that it must not be seen for before it is over.
CALM = {"floor": 60.0, "box": 30.0, "thermal": 120.0, "hardware": 120.0, "disk": 120.0}
# Who tries again has not got it yet.
CALM |= {"download": 60.0, "pull": 60.0}
CALM |= {
    "leaked": 30.0,
    "residual": 30.0,
    "unhealthy": 30.0,
    "silent": 20.0,
    "answers": 30.0,
    "slower": 30.0,
}
# What is over and comes back within so many seconds has never been over; nor was that told.
AGAIN = 300.0
COMES_BACK = frozenset(CALM)
# Seconds between two changes of an open alert's words: figures in them change all the time.
WORDS_EVERY = 30.0


@dataclass(frozen=True, kw_only=True)
class Open:
    """An alert that is open, as it was written down."""

    severity: str
    words: tuple[str, ...]  # title, detail, memory, advice


@dataclass(frozen=True, kw_only=True)
class AlertChange:
    what: Literal["raise", "worse", "words", "clear"]
    key: Key
    case: AlertCase | None = None  # None: clear


def describe_debounce(case: AlertCase) -> tuple[str, ...]:
    return case.title, case.detail, case.memory, case.advice


class Steady:
    """Remembers since when each case is seen, or is not seen any more."""

    def __init__(self) -> None:
        self._seen: dict[Key, float] = {}
        self._gone: dict[Key, float] = {}
        self._worded: dict[Key, float] = {}

    def step(
        self,
        now: float,
        cases: Iterable[AlertCase],
        open_ones: Mapping[Key, Open],
        *,
        unknown_kinds: Collection[str] = (),
        unsure: Collection[Key] = (),
        refuted: Collection[Key] = (),
    ) -> list[AlertChange]:
        """What to write down. Of `unknown_kinds` and `unsure` nothing is known now, so that none
        of them is over; the opposite of `refuted` is seen, so that they are over without a calm
        while. Events are none of this: they are told when they happen."""
        there = {case.key: case for case in cases}
        self._seen = {key: self._seen.get(key, now) for key in there}
        self._worded = {key: at for key, at in self._worded.items() if key in open_ones}
        changes = [
            change
            for key, case in there.items()
            if (change := self._of_case(now, case, open_ones.get(key)))
        ]
        return changes + self._find_ended(now, there, open_ones, unknown_kinds, unsure, refuted)

    def _of_case(self, now: float, case: AlertCase, before: Open | None) -> AlertChange | None:
        key = case.key
        if before is None:
            is_due = now - self._seen[key] >= AFTER.get(case.kind, 0.0)
            return AlertChange(what="raise", key=key, case=case) if is_due else None
        if is_worse(case.severity, before.severity):
            return AlertChange(what="worse", key=key, case=case)
        if (
            describe_debounce(case) == before.words
            or now - self._worded.get(key, 0.0) < WORDS_EVERY
        ):
            return None
        self._worded[key] = now
        return AlertChange(what="words", key=key, case=case)

    def _find_ended(
        self,
        now: float,
        there: Mapping[Key, AlertCase],
        open_ones: Mapping[Key, Open],
        unknown_kinds: Collection[str],
        unsure: Collection[Key],
        refuted: Collection[Key],
    ) -> list[AlertChange]:
        missing = {key for key in open_ones if key not in there}
        self._gone = {key: self._gone.get(key, now) for key in missing}
        for key in missing:
            if key[0] in unknown_kinds or key in unsure:
                self._gone[key] = now
        return [
            AlertChange(what="clear", key=key)
            for key, since in self._gone.items()
            if key[0] not in unknown_kinds
            and key not in unsure
            and (key in refuted or now - since >= CALM.get(key[0], 0.0))
        ]
