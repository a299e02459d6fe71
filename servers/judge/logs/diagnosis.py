"""The cause of a failed run, by its log, exit code, Docker's error and its box.

The first cause counts, not the noise after it; what a log only says in passing is no cause; and
where nothing is recognised, the lines that tell most are shown instead of a guess.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from servers.judge.logs import (
    advice,
    circumstances,
    engine_hints,
    evidence,
    exceptions,
    failure_catalog,
    matching,
    parsing,
    wrapping,
)
from servers.judge.logs.evidence import EvidenceLine, EvidenceLog, Oom
from servers.judge.logs.failure_catalog import RANKS, Failure
from servers.judge.logs.hits import GIB, Hit, match_entry
from servers.judge.logs.phases.progress import PhaseProgress
from servers.judge.logs.phases.reader import Reader
from servers.judge.logs.remedies import list_texts
from servers.judge.logs.wrapping import Evidence, cut, pick, quote_lines
from servers.judge.messages import say
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.launch.engines import ENGINES, SERVING

type Outcome = Literal["ready", "failed", "hung", "unknown"]

# Of a long log, the lines that are read: a start is at its front, an end at its back.
HEAD, TAIL = 20_000, 40_000
LONGEST_LINE = 16_384  # characters; of a longer one, both ends: a bar redraws its line
# Exit codes of somebody's stop: Ctrl-C and SIGTERM; of one that served, SIGKILL after the grace.
_STOPPED = (130, 143, -2, -15)
_STOPPED_SERVING = (0, *_STOPPED, 137, -9)
# What a server that hangs goes on to say: that it was asked how it is, and that nothing moves.
_IDLE = re.compile(
    r"\s*$|\S{1,60} - \"(?:GET|HEAD) /\S{0,200} HTTP/|"
    r"Engine \d{3}: Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s"
)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What is known of an end. `lines` are numbered, see head_and_tail()."""

    lines: Sequence[tuple[int, str]]
    exit_code: int | None = None
    oom_killed: bool = False
    is_over: bool = False  # it has surely ended, though nobody has heard with which exit code
    docker_error: str = ""  # Docker's own words, where it made no container
    subject: Subject | None = None  # the launch and its box; None: a log from anywhere
    engine: str = ""  # a key of ENGINES; "": not known, and then that of the subject
    was_ready: bool | None = None  # None: the log tells
    ready_line: int | None = None  # the number of the line that says so, where one does
    unheld: int | None = None  # bytes of a unified pool that nobody held when it started
    oom: Oom | None = None  # the kernel killed it, or a part of it


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """`cause` is an id of the catalogue; None: not recognised, or nothing to explain."""

    outcome: Outcome
    summary: str
    cause: str | None = None
    evidence: tuple[Evidence, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)


