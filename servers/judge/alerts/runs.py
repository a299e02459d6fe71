"""Alert cases of a server's newest run: failed, died, unhealthy, or ready again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from servers.judge.alerts.case import ENDS, AlertCase
from servers.judge.messages import Sentence, say

# Seconds: whoever starts a model and waits no longer than this is still looking.
LONG_START = 300.0
# Seconds after its end in which more is likely to be found out: why, and what became of its memory.
FINDING_OUT = 150.0
# Seconds after which it is no news that something became ready.
NEWS = 1800.0


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The newest run of a server; times are unix seconds."""

    pk: int
    server: str
    box: str
    state: str
    asked_at: float
    ready_at: float | None = None
    ended_at: float | None = None
    was_stopped: bool = False  # a person wanted its end
    is_automatic: bool = False  # inferdash itself started it again
    why: str = ""
    is_explained: bool = True  # nobody looks for the cause any more
    remedy: str = ""
    status_message: str = ""
    restart_at: float | None = None
    memory: str = ""  # what became of it, in a sentence
    is_memory_settled: bool = True
    held: int | None = None  # bytes, the most that was seen
    unhealthy_because: str = ""  # "": it is well
    unhealthy_since: float | None = None
    stuck: str = ""
    memory_warning: str = ""
    # Ends in a row that nobody asked for, with this one's; 0: too few for a loop.
    deaths: int = 0
    has_served: bool = False  # one of those was ready before

    @property
    def name(self) -> str:
        return f"{self.server} on {self.box}"


def cases(
    run: RunFacts, *, now: float, open_kinds: frozenset[str] = frozenset()
) -> Iterator[AlertCase]:
    """`open_kinds`: what is told of this server already."""
    if run.deaths and not run.was_stopped:
        told = open_kinds & ENDS
        yield _loop(run, min(told) if told else "died" if run.has_served else "failed")
    elif run.state == "failed" and not run.was_stopped:
        # Of the try before: inferdash has started it again, and that is no end of it.
        told = open_kinds & ENDS if run.is_automatic else frozenset()
        if case := _end(run, now):
            yield replace(case, kind=min(told)) if told else case
        else:
            yield from (_continue_case(run, kind) for kind in told)
    elif run.is_automatic and run.state not in ("ready", "stopped"):
        yield from (_continue_case(run, kind) for kind in open_kinds & ENDS)
    if run.state in ("starting", "ready") and (run.unhealthy_because or run.stuck):
        yield _unhealthy(run)
    if run.state == "starting" and run.memory_warning:
        yield _judge_memory_strain(run)


def event(run: RunFacts, *, now: float) -> AlertCase | None:
    """That it became ready after a long start; once, by its subject."""
    if run.ready_at is None or run.state != "ready" or now - run.ready_at > NEWS:
        return None
    took = run.ready_at - run.asked_at
    if took <= LONG_START:
        return None
    known = {"subject": f"run {run.pk}", "memory": _holds(run), "began": run.ready_at}
    return _tell(
        run, "ready", say("alerts.ready", run=run.name, took=span(took)), **known, is_event=True
    )


def judge_restart(run: RunFacts, *, now: float) -> AlertCase | None:
    """That a watched one ended unasked although it runs again: `run` is the one before the newest.

    None while more is about to be found out, and when it is no news any more.
    """
    if run.state != "failed" or run.was_stopped or now - (run.ended_at or now) > NEWS:
        return None
    case = _end(run, now)
    if case is None:
        return None
    said = say("alerts.restarted", title=case.title, why=case.detail, fix=case.advice)
    return _tell(run, case.kind, said, subject=f"run {run.pk}", began=case.began, is_event=True)


def _tell(run: RunFacts, kind: str, said: Sentence, **more: Any) -> AlertCase:
    """A case of the run's server, with what became of its memory unless `more` says otherwise."""
    known: dict[str, Any] = {"subject": run.server, "memory": run.memory, "run": run.pk}
    return AlertCase.from_sentence(said, kind=kind, **known | more)


def _loop(run: RunFacts, kind: str) -> AlertCase:
    """It is no news that it is ready again for a moment."""
    code = "alerts.dies-repeatedly" if run.has_served else "alerts.fails-repeatedly"
    known = {"run": run.name, "why": _sentence(run.why), "fix": _next(run)}
    return _tell(run, kind, say(code, **known, deaths=run.deaths))


def _end(run: RunFacts, now: float) -> AlertCase | None:
    """None while more is about to be found out."""
    ended = run.ended_at if run.ended_at is not None else now
    if now - ended < FINDING_OUT and not (run.is_explained and run.is_memory_settled):
        return None
    known = {"run": run.name, "why": _sentence(run.why), "fix": _next(run)}
    if run.ready_at is None:
        kind, said = "failed", say("alerts.failed", **known)
    else:
        took = span(max(0.0, ended - run.ready_at))
        kind, said = "died", say("alerts.died", **known, took=took)
    return _tell(run, kind, said, began=ended)


def _continue_case(run: RunFacts, kind: str) -> AlertCase:
    """The case of the try before stands, in words that say what goes on."""
    why = _sentence(run.why) or say("alerts.starting-again").text
    code = "alerts.failed" if kind == "failed" else "alerts.died-before"
    return _tell(run, kind, say(code, run=run.name, why=why, fix=_next(run)))


def _next(run: RunFacts) -> str:
    if run.restart_at is not None:
        return say("alerts.starts-again").text
    parts = [_sentence(run.remedy), _sentence(run.status_message)]
    return " ".join(part for part in parts if part) or say("alerts.see-log").text


def _unhealthy(run: RunFacts) -> AlertCase:
    because = f"It {run.stuck}" if run.stuck and not run.unhealthy_because else ""
    fix = _sentence(run.remedy or run.status_message) or say("alerts.see-log-and-restart").text
    code = "alerts.stuck" if because else "alerts.unhealthy"
    why = _sentence(because or f"It {run.unhealthy_because}")
    said = say(code, run=run.name, why=why, fix=fix)
    return _tell(run, "unhealthy", said, memory=_holds(run), began=run.unhealthy_since)


def _judge_memory_strain(run: RunFacts) -> AlertCase:
    said = say("alerts.load-takes-memory", run=run.name, why=_sentence(run.memory_warning))
    return _tell(run, "floor", said, memory="")


def _holds(run: RunFacts) -> str:
    return say("alerts.holds", size=run.held).text if run.held else ""


def _sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def span(seconds: float) -> str:
    """ "42 s", "18 min", "3 h", "2 d"."""
    for unit, length, limit in (("s", 1, 90), ("min", 60, 5400), ("h", 3600, 172800)):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
