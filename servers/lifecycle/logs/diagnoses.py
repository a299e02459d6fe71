"""Diagnoses of failed runs: made once the log is whole, and shown with what to change."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.judge.logs import evidence, failure_catalog
from servers.judge.logs.diagnosis import HEAD, TAIL, Diagnosis, Ending, diagnose
from servers.judge.logs.evidence import Oom
from servers.judge.profiles.facts import LaunchFacts, RuleSource
from servers.launch.engines import change as engines_change
from servers.launch.engines.change import Difference, LaunchChange
from servers.launch.engines.launch import fill_parameters
from servers.lifecycle.profiles import attempts
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, LogChunk, Run, User
from servers.models.logs import NOTE
from servers.models.runs.run import ACTIVE, RunState
from servers.state import samples

# Failed runs that are looked at in one round.
AT_ONCE = 3
# A log that is not whole so long after the end may never be: Docker is away, or cannot read it.
PATIENCE = timedelta(minutes=2)
# How a kill for want of memory is learned: the counter is read each second, here after the end.
HEARING = timedelta(seconds=3)
SIGKILLED = 137
# Chunks of the log's head that are read: some 16 MiB of text at most.
MOST_CHUNKS = 256
SHORT = 19  # characters of an id, enough to tell two apart: "sha256:" and twelve
# Bytes of free memory that make no difference to a start.
GIB = TELLING = 2**30


@dataclass(frozen=True, kw_only=True)
class FixStep:
    """One thing to do. `change` is None for what no profile can do."""

    number: int  # of the failure's remedies, from 0
    says: str
    box: str  # an action on the box, "" for none
    change: LaunchChange | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, kw_only=True)
class ChangedSince:
    """What is different from the last time; None on one side: not known or not there."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class FailureReport:
    """All that the page of a failed run tells."""

    is_waiting: bool  # the log is not whole yet
    is_partial: bool  # nor was it when the cause was looked for
    cause: str
    summary: str
    evidence: tuple[tuple[int, str], ...]
    steps: tuple[FixStep, ...]
    sources: tuple[RuleSource, ...]
    last_good: Run | None
    changed: tuple[ChangedSince, ...]
    differences: tuple[Difference, ...]  # between the two launches
    attempts: int  # to start the same checkpoint that the person may see, with this one

    @property
    def best_fix(self) -> FixStep | None:
        """The first that is a change of the profile, which a click makes."""
        return next((step for step in self.steps if step.change is not None), None)


def look(box: Box) -> None:
    """Diagnose what has failed on this box and was not looked at. Short; for every round."""
    is_whole = Q(log__is_complete=True) | Q(container_id="")
    is_late = Q(ended_at__lt=timezone.now() - PATIENCE)
    # What was judged by a part of a log is judged again once there is more.
    is_open = Q(is_whole | is_late, log__diagnosis={}) | Q(
        is_whole, log__diagnosis__is_partial=True
    )
    open_ones = Run.objects.filter(is_open, server__box=box, state=RunState.FAILED)
    just_now = Q(exit_code=SIGKILLED, ended_at__gt=timezone.now() - HEARING, log__oom={})
    open_ones = open_ones.exclude(just_now)
    latest = open_ones.select_related("server__box", "version", "plan__repeats", "log").order_by(
        "-pk"
    )[:AT_ONCE]
    for run in latest.fetch_any():
        found = diagnose(_build_ending(run))
        is_partial = not run.log.is_complete and bool(run.container_id)
        same = Run.objects.filter(
            pk=run.pk, log__diagnosis=run.log.diagnosis, log__oom=run.log.oom, state=RunState.FAILED
        )
        if same.write(log__diagnosis=_store_diagnosis(found) | {"is_partial": is_partial}):
            events.publish_change("server", run.server_id)


def surroundings(run: Run) -> dict[str, Any]:
    """What is around a run that is about to start, for the comparison with another one."""
    box = run.server.box
    others = Run.objects.filter(server__box=box, state__in=ACTIVE).exclude(pk=run.pk)
    around: dict[str, Any] = {
        "driver": box.facts.get("driver", ""),
        "boot": box.boot_id,
        "others": sorted(others.values_list("server__slug", flat=True)),
    }
    free = [card.get("free") for card in (samples.newest(box.slug) or {}).get("gpus") or []]
    if free and None not in free:
        around["free"] = sum(free)
    return around


def _store_diagnosis(found: Diagnosis) -> dict[str, Any]:
    return {
        "outcome": found.outcome,
        "cause": found.cause,
        "summary": found.summary,
        "evidence": [[each.line, each.text] for each in found.evidence],
        "groups": dict(found.groups),
    }


def _build_ending(run: Run) -> Ending:
    docker = f"{run.failure}\n{run.failure_detail}" if not run.container_id else ""
    return Ending(
        lines=_lines_of(run),
        exit_code=run.exit_code,
        oom_killed=run.oom_killed,
        is_over=run.is_watched and run.exit_code is None,
        docker_error=docker,
        subject=LaunchContext(run.launch, run.server.box).subject,
        was_ready=run.ready_at is not None,
        unheld=run.start.unattributed_at_start,
        oom=_oom_of(run),
    )


