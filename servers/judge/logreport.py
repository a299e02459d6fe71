"""What `manage.py diagnose` tells of a log from anywhere: a pure function of its text."""

from collections.abc import Iterable
from typing import Any

from servers.engines import ENGINES
from servers.judge import failurebook, logtext, phases
from servers.judge.diagnosis import Diagnosis, Ending, diagnose, head_and_tail


def report(lines: Iterable[str], *, exit_code: int | None = None) -> dict[str, Any]:
    """Engine, phases, outcome, cause, summary, fix and evidence, as docs/diagnosis.md says.

    `lines` may hold terminal sequences and any number of lines; those of both ends are read.
    """
    kept = head_and_tail(lines)
    reader = phases.Reader()
    for number, line in kept:
        reader.feed(number, line)
    progress = reader.progress
    engine = progress.engine
    found = diagnose(
        Ending(
            lines=kept,
            exit_code=exit_code,
            engine=engine,
            ready_line=progress.seen.get("ready"),
        )
    )
    return {
        "engine": engine if engine in ENGINES else None,
        "phases": progress.coarse,
        "outcome": found.outcome,
        "cause": found.cause,
        "summary": found.summary,
        "fix": fixes(found, engine),
        "evidence": [{"line": each.line, "text": each.text} for each in found.evidence],
    }


def fixes(found: Diagnosis, engine: str) -> list[str]:
    """In words, best first."""
    if found.cause is None:
        return []
    remedies = failurebook.by_id()[found.cause].remedies
    return [each.text(found.groups) for each in remedies if each.fits(engine, found.groups)]


def readable(told: dict[str, Any]) -> str:
    """The same for a person at a terminal."""
    rows = [f"{_TITLES[told['outcome']]}: {told['summary']}"]
    rows.append(f"Engine: {told['engine'] or 'not recognised'}")
    rows.append(f"Reached: {', '.join(told['phases']) or 'no phase that is known'}")
    if told["cause"]:
        rows.append(f"Cause: {told['cause']}")
    rows += ["What the log says:" for _ in told["evidence"][:1]]
    rows += [f"  {each['line']}: {logtext.plain(each['text'])}" for each in told["evidence"]]
    rows += ["What to do:" for _ in told["fix"][:1]]
    rows += [f"  - {text}" for text in told["fix"]]
    return "\n".join(rows)


_TITLES = {"ready": "Ready", "failed": "Failed", "hung": "Stuck", "unknown": "Not known"}
