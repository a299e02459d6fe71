"""Probes of engines: readiness and status. HTTP alone, no database."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from django.utils import timezone

from servers.host.http.prometheus import Exposed
from servers.host.runs import probes, questions
from servers.host.runs.probes import Endpoint, HealthAnswer
from servers.host.runs.questions import CompletionResult
from servers.judge.runs import metrics
from servers.judge.runs.health import HealthLook, HealthRecord, ProbeOutcome
from servers.judge.runs.smoke_test import QUESTION
from servers.launch.engines import ENGINES, other
from servers.launch.engines.engine import Engine
from servers.lifecycle.benchmarks import in_flight
from servers.lifecycle.runs import health
from servers.models import Run
from servers.watcher.error_isolation import ErrorIsolation

MOST_REQUESTS = 1_000_000  # what an engine claims beyond that is no count
LONGEST_VERSION, LONGEST_NAME = 60, 200  # characters that the database keeps
MOST_NAMES = 3  # of models in a sentence


@dataclass(frozen=True, kw_only=True)
class ReadinessProbe:
    """A start's answer. `version` is "" where the engine does not say it.

    `other_names`: models that are served under its address, where its own is not among them.
    """

    is_ready: bool
    version: str = ""
    served_name: str = ""
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StatusProbe:
    """A ready engine's answer."""

    health: HealthAnswer
    took: float | None = None  # seconds of its health path; None: it was not asked
    at: float  # of time.monotonic()
    exposed: Exposed = field(default_factory=Exposed)
    busy_slots: int | None = None

    @property
    def figures(self) -> Mapping[str, float]:
        return self.exposed.totals

    def requests(self, engine: Engine) -> int | None:
        """Requests that run or wait; None when the engine does not say."""
        if engine.running_metric not in self.figures:
            return self.busy_slots
        waiting = self.figures.get(engine.waiting_metric, 0)
        return int(min(max(self.figures[engine.running_metric] + waiting, 0), MOST_REQUESTS))

    def pulse(self, engine: Engine) -> tuple[float, ...]:
        """The figures that move while it computes; () when it tells none of them."""
        return tuple(self.figures[name] for name in engine.moving_metrics if name in self.figures)


def probe_start(
    endpoint: Endpoint, engine: Engine, *, path: str, served_name: str, takes_any: bool = False
) -> ReadinessProbe:
    """`takes_any`: whatever it lists is its model; nobody has told it a name."""
    if probes.health(endpoint, path) is not HealthAnswer.OK:
        return ReadinessProbe(is_ready=False)
    if not engine.serves_models:
        return ReadinessProbe(is_ready=True)
    names = probes.models(endpoint, engine.models_path)
    shown = [_make_printable(name) for name in names or ()]
    if takes_any and shown and served_name not in shown:
        served_name = shown[0]
    elif names is None or served_name not in names:
        return ReadinessProbe(is_ready=False, other_names=tuple(shown[:MOST_NAMES]))
    version = probes.version(endpoint, engine.version_path, engine.version_key)
    printable = "".join(filter(str.isprintable, version or ""))
    return ReadinessProbe(
        is_ready=True, version=printable[:LONGEST_VERSION], served_name=served_name
    )


def _make_printable(name: str) -> str:
    return "".join(filter(str.isprintable, name))[:LONGEST_NAME]


def probe_status(
    endpoint: Endpoint, engine: Engine, *, path: str, spare_health: bool
) -> StatusProbe:
    """`spare_health`: the figures alone will do, where there are any. Many images write a line
    into their log for each question."""
    found = _figures(endpoint, engine) if spare_health else None
    if found is not None and found.figures:
        return found
    asked_at = time.monotonic()
    health = probes.health(endpoint, path)
    took = time.monotonic() - asked_at
    if health in (HealthAnswer.REFUSED, HealthAnswer.SILENT):
        return StatusProbe(health=health, took=took, at=time.monotonic())
    return replace(found or _figures(endpoint, engine), health=health, took=took)


def _figures(endpoint: Endpoint, engine: Engine) -> StatusProbe:
    if not engine.metrics_path:
        return StatusProbe(health=HealthAnswer.OK, at=time.monotonic())
    names = {engine.running_metric, engine.waiting_metric, *engine.moving_metrics}
    book = metrics.by_engine().get(engine.key)
    if book is not None:
        names |= book.names
    histograms = book.histograms if book else ()
    at = time.monotonic()
    exposed = probes.fetch_metrics(endpoint, names, histograms, path=engine.metrics_path)
    slots = None
    if engine.running_metric not in exposed.totals and engine.slots_path:
        slots = probes.busy_slots(endpoint, engine.slots_path)
    return StatusProbe(health=HealthAnswer.OK, at=at, exposed=exposed, busy_slots=slots)