def head_and_tail(
    lines: Iterable[str], *, head: int = HEAD, tail: int = TAIL
) -> list[tuple[int, str]]:
    """The numbered lines of a log that are worth reading: all, or those of both its ends."""
    kept: list[tuple[int, str]] = []
    last: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            line = line[: LONGEST_LINE // 2] + line[-LONGEST_LINE // 2 :]
        if number <= head:
            kept.append((number, line))
            continue
        last.append((number, line))
        if len(last) > 2 * tail:
            del last[:-tail]
    return kept + last[-tail:]


def diagnose(ending: Ending) -> Diagnosis:
    """What it died of. Never fails; its time is bounded by the number of its lines."""
    docker = [(0, line) for line in ending.docker_error.splitlines()]
    log = evidence.read(chain(docker, ending.lines), _engine(ending))
    says_ready = log.ready_at is not None or ending.ready_line is not None
    was_ready = says_ready if ending.was_ready is None else ending.was_ready
    lines = [line for line in log.telling if not was_ready or _is_after_ready(line, log, ending)]
    has_died = _has_died(ending, lines, was_ready, log)
    hits = _hits(ending, log, lines, was_ready)
    unexplained = _find_unexplained(lines, hits)
    if not (has_died or unexplained) and all(hit.failure.warns for hit in hits):
        hits = []
    best = _best(hits, unexplained, log)
    if was_ready and not has_died and not (best and _is_hang(best)):
        return Diagnosis(outcome="ready", summary=str(say("logs.ready")))
    if ending.oom is not None and _is_of_memory(best):
        return _out_of_memory(ending, ending.oom)
    if ending.oom_killed and (best is None or best.failure.rank == "wrapper"):
        return _conclude_killed(ending, unexplained)
    if best is not None and not log.has_survived(best.line):
        return _conclude_known(best, hits)
    return _conclude_rest(ending, lines, _find_final(unexplained, log), has_died, log)


def _engine(ending: Ending) -> str:
    return ending.engine or (ending.subject.launch.engine if ending.subject else "")


def _is_after_ready(line: EvidenceLine, log: EvidenceLog, ending: Ending) -> bool:
    if log.ready_at is not None:
        return line.position > log.ready_at
    return line.number > (ending.ready_line or 0)


def _is_hang(hit: Hit) -> bool:
    return hit.failure.hangs is not None and bool(hit.failure.hangs.search(hit.line.text))


def _has_died(ending: Ending, lines: list[EvidenceLine], was_ready: bool, log: EvidenceLog) -> bool:
    if ending.oom_killed or ending.oom or ending.docker_error or ending.is_over:
        return True
    signs = (line for line in lines if not line.is_quiet and evidence.DEATH.search(line.text))
    if any(not log.was_stopped_before(line) for line in signs):
        return True
    may_end = [line for line in lines if evidence.MAY_END.search(line.text)]
    if may_end and not log.lives_after(may_end[-1]):
        return True
    if ending.exit_code is None:
        return False
    # An exit code of 0 is no success of an engine that was not ready.
    return ending.exit_code not in (_STOPPED_SERVING if was_ready else _STOPPED)


def _hits(
    ending: Ending, log: EvidenceLog, lines: list[EvidenceLine], was_ready: bool
) -> list[Hit]:
    found: list[Hit] = []
    index = matching.LineIndex([line.lower for line in lines])
    for failure in _possible(ending, was_ready):
        if failure.is_of_exception:
            continue
        may_be = index.find(failure.match)
        mine = [
            hit for at in may_be if (hit := match_entry(failure, lines[at], log, ending.unheld))
        ]
        if len(mine) < failure.times:
            continue
        if failure.at_end and mine and not _is_at_end(mine[-1], log):
            continue
        found += mine
    return found


def _possible(ending: Ending, was_ready: bool) -> Iterable[Failure]:
    facts = LaunchFacts(ending.subject) if ending.subject else None
    engine = _engine(ending)
    for failure in failure_catalog.load_shipped():
        if failure.after_ready and not was_ready:
            continue
        if engine in ENGINES and failure.engine in ENGINES and failure.engine != engine:
            continue
        if failure.when is not None and (facts is None or failure.when(facts) is not True):
            continue
        if failure.unheld_gib and (ending.unheld or 0) < failure.unheld_gib * GIB:
            continue
        yield failure


def _is_at_end(hit: Hit, log: EvidenceLog) -> bool:
    later = (parsing.read(text).text for text in log.texts[hit.line.position + 1 :])
    return all(
        _IDLE.match(text) or any(p.regex.search(text) for p in hit.failure.match) for text in later
    )


def _find_unexplained(lines: list[EvidenceLine], hits: list[Hit]) -> list[EvidenceLine]:
    """Exceptions of which the catalogue says nothing."""
    known = {hit.line.position for hit in hits if not hit.failure.is_guess}
    return [line for line in lines if exceptions.is_exception(line) and line.position not in known]


def _best(hits: list[Hit], unexplained: list[EvidenceLine], log: EvidenceLog) -> Hit | None:
    """The first cause. None where an exception that nobody knows came before what is known."""
    fresh = [hit for hit in hits if not log.has_survived(hit.line)]
    final = [line for line in unexplained if not log.has_survived(line)]
    alone = [hit for hit in fresh if not hit.failure.needs_exception]
    if final and not any(hit.failure.counts_by_itself for hit in alone):
        guessed = [hit for hit in fresh if hit.failure.needs_exception]
        if guessed:
            return min(guessed, key=_order)
    causes = [hit for hit in alone if hit.failure.counts_by_itself]
    causes = [hit for hit in causes if not (hit.failure.last and _is_followed(hit, final))]
    if causes:
        return _outright(min(causes, key=_order), causes, log)
    for rank in ("follows", "wrapper"):
        of_rank = [
            hit
            for hit in alone
            if hit.failure.rank == rank and not log.was_stopped_before(hit.line)
        ]
        if not of_rank:
            continue
        first = min(of_rank, key=_order)
        is_before = [line for line in final if line.position < first.line.position]
        if rank == "wrapper":
            return None if final else first
        return None if is_before else first
    return None


def _is_followed(hit: Hit, unexplained: list[EvidenceLine]) -> bool:
    return any(line.position > hit.line.position for line in unexplained)


def _order(hit: Hit) -> tuple[int, int]:
    return (hit.line.position, -hit.failure.weight)


def _outright(first: Hit, causes: list[Hit], log: EvidenceLog) -> Hit:
    """The later hit that says more of the same: an exception raised from the first one."""
    for later in sorted(causes, key=_order):
        if first.failure.id not in later.failure.absorbs:
            continue
        is_same = later.line.position == first.line.position
        is_near = later.line.rank == first.line.rank or log.is_chained(first.line, later.line)
        if is_same or is_near:
            return _outright(later, [each for each in causes if each is not first], log)
    return first


def _conclude_known(best: Hit, hits: list[Hit]) -> Diagnosis:
    failure = best.failure
    same = [hit.line for hit in hits if hit.failure is failure]
    said = {}
    if best.line.is_raised:
        quote = cut(exceptions.quote(best.line, best.log), 300)
        said = {"said": quote, **advice.read(best.line, quote)}
    groups = {**circumstances.read(best.log, best.line), **said, **best.groups}
    return Diagnosis(
        outcome="hung" if _is_hang(best) else "failed",
        cause=failure.id,
        summary=failure.sentence(groups),
        evidence=quote_lines([best.line, *same], most=3),
        groups=groups,
    )


def _conclude_killed(ending: Ending, unexplained: list[EvidenceLine]) -> Diagnosis:
    by_docker = next(each for each in failure_catalog.load_shipped() if each.oom_killed)
    lines = unexplained or [
        EvidenceLine(number=n, position=0, text=text) for n, text in ending.lines[-2:]
    ]
    return Diagnosis(
        outcome="failed",
        cause=by_docker.id,
        summary=by_docker.sentence({}),
        evidence=quote_lines(lines, most=2),
    )


def _is_of_memory(best: Hit | None) -> bool:
    """What the log knows of its own end counts for more: it may have died of that first."""
    if best is None:
        return True
    # "A rank was killed" is what such a kill looks like from inside.
    return best.failure.rank in ("wrapper", "follows")


def _out_of_memory(ending: Ending, killed: Oom) -> Diagnosis:
    said = (Evidence(line=0, text=cut(killed.said)),) if killed.said else ()
    last = [EvidenceLine(number=n, position=0, text=text) for n, text in ending.lines[-1:]]
    return Diagnosis(
        outcome="failed",
        cause=evidence.CAUSE,
        summary=evidence.explain_oom(killed),
        evidence=(*said, *quote_lines(last, most=1)),
    )


def _find_final(unexplained: list[EvidenceLine], log: EvidenceLog) -> list[EvidenceLine]:
    return [
        line
        for line in unexplained
        if not log.has_survived(line) and not log.was_stopped_before(line)
    ]


def _conclude_rest(
    ending: Ending,
    lines: list[EvidenceLine],
    final: list[EvidenceLine],
    has_died: bool,
    log: EvidenceLog,
) -> Diagnosis:
    """What no entry knows by its words: an exception by its place, or what the log says last."""
    if fatal := exceptions.pick_fatal(final, log):
        return _conclude_exception(ending, fatal, final, log)
    if last := _find_last_words(ending, lines, has_died, log):
        return _conclude_exception(ending, last, [last], log)
    signs = [line for line in lines if not line.is_quiet and evidence.DEATH.search(line.text)]
    loud = [
        line
        for line in lines
        if line.is_loud and not log.has_survived(line) and not exceptions.is_frame(line)
    ]
    told = pick(loud) or signs
    if not has_died:
        summary = str(say("logs.no-reason"))
        return Diagnosis(outcome="unknown", summary=summary, evidence=quote_lines(told))
    said = told[0].text.strip() if told else ""
    summary = str(
        say("logs.unrecognised-error", said=cut(said, 200)) if said else say("logs.unrecognised")
    )
    if not told and ending.lines:
        number, text = ending.lines[-1]
        return Diagnosis(
            outcome="failed", summary=summary, evidence=(Evidence(line=number, text=cut(text)),)
        )
    return Diagnosis(outcome="failed", summary=summary, evidence=quote_lines(told))


def _find_last_words(
    ending: Ending, lines: list[EvidenceLine], has_died: bool, log: EvidenceLog
) -> EvidenceLine | None:
    """The error of a program that writes no exceptions, where an entry knows its kind.

    Of a log that does not prove an end, only what stands at its own end before it was ready.
    """
    if log.stopped_at is not None or not (has_died or log.ready_at is None):
        return None
    last = [line for line in lines if exceptions.is_last_word(line) and not log.has_survived(line)]
    if not has_died:
        said = [at for at, text in enumerate(log.texts) if text.strip()][-exceptions.LAST_LINES :]
        last = [line for line in last if line.position in said]
    for line in last:
        hit = _find_of_exception(ending, line, log)
        if hit is not None and hit.failure.rank == "family":
            return line
    return None


def _conclude_exception(
    ending: Ending, fatal: EvidenceLine, final: list[EvidenceLine], log: EvidenceLog
) -> Diagnosis:
    said = cut(exceptions.quote(fatal, log), 300)
    told = quote_lines([fatal, *pick(final)])
    place = exceptions.explain_place(fatal)
    groups: dict[str, str] = {}
    hit = _find_of_exception(ending, fatal, log)
    if hit is not None:
        groups = {"said": said, **advice.read(fatal, said), **hit.groups}
        groups |= {"place": place} if place else {}
        said = hit.failure.sentence(groups)
    is_whole = hit is not None and hit.failure.rank == "family"
    if not is_whole:
        said += "" if said.endswith((".", "!")) else "."
        if hit is None:
            said = str(
                say("logs.unnamed-raised", said=said, place=place)
                if place
                else say("logs.unnamed", said=said)
            )
        elif place:
            said = str(say("logs.raised", said=said, place=place))
    return Diagnosis(
        outcome="failed",
        cause=hit.failure.id if hit else None,
        summary=said,
        evidence=told,
        groups=groups,
    )


def _find_of_exception(ending: Ending, fatal: EvidenceLine, log: EvidenceLog) -> Hit | None:
    """The entry that knows its kind; else the one that knows its place."""
    possible = [
        each for each in _possible(ending, log.ready_at is not None) if each.is_of_exception
    ]
    possible.sort(key=lambda each: -RANKS[each.rank])
    return next(
        filter(None, (match_entry(each, fatal, log, ending.unheld) for each in possible)), None
    )


def report(lines: Iterable[str], *, exit_code: int | None = None) -> dict[str, Any]:
    """Engine, phases, outcome, cause, summary, fix and evidence, as docs/diagnosis.md says.

    `lines` may hold terminal sequences and any number of lines; those of both ends are read.
    """
    kept = wrapping.unwrap(head_and_tail(map(_strip_colours, lines)))
    progress = _progress(kept)
    engine = progress.engine
    if not engine and (engine := engine_hints.guess_engine(kept)):
        progress = _progress(kept, engine)
    found = diagnose(
        Ending(
            lines=kept,
            exit_code=exit_code,
            engine=engine,
            ready_line=progress.seen.get("ready"),
        )
    )
    if not engine and found.cause:
        engine = failure_catalog.by_id()[found.cause].engine
    return {
        "engine": engine if engine in SERVING else None,
        "phases": _list_reached(progress.coarse, found),
        "outcome": found.outcome,
        "cause": found.cause,
        "summary": found.summary,
        "fix": fixes(found, engine),
        "evidence": [{"line": each.line, "text": each.text} for each in found.evidence],
    }


def _strip_colours(line: str) -> str:
    return _COLOUR.sub("", line) if "m" in line and "[" in line else line


def _list_reached(coarse: list[str], found: Diagnosis) -> list[str]:
    """A server's word that it is up counts even where nobody knows whose it is."""
    return [*coarse, "ready"] if found.outcome == "ready" and "ready" not in coarse else coarse


def _progress(lines: list[tuple[int, str]], engine: str = "") -> PhaseProgress:
    reader = Reader(engine)
    for number, line in lines:
        reader.feed(number, line)
    return reader.progress


def fixes(found: Diagnosis, engine: str) -> list[str]:
    """In words, best first."""
    if found.cause is None:
        return []
    known = failure_catalog.by_id()[found.cause].remedies
    return list(list_texts(known, engine, found.groups))


def readable(told: dict[str, Any]) -> str:
    """The same for a person at a terminal."""
    rows = [f"{_TITLES[told['outcome']]}: {told['summary']}"]
    rows.append(f"Engine: {told['engine'] or 'not recognised'}")
    rows.append(f"Reached: {', '.join(told['phases']) or 'no phase that is known'}")
    if told["cause"]:
        rows.append(f"Cause: {told['cause']}")
    rows += ["What the log says:" for _ in told["evidence"][:1]]
    rows += [f"  {each['line']}: {parsing.safe(each['text'])}" for each in told["evidence"]]
    rows += ["What to do:" for _ in told["fix"][:1]]
    rows += [f"  - {text}" for text in told["fix"]]
    return "\n".join(rows)


# What is left of colours where a log went through a web page: "[1;36m(VllmWorker pid=7)[0;0m".
_COLOUR = re.compile(r"(?:\x1b|\\033|\\x1b|\\e|\u241b)?\[\d{1,3}(?:;\d{1,3}){0,3}m")

_TITLES = {"ready": "Ready", "failed": "Failed", "hung": "Stuck", "unknown": "Not known"}
