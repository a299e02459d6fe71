"""The box's runs: reconciled, followed, probed, put to sleep and woken up."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import close_old_connections
from django.db.models import Q
from django.utils import timezone

from servers import events, lifecycle
from servers.events import wait
from servers.host.runs import probes as host_probes
from servers.host.runs.probes import Endpoint, EngineError, HealthAnswer
from servers.host.runs.questions import CompletionResult
from servers.judge.memory.holders import memory_by_container
from servers.judge.runs import metrics
from servers.judge.runs.health import compute_wake_shortfall
from servers.judge.runs.metrics import EngineReading, compute_figures, is_speed
from servers.launch.engines import ENGINES, Engine, other
from servers.lifecycle import gateway
from servers.lifecycle.benchmarks import in_flight, start_checks
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.people import claims
from servers.lifecycle.runs import health, starts
from servers.models import Box, Run, RunHealth
from servers.models.runs.run import (
    ENDED,
    PARTS,
    DesiredState,
    ManagedRun,
    RunQuerySet,
    RunState,
    Sleep,
    is_managed,
)
from servers.state import samples
from servers.watcher.error_isolation import ErrorIsolation
from servers.watcher.logs import follower
from servers.watcher.runs import probes
from servers.watcher.runs.metrics import EngineFigures
from servers.watcher.runs.probes import (
    Liveness,
    ProbeResult,
    Questions,
    ReadinessProbe,
    StatusProbe,
    SyntheticProbes,
    asked_path,
)
from servers.watcher.runs.start_tracker import StartTracker

log = logging.getLogger(__name__)

# Seconds after which every web process knows that nothing is to be passed on to it any more.
KNOWN_WITHIN = 1.5
LOOK_EVERY = 10.0  # seconds between two looks whether somebody has woken it by hand
MEASURED_WITHIN = 15.0  # seconds for a sample that was taken since


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Where it is by now. `trouble`: why it is not where it was to be."""

    sleep: Sleep
    said: Mapping[str, Any] = field(default_factory=dict)  # new entries of RunHealth.sleep_info
    trouble: str = ""