class Questions[Answer]:
    """Asks in threads of its own, of which there is one a run at most."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: set[int] = set()
        self._answers: queue.Queue[tuple[int, Answer | BaseException]] = queue.Queue()

    def is_open(self, run_id: int) -> bool:
        return run_id in self._open

    def ask(self, run_id: int, question: Callable[[], Answer]) -> bool:
        """Begin to ask; False when the run still owes the answer to an earlier question."""
        if run_id in self._open:
            return False
        self._open.add(run_id)
        # A daemon: an engine that says nothing must not keep the watcher from its end.
        thread = threading.Thread(
            target=self._wait, args=[run_id, question], name=f"{self._name}-{run_id}", daemon=True
        )
        thread.start()
        return True

    def answers(self, *, until: float) -> Iterator[tuple[int, Answer]]:
        """Answers in the order in which they come, those of earlier rounds too.

        Ends when none is owed, or at this moment of time.monotonic(). Raises what questions have
        raised, after the others' answers.
        """
        with ErrorIsolation() as apart:
            while self._open:
                try:
                    run_id, answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    return
                self._open.discard(run_id)
                if not isinstance(answer, BaseException):
                    yield run_id, answer
                    continue
                with apart.each(f"run {run_id}"):
                    raise answer

    def _wait(self, run_id: int, question: Callable[[], Answer]) -> None:
        try:
            self._answers.put((run_id, question()))
        except BaseException as error:  # whoever collects the answers raises it
            self._answers.put((run_id, error))


# Tokens, and seconds to them. A first request may compile kernels on its way.
FIRST_TOKENS, FIRST_LIMIT = 64, 120.0
ONE_TOKEN_LIMIT = 30.0
PING = "Hi"

type Kind = Literal["first", "again", "token"]


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """`alone`: as far as the engine tells, nobody else had a request meanwhile."""

    run: Run
    kind: Kind
    answer: CompletionResult
    asked_at: datetime
    alone: bool = True


class SyntheticProbes:
    def __init__(self) -> None:
        self._questions: Questions[ProbeResult] = Questions("question")
        self._ended: dict[int, float] = {}
        self._company: set[int] = set()  # runs that others ask meanwhile
        self._had_first: set[int] = set()

    def first(self, run: Run, endpoint: Endpoint) -> None:
        """Ask, once, for the answer that tells whether it is language, and how fast it comes."""
        if run.pk in self._had_first:
            return
        self._had_first.add(run.pk)
        self._ask(run, endpoint, "first", QUESTION, FIRST_TOKENS, FIRST_LIMIT)

    def repeat(self, run: Run, endpoint: Endpoint) -> None:
        """The same question another time, when everything is compiled."""
        self._ask(run, endpoint, "again", QUESTION, FIRST_TOKENS, FIRST_LIMIT)

    def token(self, run: Run, endpoint: Endpoint) -> None:
        """Ask for one token, as a sign of life."""
        self._ask(run, endpoint, "token", PING, 1, ONE_TOKEN_LIMIT)

    def _ask(
        self, run: Run, endpoint: Endpoint, kind: Kind, text: str, most: int, limit: float
    ) -> None:
        if self._questions.is_open(run.pk):
            return
        name, asked_at = run.served_name, timezone.now()
        self._company.discard(run.pk)

        def question() -> ProbeResult:
            answer = questions.ask(endpoint, name, text, most=most, limit=limit)
            return ProbeResult(run=run, kind=kind, answer=answer, asked_at=asked_at)

        self._questions.ask(run.pk, question)

    def answers(self) -> Iterator[ProbeResult]:
        """What has arrived."""
        for run_id, said in self._questions.answers(until=time.monotonic()):
            self._ended[run_id] = time.monotonic()
            alone = run_id not in self._company
            yield replace(said, alone=alone)

    def others(self, run: Run, requests: int | None, engine: Engine) -> int | None:
        """How many of its requests are not ours; None where it does not count them."""
        if requests is None:
            return None
        ours = int(self._is_probe(run, engine)) + in_flight.count(run.pk, engine.settles)
        others = max(0, requests - ours)
        if others and self._questions.is_open(run.pk):
            self._company.add(run.pk)
        return others

    def is_ours(self, run: Run, engine: Engine) -> bool:
        """Whether its figures may tell of a question of ours, which is open or just answered."""
        return self._is_probe(run, engine) or in_flight.count(run.pk, engine.settles) > 0

    def _is_probe(self, run: Run, engine: Engine) -> bool:
        if self._questions.is_open(run.pk):
            return True
        ended = self._ended.get(run.pk)
        return ended is not None and time.monotonic() - ended < engine.settles


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
            pulse=said.pulse(engine) if other.can_chat(run.version.launch) else (),
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
            last_request=run.health.last_request_at,
            now=timezone.now(),
        )

    def forget(self, active: set[int]) -> None:
        for run_id in self._records.keys() - active:
            del self._records[run_id]

    def _record(self, run: Run) -> HealthRecord:
        if (
            run.pk not in self._records
            and run.health.unhealthy_since
            and run.version.launch.ask_every
        ):
            # Another watcher has found that out, perhaps by asking: ask at once.
            return HealthRecord(
                failed_asks=1, failing_since=run.health.unhealthy_since, asked_at=run.ready_at
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
