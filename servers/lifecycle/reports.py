"""Reports of what nobody knew or what was said wrongly: of a run, of a paste, of a memory verdict."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from servers.judge.logs.phases import reader as phases
from servers.judge.logs.phases.progress import PhaseProgress
from servers.judge.reports import document, failure, memory
from servers.judge.reports.document import Report
from servers.judge.reports.failure import FailureFacts, ReportedCard
from servers.judge.reports.redaction import PrivateNames, Redactor
from servers.launch.engines import ENGINES
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import starts
from servers.models import Box, LogChunk, Run, User
from servers.models.logs import MOST_CHUNKS, NOTE
from servers.models.people.key import shapes

# Lines of the log that a report is chosen from.
_ENDS = failure.MOST_LINES
_AROUND = 12
_MOST_CHECKS = 40


@dataclass(frozen=True, kw_only=True)
class ReportWishes:
    """What a person writes and ticks."""

    truth: str = ""
    hides_model: bool = False
    words: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class MadeReport:
    report: Report
    unsure: tuple[str, ...]  # names that are ordinary words, too, and so are not hidden everywhere


def report_run(run: Run, wishes: ReportWishes, *, last: int | None = None) -> MadeReport:
    """Of a run's failure. `run` is selected with its server's box and profile, and its parts.

    Of the log nothing is told behind the line number `last`; None: all of it.
    """
    launch, box = run.launch, run.server.box
    names = [launch.checkpoint, launch.served_name, run.served_name, *launch.aliases]
    redactor = Redactor(
        _find_names(
            wishes,
            secrets=starts.secret_values(run),
            models=names if wishes.hides_model else (),
        )
    )
    reader = run.start.reader
    progress = phases.Reader.from_json(reader).progress if reader else PhaseProgress()
    telling = [line for line, _text in run.log.diagnosis.get("evidence", ())]
    docker = f"{run.failure}\n{run.failure_detail}" if not run.container_id else ""
    facts = FailureFacts(
        lines=list(_read_lines(run, [*telling, progress.seen.get("ready", 0)], last)),
        telling=telling,
        docker_says=docker.strip(),
        launch=launch,
        said=_describe_diagnosis(run),
        inferdash=settings.VERSION,
        engine=launch.engine if launch.engine in ENGINES else "",
        engine_version=run.start.engine_version or str(progress.facts.get("version", "")),
        image=launch.image,
        driver=str(run.start.around.get("driver") or box.facts.get("driver") or ""),
        docker=_docker(box),
        cards=[_describe_card(card) for card in box.gpus or ()],
        exit_code=run.exit_code,
        is_oom_killed=run.oom_killed,
        was_ready=run.ready_at is not None,
        phases=progress.coarse,
        checks=[
            f"{each.rule} ({each.severity})"
            for each in checks.findings(launch, box, run.server.profile)[:_MOST_CHECKS]
        ],
        ready_line=progress.seen.get("ready"),
    )
    made = failure.build_failure(facts, redactor, truth=wishes.truth)
    return MadeReport(report=made, unsure=redactor.unsure)


def find_last_line(run: Run) -> int:
    """The number of the last stored line of a run's log; 0: there is none."""
    return next((line.number for line in LogChunk.objects.tail(run.pk, 1)), 0)


def report_paste(text: str, engine: str, wishes: ReportWishes) -> MadeReport:
    redactor = Redactor(_find_names(wishes))
    made = document.build_paste(
        text, redactor, truth=wishes.truth, engine=engine, inferdash=settings.VERSION
    )
    return MadeReport(report=made, unsure=redactor.unsure)


def report_verdict(
    box: Box, gpu: str, recording: Sequence[Mapping[str, Any]], wishes: ReportWishes
) -> MadeReport:
    """Of the verdict on one GPU (its UUID). `recording` are reduced snapshots, at least one."""
    redactor = Redactor(_find_names(wishes))
    driver = str(recording[-1].get("driver") or "")
    best = {name: size for name, size in box.memory_best.items() if name.startswith(f"{driver} ")}
    made = memory.build_memory(
        recording,
        redactor,
        gpu=gpu,
        truth=wishes.truth,
        inferdash=settings.VERSION,
        docker=_docker(box),
        baselines=best,
        thresholds=settings.MEMORY_THRESHOLDS,
    )
    return MadeReport(report=made, unsure=redactor.unsure)


def _find_names(
    wishes: ReportWishes, *, secrets: Collection[str] = (), models: Collection[str] = ()
) -> PrivateNames:
    boxes = Box.objects.values_list("slug", "home")
    return PrivateNames(
        secrets=shapes(secrets),
        people=[name for name in User.objects.values_list("username", flat=True) if name],
        hosts=[settings.BOX, *(slug for slug, _home in boxes)],
        homes=[home for _slug, home in boxes if home],
        models=[name for name in models if name],
        words=wishes.words,
    )


def _read_lines(run: Run, telling: Collection[int], until: int | None) -> Iterator[tuple[int, str]]:
    """The engine's own lines of both ends of the log and around the telling ones."""
    read = LogChunk.objects.lines
    end = run.log.lines if until is None else min(until, run.log.lines)
    spans = [(0, _ENDS), (max(0, end - _ENDS), _ENDS)]
    spans += [(max(0, line - _AROUND), 2 * _AROUND) for line in telling if line > 0]
    last = 0
    for after, count in sorted(spans):
        for line in read(run.pk, max(after, last), count, most=MOST_CHUNKS):
            if after < line.number <= after + count and line.number > last:
                last = line.number
                if line.stream != NOTE and (until is None or line.number <= until):
                    yield line.number, line.text
    if not last and run.log.last_lines:
        yield from enumerate(run.log.last_lines, start=1)


def _describe_diagnosis(run: Run) -> str:
    found = run.log.diagnosis
    if not found:
        return run.failure or f"state {run.state}, not diagnosed"
    cause = found.get("cause") or "no cause"
    return f"{found.get('outcome', 'unknown')}, {cause}: {found.get('summary', '')}"


def _docker(box: Box) -> str:
    return str(box.facts.get("docker", {}).get("version", ""))


def _describe_card(card: Mapping[str, Any]) -> ReportedCard:
    return ReportedCard(
        name=card["name"] or "a GPU without a name",
        capability=card["compute_capability"] or "",
        kind=card["kind"] or "",
        memory=card["total"],
    )