class EngineSleeper:
    """Sleep and wake-up of idle engines, each in a thread of its own.

    Only what a request has started, and whose profile says so. Rows say where each is, so that another
    watcher goes on: it asks the engine itself.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self._questions: Questions[Outcome] = Questions("sleep")
        self._looked: dict[int, float] = {}

    def step(self) -> None:
        for run in gateway.idle_on(self.box):
            if (
                run.sleeps
                or not gateway.may_sleep(run)
                or (endpoint := starts.find_endpoint(run)) is None
            ):
                continue
            if _move(run, old=Sleep.AWAKE, new=Sleep.FALLING):
                self._questions.ask(run.pk, partial(_in_thread, _fall, run, endpoint))
        ready = Run.objects.filter_managed().filter(
            server__box=self.box, state=RunState.READY, wanted=DesiredState.RUNNING
        )
        on_its_way = ready.exclude(sleep=Sleep.AWAKE).select_related(
            "server__box", "version", "plan", "health"
        )
        for run in on_its_way.fetch_any():
            if not self._questions.is_open(run.pk) and (endpoint := starts.find_endpoint(run)):
                self._go_on(run, endpoint)
        for run_id, outcome in self._questions.answers(until=time.monotonic()):
            _keep(run_id, outcome)

    def _go_on(self, run: ManagedRun, endpoint: Endpoint) -> None:
        if run.sleep == Sleep.ASLEEP and run.wake_wanted_at is not None:
            if timezone.now() - run.wake_wanted_at > gateway.WAITS:
                Run.objects.filter(pk=run.pk).update(wake_wanted_at=None)
            elif compute_wake_shortfall(
                run.health.sleep_info, samples.newest(self.box.slug), run.gpus or "all"
            ):
                pass  # room is being made for it
            elif _move(run, old=Sleep.ASLEEP, new=Sleep.WAKING):
                self._questions.ask(run.pk, partial(_in_thread, _wake, run, endpoint))
            return
        now = time.monotonic()
        is_left = run.sleep != Sleep.ASLEEP  # by a watcher that has ended meanwhile
        if is_left or now - self._looked.get(run.pk, float("-inf")) > LOOK_EVERY:
            self._looked[run.pk] = now
            self._questions.ask(run.pk, partial(_in_thread, _look, run, endpoint))


def _in_thread(
    work: Callable[[ManagedRun, Endpoint], Outcome], run: ManagedRun, endpoint: Endpoint
) -> Outcome:
    try:
        return work(run, endpoint)
    finally:
        close_old_connections()


def _fall(run: ManagedRun, endpoint: Endpoint) -> Outcome:
    time.sleep(KNOWN_WITHIN)
    before = Run.objects.filter(pk=run.pk).first()
    if (
        before is None
        or before.wake_wanted_at
        or before.health.last_request_at != run.health.last_request_at
        or _is_busy(run)
    ):
        return Outcome(sleep=Sleep.AWAKE)
    level = run.version.launch.sleep_level
    held = _sum_held(run, samples.newest(run.server.box.slug))
    try:
        host_probes.sleep(endpoint, level)
    except EngineError as error:
        is_asleep = host_probes.is_sleeping(endpoint)
        return Outcome(sleep=Sleep.ASLEEP if is_asleep else Sleep.AWAKE, trouble=str(error))
    now_held = _sum_held(run, _sample_since(run, time.time()))
    return Outcome(
        sleep=Sleep.ASLEEP,
        said={"level": level, "before": held, "after": now_held},
    )


def _is_busy(run: Run) -> bool:
    """Whether it says so itself, of requests that came past inferdash."""
    endpoint, engine = starts.find_endpoint(run), ENGINES[run.version.launch.engine]
    names = (engine.running_metric, engine.waiting_metric)
    told = host_probes.metrics(endpoint, names, engine.metrics_path) if endpoint else {}
    return any(told.values())


def _wake(run: ManagedRun, endpoint: Endpoint) -> Outcome:
    began = time.monotonic()
    try:
        host_probes.wake_engine(endpoint, int(run.health.sleep_info.get("level", 1)))
    except EngineError as error:
        why = f"{error}".rstrip(".") + "."
        says = (
            f"{run.server} sleeps and could not be woken. {why} Restart it on its page: that "
            "loads it anew. Its log says more."
        )
        if host_probes.is_sleeping(endpoint) is False:
            says = f"{run.server} woke up with an error. {why} Its log says more."
        return Outcome(sleep=Sleep.ASLEEP, trouble=says)
    took = round(time.monotonic() - began, 2)
    return Outcome(sleep=Sleep.AWAKE, said={"woke_in": took})


def _look(run: Run, endpoint: Endpoint) -> Outcome:
    """As the engine itself says it. Of one that says nothing what is known stays."""
    said = host_probes.is_sleeping(endpoint)
    if said is None:
        return Outcome(sleep=Sleep.ASLEEP if run.sleep == Sleep.ASLEEP else Sleep.AWAKE)
    return Outcome(sleep=Sleep.ASLEEP if said else Sleep.AWAKE)


def _sum_held(run: Run, sample: Mapping[str, Any] | None) -> int | None:
    """Bytes on all its GPUs; None where that is not told."""
    if sample is None or sample.get("stale_s") is not None:
        return None
    return memory_by_container(sample).get(run.container_id)


def _sample_since(run: Run, moment: float) -> Mapping[str, Any] | None:
    """The first one that was taken a second after this; None when none comes."""
    box = run.server.box

    def is_new(sample: Mapping[str, Any] | None) -> bool:
        return sample is not None and sample["t"] > moment + 1

    sample = wait(
        lambda: samples.newest(box.slug),
        is_new,
        groups=[events.LIVE],
        seconds=MEASURED_WITHIN,
        is_about=lambda message: (message.get("kind"), message.get("id")) == ("box", box.pk),
    )
    return sample if is_new(sample) else None


def _move(run: Run, *, old: Sleep, new: Sleep) -> bool:
    mine = Run.objects.filter(
        pk=run.pk, state=RunState.READY, wanted=DesiredState.RUNNING, sleep=old
    )
    if not mine.update(sleep=new, sleep_moved_at=timezone.now()):
        return False
    events.publish_change("server", run.server_id)
    return True


def _keep(run_id: int, outcome: Outcome) -> None:
    runs = Run.objects.filter_managed().select_related("server__box", "version", "plan", "health")
    run = runs.filter(pk=run_id).first()
    if run is None:
        return
    was_waking, was = run.sleep == Sleep.WAKING, run.sleep
    said = {
        name: value
        for name, value in run.health.sleep_info.items()
        if not name.startswith("trouble")
    }
    sleep_info = said | dict(outcome.said)
    if was == outcome.sleep and not outcome.said and not outcome.trouble:
        return
    if outcome.trouble and was_waking:
        log.warning("%s", outcome.trouble)
        sleep_info |= {"trouble": outcome.trouble, "trouble_at": timezone.now().timestamp()}
    new: dict[str, Any] = {"sleep": outcome.sleep, "health__sleep_info": sleep_info}
    if was_waking or outcome.sleep == Sleep.AWAKE:
        new["wake_wanted_at"] = None
    if outcome.sleep == Sleep.AWAKE and was_waking:
        # Whoever has woken it has not been answered yet.
        new["health__last_request_at"] = timezone.now()
    if was != outcome.sleep:
        new["sleep_moved_at"] = timezone.now()
    Run.objects.filter(pk=run.pk, state=RunState.READY).write(**new)
    events.publish_change("server", run.server_id)
    if was == Sleep.FALLING and outcome.trouble and outcome.sleep == Sleep.AWAKE:
        log.warning("%s does not go to sleep, and is stopped: %s", run.server, outcome.trouble)
        gateway.stop_as_idle(run, because=outcome.trouble)


# So long after it became ready its first answer still tells of the start.
FIRST_ANSWER = timedelta(minutes=10)
ASK_EVERY = 2.0  # seconds between two questions to a ready engine
# Seconds for a round that waits for all answers: no engine's take longer.
LONGEST_ROUND = 30.0


class Runs:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._asked: dict[int, float] = {}
        self._generated: dict[int, EngineReading] = {}
        self._questions: Questions[tuple[Run, ReadinessProbe | StatusProbe]] = Questions("ask")
        self._asking = SyntheticProbes()
        self._slow_answers: dict[int, CompletionResult] = {}
        self._checked: set[int] = set()  # runs whose check-up after the start is over
        self._liveness = Liveness()
        self._figures = EngineFigures(box)
        self._starts = StartTracker()
        self._sleeping = EngineSleeper(box)

    def mine(self) -> RunQuerySet[Run]:
        active = Run.objects.active().filter(server__box=self.box)
        return active.select_related("server__box__hf_token", "version", *PARTS)

    def reconcile(self) -> None:
        """Take up whatever a lost nudge, a restart or a missed event left undone."""
        with ErrorIsolation() as apart:
            for run in self.mine().filter_managed().fetch_any():
                with apart.each(run):
                    lifecycle.advance(run)
            with apart.each("what nobody has taken up"):
                lifecycle.take_up(self.box)
            with apart.each("logs"):
                self.follow_logs()
            self._starts.close(self.box)
            lifecycle.clear(self.box)

    def follow_logs(self) -> None:
        """See to it that every log that Docker still has is being read."""
        unread = Run.objects.filter(
            Q(server__box=self.box) & ~Q(container_id="") & Q(log__is_complete=False)
        ).select_related("server__box__hf_token", "version", "plan")
        for run in unread.fetch_any():
            follower.follow(run.pk, run.container_id, masks=starts.secret_values(run))

    def read_starts(self) -> None:
        """Bring the progress of starts to where their logs are."""
        self._starts.read_on(self.box)

    def forget_secrets(self) -> None:
        """What containers were given, once nothing that they printed is left to be masked."""
        is_read = Q(log__is_complete=True) | Q(container_id="")
        over = Run.objects.filter(is_read, server__box=self.box, state__in=ENDED)
        over.exclude(plan__sealed_secrets=None).write(plan__sealed_secrets=None)

    def measure(self, sample: Mapping[str, Any]) -> None:
        """Remember the most memory that each run was seen to hold, and whether its GPUs spin."""
        held = memory_by_container(sample)
        with ErrorIsolation() as apart:
            for run in self.mine().fetch_any():
                with apart.each(run):
                    size = held.get(run.container_id, 0)
                    if size > (run.health.peak_memory or 0):
                        RunHealth.objects.filter(run=run.pk).update(peak_memory=size)
                    self._starts.judge(run, sample)

    def tick(self, *, within: float = LONGEST_ROUND) -> None:
        """Ask engines: every second while they start, every other when they serve.

        All are asked at once, and answers are heard as they come, for `within` seconds at most:
        what comes later is the next round's.
        """
        now = time.monotonic()
        lifecycle.start_due(self.box)
        claims.expire(self.box)
        gateway.stop_idle(self.box)
        self._sleeping.step()
        diagnoses.look(self.box)
        self._hear_answers()
        mine = self.mine().fetch_any()
        self._liveness.forget({run.pk for run in mine})
        self._checked &= {run.pk for run in mine}
        self._figures.look({run.pk for run in mine if run.state == RunState.READY})
        with ErrorIsolation() as apart:
            for run in mine:
                with apart.each(run):
                    self._bring_on(run, is_due=now - self._asked.get(run.pk, 0) >= ASK_EVERY)
            with apart.each("questions"):
                for _run_id, (run, said) in self._questions.answers(until=now + within):
                    with apart.each(run):
                        self._note_status(run, said)

    def _bring_on(self, run: Run, *, is_due: bool) -> None:
        # Before it may become ready: what is known of its log by then counts.
        follower.search_patterns(run)
        self._starts.look(run)
        is_wanted = run.wanted == DesiredState.RUNNING
        if run.state == RunState.STARTING and is_wanted:
            self._ask_starting(run)
        elif run.state == RunState.READY and is_due:
            self._ask_ready(run)
        if not is_managed(run):
            return
        if run.state == RunState.QUEUED and is_wanted and (run.waits or run.status_message):
            # What it waits for may be free by now; the others are taken up within seconds.
            lifecycle.advance(run)
        elif is_wanted:
            lifecycle.check_limit(run)
        if run.wanted != DesiredState.RUNNING:
            lifecycle.advance(run)

    def _note_status(self, run: Run, said: ReadinessProbe | StatusProbe) -> None:
        if isinstance(said, StatusProbe):
            self._heard_ready(run, said)
            return
        health.note_served_names(run, said.other_names)
        if said.is_ready:
            if run.is_watched and said.served_name != run.served_name:
                Run.objects.filter(pk=run.pk).update(served_name=said.served_name)
            lifecycle.reached_ready(run, engine_version=said.version)

    def write(self) -> None:
        """Bring to the database what the history has not stored yet."""
        self._figures.write()

    def _ask_starting(self, run: Run) -> None:
        if self._questions.is_open(run.pk) or (endpoint := starts.find_endpoint(run)) is None:
            return
        engine = ENGINES[run.version.launch.engine]
        path = run.version.launch.ready_path or engine.health_path
        if run.is_watched:
            path = asked_path(run)
        ask = partial(
            probes.probe_start,
            endpoint,
            engine,
            path=path,
            served_name=run.served_name,
            takes_any=run.is_watched,
        )
        self._questions.ask(run.pk, lambda: (run, ask()))

    def _ask_ready(self, run: Run) -> None:
        if self._questions.is_open(run.pk) or (endpoint := starts.find_endpoint(run)) is None:
            return
        self._asked[run.pk] = time.monotonic()
        engine = ENGINES[run.version.launch.engine]
        path = asked_path(run)
        spare = self._liveness.spares_health(run)
        self._questions.ask(
            run.pk,
            lambda: (run, probes.probe_status(endpoint, engine, path=path, spare_health=spare)),
        )

    def _heard_ready(self, run: Run, said: StatusProbe) -> None:
        engine = ENGINES[run.version.launch.engine]
        others = self._asking.others(run, said.requests(engine), engine)
        rate, shows_speed = self._rate(run.pk, said, engine)
        is_ours = self._asking.is_ours(run, engine)
        if rate is not None and not others and is_ours:
            rate = 0.0
        new: dict[str, Any] = {"requests_running": others, "tokens_per_second": rate}
        if new["requests_running"] or new["tokens_per_second"]:
            new["last_request_at"] = timezone.now()
        if shows_speed and (rate or 0) > (run.health.peak_tokens_per_second or 0):
            new["peak_tokens_per_second"] = rate
        has_changed = any(getattr(run.health, name) != value for name, value in new.items())
        if has_changed:
            RunHealth.objects.filter(run=run.pk, run__state=RunState.READY).update(**new)
        if self._figures.take_reading(run, said, others=others, is_ours=is_ours) or has_changed:
            events.publish_change("server", run.server_id)
        self._liveness.note_status(run, said)
        if others and in_flight.is_measured(run.pk):
            start_checks.give_way(run)
        if not others and said.health is HealthAnswer.OK and run.wanted == DesiredState.RUNNING:
            self._question(run)

    def _question(self, run: Run) -> None:
        """Ask an idle engine what its profile wants to have asked."""
        launch, endpoint = run.version.launch, starts.find_endpoint(run)
        if endpoint is None or run.ready_at is None or not other.can_chat(launch):
            return
        if run.sleeps or in_flight.is_measured(run.pk):
            return  # it would be woken or disturbed, or would not answer
        if run.is_watched:
            return  # its GPU works for its own callers alone
        is_new = timezone.now() - run.ready_at < FIRST_ANSWER
        if launch.ask_when_ready and is_new and not run.health.first_answer:
            self._asking.first(run, endpoint)
        elif self._liveness.wants_token(run):
            self._asking.token(run, endpoint)
        elif run.pk not in self._checked and start_checks.is_due(run) and start_checks.begin(run):
            self._checked.add(run.pk)

    def _hear_answers(self) -> None:
        for said in self._asking.answers():
            self._liveness.note_probe(said.run, said.answer, said.asked_at)
            if said.kind != "token":
                self._first_answer(said)

    def _first_answer(self, said: ProbeResult) -> None:
        run, answer = said.run, said.answer
        endpoint = starts.find_endpoint(run) if said.kind == "first" and said.alone else None
        if endpoint is not None and health.is_slow(run, answer):
            self._slow_answers[run.pk] = answer
            self._asking.repeat(run, endpoint)
            return
        slow = self._slow_answers.pop(run.pk, answer)
        # One that came all at once is no slow one.
        if answer.error or (slow.rate or 0) > (answer.rate or math.inf):
            answer = slow
        health.keep_first_answer(run, answer, alone=said.alone)

    def _rate(self, pk: int, said: StatusProbe, engine: Engine) -> tuple[float | None, bool]:
        """Tokens a second since the last answer, and whether that is how fast it was; None when the
        engine does not count."""
        book = metrics.by_engine().get(engine.key)
        if book is None or not said.figures:
            return None, False
        new = EngineReading(at=said.at, exposed=said.exposed)
        before = self._generated.get(pk)
        self._generated[pk] = new
        if before is None:
            return None, False
        rate = compute_figures(book, before, new).generation
        return (None if rate is None else round(rate, 1)), is_speed(book, before, new)
