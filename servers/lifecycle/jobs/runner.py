"""The runner of a box's jobs: a thread for each, of the watcher's.

What takes an hour must hold nothing else up. A row that says it is being done while no thread of
this process does it was cut off with the one before.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import close_old_connections, connection, transaction
from django.db.utils import InterfaceError, OperationalError
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.lifecycle.jobs import commands
from servers.models import AuditEntry, Box, Job
from servers.models.jobs import AT_WORK, OPEN, DesiredJobState, JobKind, JobState

log = logging.getLogger(__name__)

TELL_EVERY = 0.5  # seconds
_LATE = (
    "It was requested more than a minute ago, while no watcher ran on the box, and much may "
    "have changed since. Nothing was done; try again."
)


class HeldError(Exception):
    """Something speaks against it that a person may overrule; the text says what."""


class JobError(Exception):
    """It cannot be done; the text says why. `command` is for whoever has a shell there."""

    def __init__(self, said: str, command: str = "", advice: str = "") -> None:
        super().__init__(said)
        self.command = command
        self.advice = advice


class GivenUpError(Exception):
    """It has ended before its end, as somebody wanted; the text says what came of it, if any."""


class JobWork[J: Job]:
    """A job while its thread does it: how far it is, and whether it is still wanted."""

    def __init__(self, job: J, runner: "JobRunner") -> None:
        self.job = job
        self.box: Box = runner.box
        self.runner = runner
        self.audit: dict[str, Any] = {}  # what the audit log has of its end instead of what it says
        self._close: Callable[[], None] | None = None
        self._given_up = threading.Event()
        self._noted: dict[str, Any] = {}

    @property
    def is_given_up(self) -> bool:
        return self._given_up.is_set()

    def follow(self, close: Callable[[], None]) -> None:
        """What give_up() calls: Docker does its part only while somebody reads."""
        self._close = close
        if self.is_given_up:  # a moment before
            close()

    def wait(self, seconds: float) -> None:
        """Return sooner where it is given up."""
        self._given_up.wait(seconds)

    def give_up(self) -> None:
        self._given_up.set()
        if self._close is not None:
            with suppress(OSError):
                self._close()

    @contextmanager
    def report_progress(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call `tell` twice a second meanwhile, however silent Docker is, and once at the end."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._tell, args=[tell, is_over], daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            tell()

    def _tell(self, tell: Callable[[], None], is_over: threading.Event) -> None:
        try:
            while not is_over.wait(TELL_EVERY):
                try:
                    tell()
                except (OperationalError, InterfaceError) as error:
                    log.warning("The database is away: %s", error)
        finally:
            connection.close()

    def note(self, **values: Any) -> None:
        """Write down what is new, and hear whether it is still wanted."""
        new = {name: value for name, value in values.items() if self._noted.get(name) != value}
        self._noted |= new
        if new:
            self.job.write(**new)
            commands.publish(self.job)
        self.check()

    def check(self) -> None:
        """The wish to end it may have come while Redis was away, and nobody was woken."""
        found = Job.objects.filter(pk=self.job.pk).values_list("wanted", "params").first()
        wanted, self.job.params = found or (DesiredJobState.CANCELLED, self.job.params)
        if wanted != DesiredJobState.GO and not self.is_given_up:
            self.give_up()


@dataclass(frozen=True, kw_only=True)
class JobRules:
    """How the jobs of a kind are done."""

    model: type[Job]
    do: Callable[[JobWork[Any]], str]  # what came of it, in a sentence
    lane: str
    at_once: int | None = None  # in its lane
    good_for: timedelta | None = None  # nobody does it any more when it has waited for longer
    state: JobState = JobState.DOING
    bad_end: JobState = JobState.FAILED
    cut: Callable[[], str] | None = None  # of one that was cut off; None: it is gone on with
    stays: Callable[[JobWork[Any]], str] = lambda _work: ""  # of one that was given up
    broken: str = "inferdash itself failed here; its log says how. Try again."
    changes: tuple[events.Kind, ...] = ()  # by its end, beside itself
    wakes: tuple[events.Topic, ...] = ()


class JobRunner:
    def __init__(
        self,
        box: Box,
        rules: Mapping[JobKind, JobRules],
        *,
        read_sample: Callable[[], Mapping[str, Any] | None] = lambda: None,
        tell: Callable[[Mapping[str, Any]], None] = lambda _event: None,
        on_end: Callable[[Job], None] = lambda _job: None,
    ) -> None:
        """`tell` gets what the judge of the box's memory has to know."""
        self.box = box
        self.read_sample = read_sample
        self.tell = tell
        self._rules = rules
        self._on_end = on_end
        self._going: dict[int, tuple[JobWork[Any], threading.Thread]] = {}
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def is_busy(self) -> bool:
        return bool(self._going)

    def step(self, skip: Collection[JobKind] = ()) -> None:
        """Begin what was asked for, and end what is not wanted any more."""
        with self._lock:
            if self._is_over:
                return
            going = dict(self._going)  # as it was before the rows were read
            mine = Job.objects.open().filter(box=self.box).exclude(kind__in=skip).order_by("pk")
            rows = {row.pk: row for row in mine.only("box", "kind", "state", "wanted")}
            for pk, (work, _thread) in going.items():
                if pk not in rows or rows[pk].wanted != DesiredJobState.GO:
                    work.give_up()
            for pk, row in rows.items():
                if pk not in going:
                    self._look_after(row, self._rules[JobKind(row.kind)])

    def stop(self) -> None:
        """End what the next runner goes on with; the rest ends with its process."""
        with self._lock:
            self._is_over = True
            for work, thread in list(self._going.values()):
                if self._rules[JobKind(work.job.kind)].cut is None:
                    work.give_up()
                    thread.join()

    def wait(self) -> None:
        """Until nothing is being done any more."""
        for _work, thread in list(self._going.values()):
            thread.join()

    def _look_after(self, row: Job, rules: JobRules) -> None:
        is_cut = row.state in AT_WORK and rules.cut is not None
        if is_cut or row.cancel_requested:
            self._begin(row, rules)
        elif row.wanted == DesiredJobState.PAUSED:
            if row.state != JobState.PAUSED:
                self._put_back(row, JobState.PAUSED)
        elif row.state != JobState.HELD:
            going = [work.job.kind for work, _thread in list(self._going.values())]
            lane = [kind for kind in going if self._rules[JobKind(kind)].lane == rules.lane]
            if rules.at_once is None or len(lane) < rules.at_once:
                self._begin(row, rules)
            elif row.state != JobState.ASKED:
                self._put_back(row, JobState.ASKED)

    def _put_back(self, row: Job, state: JobState) -> None:
        if row.move(state, rate=None):
            commands.publish(row)

    def _begin(self, row: Job, rules: JobRules) -> None:
        named = ("box__hf_token", "asked_by", "version__profile")
        job = rules.model.objects.select_related(*named).filter(pk=row.pk).first()
        if job is None or job.state != row.state:
            return
        work: JobWork[Any] = JobWork(job, self)
        do = self._do
        if job.cancel_requested:
            work.give_up()
        elif job.state in AT_WORK and rules.cut is not None:
            do = self._end_cut
        else:
            fresh: dict[str, Any] = {}
            if rules.cut is not None:
                fresh = {"done": 0, "total": None, "result": {}}
            fresh |= {"said": "", "rate": None, "begun_at": timezone.now()}
            if not job.move(rules.state, **fresh):
                return
            commands.publish(job)
        thread = threading.Thread(target=do, args=[work, rules], name=f"job-{job.pk}", daemon=True)
        self._going[job.pk] = work, thread
        thread.start()

    def _do(self, work: JobWork[Any], rules: JobRules) -> None:
        with self._in_thread(work):
            try:
                said = self._work_off(work, rules)
                self._end(work, rules, JobState.DONE, said)
            except GivenUpError as error:
                self._end_given_up(work, rules, str(error))
            except HeldError as held:
                if work.job.move(JobState.HELD, said=str(held)):
                    commands.publish(work.job)
            except (ContainerError, JobError) as error:
                more = {name: getattr(error, name, "") for name in ("command", "advice", "detail")}
                self._end(work, rules, rules.bad_end, str(error), **more)
            except Exception:
                # The thread's end must not leave a row behind that says for ever that it goes on.
                log.exception("%s broke", work.job)
                self._end(work, rules, rules.bad_end, rules.broken)

    def _work_off(self, work: JobWork[Any], rules: JobRules) -> str:
        if work.is_given_up:
            raise GivenUpError
        if rules.good_for and timezone.now() - work.job.asked_at > rules.good_for:
            raise JobError(_LATE)
        try:
            return rules.do(work)
        except (ContainerError, JobError) as error:
            if work.is_given_up:
                raise GivenUpError from error
            raise

    def _end_cut(self, work: JobWork[Any], rules: JobRules) -> None:
        with self._in_thread(work):
            assert rules.cut is not None
            self._end(work, rules, rules.bad_end, rules.cut(), was_cut=True)

    @contextmanager
    def _in_thread(self, work: JobWork[Any]) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            # step() finds a row that no thread is at, and ends it.
            log.warning("The database is away, and does not hear of %s: %s", work.job, error)
        finally:
            self._going.pop(work.job.pk)
            self._on_end(work.job)
            close_old_connections()

    def _end_given_up(self, work: JobWork[Any], rules: JobRules, said: str) -> None:
        job = work.job
        wanted = Job.objects.filter(pk=job.pk).values_list("wanted", flat=True).first()
        if self._is_over or wanted is None:
            return
        if wanted == DesiredJobState.CANCELLED:
            self._end(work, rules, JobState.CANCELLED, said or rules.stays(work))
        else:
            is_paused = wanted == DesiredJobState.PAUSED
            self._put_back(job, JobState.PAUSED if is_paused else JobState.ASKED)

    def _end(
        self, work: JobWork[Any], rules: JobRules, state: JobState, said: str, **more: Any
    ) -> None:
        job = work.job
        values = job.columns(state=state, said=said, ended_at=timezone.now(), rate=None, **more)
        details = work.audit or {"said": said[:500]}
        with transaction.atomic():
            if not Job.objects.filter(pk=job.pk, state__in=OPEN).update(**values):
                return
            AuditEntry.note(
                job.asked_by, f"{job.verb} {state}", job.subject, box=self.box.slug, **details
            )
        log.info("%s %s: %s", job, state, said)
        commands.publish(job)
        for change in rules.changes:
            events.publish_change(change)
        if rules.wakes:
            events.wake_watcher(self.box.slug, *rules.wakes)