def _oom_of(run: Run) -> Oom | None:
    """None where it went on for long after a part of it was killed, and ended of something else."""
    found = Oom.from_json(run.log.oom)
    if found is None or run.ended_at is None:
        return found
    return found if found.at >= run.ended_at.timestamp() - evidence.NOTICES else None


def _lines_of(run: Run) -> list[tuple[int, str]]:
    """Of a log that is not whole, with those that Docker still gave when the container ended."""
    stored = list(_lines(run.pk))
    if run.log.is_complete or not run.container_id:
        return stored
    last = stored[-1][1] if stored else None
    at = max((n for n, text in enumerate(run.log.last_lines, 1) if text == last), default=0)
    return stored + [(0, text) for text in run.log.last_lines[at:]]


def _lines(run_id: int) -> Iterator[tuple[int, str]]:
    """The engine's own lines of both ends of the log, with their numbers."""
    last = 0
    for line in LogChunk.objects.lines(run_id, 0, HEAD, most=MOST_CHUNKS):
        last = line.number
        if line.stream != NOTE:
            yield line.number, line.text
    for line in LogChunk.objects.tail(run_id, TAIL):
        if line.number > last and line.stream != NOTE:
            yield line.number, line.text


def explain_failure(run: Run, person: User) -> FailureReport:
    """What to show this person of a failed run, with the changes that its profile would take now."""
    failure = failure_catalog.by_id().get(run.log.cause)
    good = _last_good(run)
    return FailureReport(
        is_waiting=not run.log.diagnosis,
        is_partial=bool(run.log.diagnosis.get("is_partial")),
        cause=failure.id if failure else "",
        summary=run.log.diagnosis.get("summary", ""),
        evidence=tuple((line, text) for line, text in run.log.diagnosis.get("evidence", ())),
        steps=tuple(_steps(run)),
        sources=failure.sources if failure else (),
        last_good=good,
        changed=tuple(list_changes(good, run)) if good else (),
        differences=tuple(engines_change.compare_launches(good.launch, run.launch)) if good else (),
        attempts=attempts.list_attempts(run.version.launch.checkpoint, person).count(),
    )


def list_cures(run: Run) -> list[str]:
    """What to do about why it failed, in words, best first; [] where nothing is known."""
    return [step.says for step in _steps(run)]


def change(run: Run, number: int) -> LaunchChange | None:
    """What a remedy changes in the profile of this run; None where it changes nothing."""
    return next((step.change for step in _steps(run) if step.number == number), None)


def find_first_change(run: Run) -> LaunchChange | None:
    """What the best remedy that is a change of its profile changes; None without one."""
    return next((step.change for step in _steps(run) if step.change), None)


def _steps(run: Run) -> Iterator[FixStep]:
    """The remedies of its cause, or of the part that failed; none where nothing is known."""
    failure = failure_catalog.by_id().get(run.log.cause or run.log.place)
    if failure is None:
        return
    groups = run.log.diagnosis.get("groups", {})
    server = run.server
    template = server.profile.launch
    launch = fill_parameters(template, server.values)
    facts = LaunchFacts(LaunchContext(launch, server.box).subject)
    for number, remedy in enumerate(failure.remedies):
        truth = remedy.judge(launch.engine, groups, facts)
        if truth is False:
            continue
        made = remedy.apply(facts, groups)
        # What is not known, such as the version, may be known to who reads it.
        is_for_people = truth is None and remedy.when is not None
        if remedy.is_change and made is None and not is_for_people:
            continue  # the profile says so already, or its version has no such flag
        after = made.apply(template) if made else template
        yield FixStep(
            number=number,
            says=remedy.text(groups, engine=launch.engine, facts=facts),
            box=remedy.box,
            change=made,
            differences=tuple(engines_change.compare_launches(template, after)) if made else (),
        )


def _last_good(run: Run) -> Run | None:
    before = run.server.runs.good().filter(pk__lt=run.pk)
    return before.select_related("version", "plan__repeats__start", "start").order_by("-pk").first()


def list_changes(good: Run, run: Run) -> Iterator[ChangedSince]:
    """What is different around a run from an earlier one: the launch is compared by itself."""
    revisions = good.start.checkpoint_revision, run.start.checkpoint_revision
    ids = ("image id", good.image_id, run.image_id), ("checkpoint", *revisions)
    for what, before, after in ids:
        if before and after and before != after:
            yield ChangedSince(what=what, before=before[:SHORT], after=after[:SHORT])
    old, new = good.start.around, run.start.around
    if not (old and new):
        return
    if old.get("driver") != new.get("driver"):
        yield ChangedSince(what="driver", before=old.get("driver"), after=new.get("driver"))
    if old.get("others") != new.get("others"):
        yield ChangedSince(
            what="other servers on the box",
            before=", ".join(old.get("others", [])) or "none",
            after=", ".join(new.get("others", [])) or "none",
        )
    if "free" in old and "free" in new and abs(old["free"] - new["free"]) > TELLING:
        before, after = (f"{each['free'] / GIB:.1f} GiB" for each in (old, new))
        yield ChangedSince(what="free GPU memory at the start", before=before, after=after)
