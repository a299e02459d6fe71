"""Sleep and wake-up of idle engines, each in a thread of its own.

Only what a request has started, and whose profile says so. Rows say where each is, so that another
watcher goes on: it asks the engine itself.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from servers import events
from servers.events import wait
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, EngineError
from servers.judge.memory.holders import memory_by_container
from servers.judge.runs.health import compute_wake_shortfall
from servers.launch.engines import ENGINES
from servers.lifecycle.gateway import scale_to_zero
from servers.lifecycle.runs import secret_env
from servers.models import Box, Run
from servers.models.runs.run import DesiredState, ManagedRun, RunState, Sleep
from servers.state import box_samples
from servers.watcher.runs.probes import Questions

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
    def __init__(self, box: Box) -> None:
        self.box = box
        self._questions: Questions[Outcome] = Questions("sleep")
        self._looked: dict[int, float] = {}

    def step(self) -> None:
        for run in scale_to_zero.idle_on(self.box):
            if (
                run.sleeps
                or not scale_to_zero.may_sleep(run)
                or (endpoint := secret_env.find_endpoint(run)) is None
            ):
                continue
            if _move(run, old=Sleep.AWAKE, new=Sleep.FALLING):
                self._questions.ask(run.pk, partial(_in_thread, _fall, run, endpoint))
        ready = Run.objects.filter_managed().filter(
            server__box=self.box, state=RunState.READY, wanted=DesiredState.RUNNING
        )
        other = ready.exclude(sleep=Sleep.AWAKE).select_related(
            "server__box", "version", "plan", "health"
        )
        for run in other.fetch_any():
            if not self._questions.is_open(run.pk) and (endpoint := secret_env.find_endpoint(run)):
                self._go_on(run, endpoint)
        for run_id, outcome in self._questions.answers(until=time.monotonic()):
            _keep(run_id, outcome)

    def _go_on(self, run: ManagedRun, endpoint: Endpoint) -> None:
        if run.sleep == Sleep.ASLEEP and run.wake_wanted_at is not None:
            if timezone.now() - run.wake_wanted_at > scale_to_zero.WAITS:
                Run.objects.filter(pk=run.pk).update(wake_wanted_at=None)
            elif compute_wake_shortfall(
                run.health.sleep_info, box_samples.newest(self.box.slug), run.gpus or "all"
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
    held = _sum_held(run, box_samples.newest(run.server.box.slug))
    try:
        probes.sleep(endpoint, level)
    except EngineError as error:
        is_asleep = probes.is_sleeping(endpoint)
        return Outcome(sleep=Sleep.ASLEEP if is_asleep else Sleep.AWAKE, trouble=str(error))
    now_held = _sum_held(run, _sample_since(run, time.time()))
    return Outcome(
        sleep=Sleep.ASLEEP,
        said={"level": level, "before": held, "after": now_held},
    )


def _is_busy(run: Run) -> bool:
    """Whether it says so itself, of requests that came past inferdash."""
    endpoint, engine = secret_env.find_endpoint(run), ENGINES[run.version.launch.engine]
    names = (engine.running_metric, engine.waiting_metric)
    told = probes.metrics(endpoint, names, engine.metrics_path) if endpoint else {}
    return any(told.values())


def _wake(run: ManagedRun, endpoint: Endpoint) -> Outcome:
    began = time.monotonic()
    try:
        probes.wake_engine(endpoint, int(run.health.sleep_info.get("level", 1)))
    except EngineError as error:
        why = f"{error}".rstrip(".") + "."
        says = (
            f"{run.server} sleeps and could not be woken. {why} Restart it on its page: that "
            "loads it anew. Its log says more."
        )
        if probes.is_sleeping(endpoint) is False:
            says = f"{run.server} woke up with an error. {why} Its log says more."
        return Outcome(sleep=Sleep.ASLEEP, trouble=says)
    took = round(time.monotonic() - began, 2)
    return Outcome(sleep=Sleep.AWAKE, said={"woke_in": took})


def _look(run: Run, endpoint: Endpoint) -> Outcome:
    """As the engine itself says it. Of one that says nothing what is known stays."""
    said = probes.is_sleeping(endpoint)
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
        lambda: box_samples.newest(box.slug),
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
        scale_to_zero.stop_as_idle(run, because=outcome.trouble)
