"""Liveness records of ready engines, and health notes on their runs."""

from datetime import datetime, timedelta

from django.utils import timezone

from servers.host.runs.probes import HealthAnswer
from servers.host.runs.questions import CompletionResult
from servers.judge.runs.health import HealthLook, HealthRecord, ProbeOutcome
from servers.launch.engines import ENGINES, purpose
from servers.lifecycle.runs import health
from servers.models import Run
from servers.watcher.runs.probes import StatusProbe

# Between two questions to a health path that is well; its figures come every other second.
HEALTH_EVERY = timedelta(seconds=10)


class Liveness:
    def __init__(self) -> None:
        self._records: dict[int, HealthRecord] = {}

    def note_status(self, run: Run, said: StatusProbe) -> None:
        engine = ENGINES[run.version.launch.engine]
        look = HealthLook(
            at=timezone.now(),
            answer=said.health,
            took=said.took,
            requests=said.requests(engine),
            # What moves while an engine embeds is not known well enough.
            pulse=said.pulse(engine) if purpose.chats(run.version.launch) else (),
        )
        self._keep(run, self._record(run).add_look(look))

    def spares_health(self, run: Run) -> bool:
        """Whether the health path has said lately that all is well."""
        record = self._records.get(run.pk)
        if record is None or record.timed_at is None or record.answer != HealthAnswer.OK:
            return False
        return timezone.now() - record.timed_at < HEALTH_EVERY

    def note_probe(self, run: Run, answer: CompletionResult, at: datetime) -> None:
        """What came of a question, of whatever kind, that was asked at this moment."""
        self._keep(run, self._record(run).add_probe(outcome(answer), at))

    def wants_token(self, run: Run) -> bool:
        every = run.version.launch.ask_every
        if not every or run.ready_at is None:
            return False
        return self._record(run).wants_asking(
            timedelta(seconds=every),
            ready_at=run.ready_at,
            last_request=run.last_request_at,
            now=timezone.now(),
        )

    def forget(self, active: set[int]) -> None:
        for run_id in self._records.keys() - active:
            del self._records[run_id]

    def _record(self, run: Run) -> HealthRecord:
        if run.pk not in self._records and run.unhealthy_since and run.version.launch.ask_every:
            # Another watcher has found that out, perhaps by asking: ask at once.
            return HealthRecord(
                failed_asks=1, failing_since=run.unhealthy_since, asked_at=run.ready_at
            )
        return self._records.get(run.pk, HealthRecord())

    def _keep(self, run: Run, record: HealthRecord) -> None:
        self._records[run.pk] = record
        health.note(run, record.verdict(asked_path(run)))


def asked_path(run: Run) -> str:
    """What a ready engine is asked."""
    launch = run.version.launch
    return ENGINES[launch.engine].watched_path(launch, is_ours=not run.is_watched)


def outcome(answer: CompletionResult) -> ProbeOutcome:
    if not answer.error:
        return ProbeOutcome.ANSWERED
    refused = answer.status is not None and 400 <= answer.status < 500
    return ProbeOutcome.REFUSED if refused else ProbeOutcome.FAILED
