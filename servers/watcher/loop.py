"""The watcher's threads: each waits for one thing and wakes the others' work."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import redis
from django.conf import settings
from django.db import close_old_connections
from django.db.utils import InterfaceError, OperationalError

from servers import events, lifecycle
from servers.host.collector.parent import Collector
from servers.host.docker.containers import ContainerError, Event
from servers.lifecycle import alerts
from servers.lifecycle.benchmarks import trials
from servers.lifecycle.canary import automatic
from servers.lifecycle.images import work
from servers.lifecycle.jobs.actions import KINDS
from servers.lifecycle.jobs.runner import JobRunner
from servers.lifecycle.runs import creation, old_wishes, out_of_band
from servers.models import Benchmark, Box, Canary, CapturedCall, Job, Request, Run
from servers.models.jobs import ACTIONS, OF_IMAGES
from servers.models.runs.run import PARTS, is_managed
from servers.watcher import box_row, weights
from servers.watcher.alerts import AlertMonitor, NotificationSender
from servers.watcher.error_isolation import LOOP_WORDS, LoopFaults, thread_name
from servers.watcher.external.engines import ExternalEngines
from servers.watcher.images import ImageInspector, ImageInventories
from servers.watcher.logs import follower, writer
from servers.watcher.memory.monitor import (
    HardwareMonitor,
    HistoryRecorder,
    LoadMonitor,
    MemoryMonitor,
    OrphanMonitor,
    ReleaseMonitor,
)
from servers.watcher.memory.oom import OomMonitor
from servers.watcher.pace import BoxPace
from servers.watcher.runs.runs import Runs
from servers.watcher.weights import ModelScan

log = logging.getLogger(__name__)

# Seconds from the beginning of a round to that of the next: ten are promised.
RECONCILE_EVERY = 8.0
TICK = 1.0
STARTS_AT_MOST = 0.5
RETRY = 2.0
DOCKER_IS_NEW = 60.0  # seconds after it was last away
TIDY_EVERY = 3600.0
LOGS_EVERY = 60.0
IMAGES_EVERY = 10.0
CHECKPOINTS_EVERY = 60.0
LEFT_BEHIND_EVERY = 15.0
AROUND_EVERY = 8.0
AROUND_AT_MOST = 1.0
ALERTS_EVERY = 2.0
OTHERS_EVERY = 10.0
LAST_WORDS = 5.0  # for messages that are on their way when the watcher ends
MODELS_EVERY = 60.0
IMAGE_INVENTORY_EVERY = 5.0
REGISTRIES_EVERY = 5.0


class Watcher:
    def __init__(self) -> None:
        self.box: Box = box_row.enrol()
        self.seen_before = self.box.seen_at
        self.boot_is_noted = threading.Event()
        self.runs = Runs(self.box)
        self.oom_killed = OomMonitor(self.box)
        self.images = ImageInspector(self.box)
        self.memory = MemoryMonitor(self.box)
        self.hardware = HardwareMonitor(self.box)
        self.loading = LoadMonitor(self.box)
        self.history = HistoryRecorder(self.box)
        self.releases = ReleaseMonitor(self.box)
        self.left_behind = OrphanMonitor(self.box)
        self.alerts = AlertMonitor(self.box)
        self.sending = NotificationSender(self.box)
        self.model_scan = ModelScan(self.box)
        self.models_due_in = MODELS_EVERY  # seconds
        self.image_inventories = ImageInventories(self.box)
        self.asking_hub = weights.HubSizes()
        self.jobs = JobRunner(
            self.box,
            KINDS,
            read_sample=lambda: self.sample,
            tell=self.memory.tell,
            on_end=self._on_job_end,
        )
        self.has_acted = False  # since the last look at what was left behind
        self.stopping = threading.Event()
        self.pace = BoxPace(self.box, self.stopping)
        self.wake = threading.Event()  # something for reconcile() to do
        self.job_asked = threading.Event()  # perhaps something for the box itself
        self.to_tidy = threading.Event()  # perhaps something is no longer left behind
        self.around = threading.Event()  # perhaps something of others has begun or ended
        self.external = ExternalEngines(self.box, wake=self.around.set)
        self.to_send = threading.Event()  # perhaps somebody wants to see whether alerts arrive
        self.checkpoints_asked = threading.Event()  # perhaps a profile names another one
        self.models_requested = threading.Event()  # a scan of the disks may be wanted
        self.images_requested = threading.Event()  # something may have to be done with images
        self.facts_are_old = threading.Event()  # of the box's row: Docker or the GPUs came or went
        self.signed_at = float("-inf")
        self._events = {
            events.Topic.RUNS: (self.wake, self.around),
            events.Topic.JOBS: (self.job_asked,),
            events.Topic.ALERTS: (self.to_send,),
            events.Topic.CHECKPOINTS: (self.checkpoints_asked,),
            events.Topic.MODELS: (self.models_requested,),
            events.Topic.IMAGES: (self.images_requested,),
            events.Topic.FACTS: (self.facts_are_old, self.wake),
        }
        self.collector = Collector(root=settings.KERNEL_ROOT)
        self.sample: dict[str, Any] | None = None
        self.judged: dict[str, Any] | None = None  # the same with what is thought of it
        self.docker_is_away = False
        self.docker_was_away_at = float("-inf")
        self.faults = LoopFaults()
        self.is_broken = False

    @property
    def loops(self) -> tuple[Callable[[], None], ...]:
        """Each runs in a thread of its own, by whose name LOOP_WORDS tells of it."""
        return tuple(getattr(self, f"_{name}") for name in LOOP_WORDS)

    def run(self) -> bool:
        """Watch until stop() is called; False when a loop broke by a fault of ours."""
        threads = [
            threading.Thread(
                target=self._unless_broken, args=[loop], name=thread_name(loop), daemon=True
            )
            for loop in self.loops
        ]
        for thread in threads:
            thread.start()
        self.stopping.wait()
        self.collector.stop()
        self.jobs.stop()
        self._run_safely(self.history.write)
        self._run_safely(self.runs.write)
        self.sending.finish(LAST_WORDS)
        follower.stop_all()
        return not self.is_broken

    def _unless_broken(self, loop: Callable[[], None]) -> None:
        # A watcher with one dead loop would look alive and tell half the truth: the whole
        # process ends, and its supervisor starts it again.
        try:
            loop()
        except BaseException:  # whatever it is: nothing else would tell of the end of a thread
            log.exception("The watcher ends, because one of its loops broke")
            self.is_broken = True
            self.stop()

    def stop(self) -> None:
        self.stopping.set()
        self.pace.stir()
        writer.grew.set()
        self._wake_for(set(events.Topic))
        self.to_tidy.set()

    def _wake_for(self, topics: Collection[events.Topic]) -> None:
        for topic in topics:
            for event in self._events[topic]:
                event.set()
        if events.Topic.RUNS in topics:
            self.pace.stir()

    def _run_reconciler(self) -> None:
        tidied_at = logs_at = 0.0
        while not self.stopping.is_set():
            began = time.monotonic()
            self.wake.clear()
            is_there = self._run_safely(self._look_after_box)
            if self.facts_are_old.is_set() or began - self.signed_at > RECONCILE_EVERY - TICK:
                self.signed_at = began
                self.facts_are_old.clear()
                self._run_safely(self._give_sign_of_life)
            if time.monotonic() - tidied_at > TIDY_EVERY:
                tidied_at = time.monotonic()
                self._tidy()
            if time.monotonic() - logs_at > LOGS_EVERY:
                logs_at = time.monotonic()
                self._run_safely(partial(writer.tidy_logs, self.box))
            # The database says nothing when it is back.
            every = RECONCILE_EVERY if is_there else RETRY
            self.wake.wait(max(TICK, began + every - time.monotonic()))

    def _tidy(self) -> None:
        self._run_safely(self.runs.forget_secrets)
        self._run_safely(self.oom_killed.forget)
        if settings.WIRE != "box":  # of all boxes, which the hub does
            self._run_safely(alerts.forget_old)
            self._run_safely(work.forget_old)
            self._run_safely(Request.objects.forget_old)
            self._run_safely(CapturedCall.objects.forget_old)
            self._run_safely(Benchmark.objects.forget_old)
            self._run_safely(Canary.objects.forget_old)
        try:
            for name in creation.docker().drop_orphaned_kernels():
                log.info("Removed %s: its image is no longer on this box", name)
        except ContainerError as error:
            log.warning("Compiled kernels of removed images stay for now: %s", error)

    def _look_after_box(self) -> None:
        if settings.WIRE == "box" and (since := self.box.away_since) is not None:
            old_wishes.put_back(self.box, away_since=since)
        try:
            box_row.note_boot(self.box, seen_before=self.seen_before)
        except ContainerError as error:
            # What runs is not known yet, and nothing may pass for a failure meanwhile.
            log.warning("Docker is not there yet: %s", error)
        else:
            self.boot_is_noted.set()
            self.pace.look(is_busy=self.jobs.is_busy)
            self.runs.reconcile()
            # One that was killed ends what it finds when it is started again.
            if time.monotonic() - self.docker_was_away_at < DOCKER_IS_NEW:
                out_of_band.note_end_of_docker(self.box)
        if self.sample is not None:
            self.runs.measure(self.sample)

    def _give_sign_of_life(self) -> None:
        if box_row.sign_of_life(self.box, self.judged or self.sample, self.faults.problems()):
            self.to_send.set()  # alerts go by them

    def _run_prober(self) -> None:
        due = time.monotonic()
        while not self.pace.wait(max(0.0, due - time.monotonic())):
            # A round hears answers until the next one is due.
            due = time.monotonic() + TICK
            if self.boot_is_noted.is_set():
                self._run_safely(partial(self.runs.tick, within=TICK))

    def _run_start_reader(self) -> None:
        """Apart from the questions: a page shows the log beside the progress that is read in it."""
        self.boot_is_noted.wait()
        while not self.stopping.is_set():
            writer.grew.clear()
            self._run_safely(self.runs.read_starts)
            self.stopping.wait(STARTS_AT_MOST)
            writer.grew.wait(RECONCILE_EVERY)

    def _run_load_guard(self) -> None:
        """Apart from everything else: it must not wait for anything while memory runs out."""
        last: float | None = None
        while not self.pace.wait(TICK):
            sample = self.sample
            if sample is not None and sample["t"] != last:
                last = sample["t"]
                self._run_safely(partial(self.loading.step, sample))

    def _run_oom_reader(self) -> None:
        """Apart from everything else: Docker is asked for a new container's first process."""
        while not self.pace.wait(TICK):
            if self.boot_is_noted.is_set():
                self._run_safely(lambda: self.oom_killed.look(self.sample), may_take=float("inf"))

    def _run_image_inspection(self) -> None:
        """Apart from everything else: an image takes minutes to answer."""
        while not self.stopping.wait(IMAGES_EVERY):
            self._run_safely(self._look_at_images, may_take=float("inf"))

    def _look_at_images(self) -> None:
        self.images.look(sample=self.sample, go_on=lambda: not self.stopping.is_set())

    def _run_jobs(self) -> None:
        while not self.stopping.is_set():
            self.job_asked.clear()
            self._run_safely(self._step_jobs, may_take=float("inf"))
            self.job_asked.wait(TICK if self.jobs.is_busy else RECONCILE_EVERY)

    def _step_jobs(self) -> None:
        if self.boot_is_noted.is_set():
            automatic.ask_after_changes(self.box)
            automatic.ask_at_night(self.box)
            trials.advance_all(self.box)
        self.jobs.step(skip=() if self.boot_is_noted.is_set() else ACTIONS)

    def _on_job_end(self, job: Job) -> None:
        self.job_asked.set()
        if job.kind in OF_IMAGES:
            self.image_inventories.look_again()
            self.images_requested.set()
        elif job.kind in ACTIONS:
            self.has_acted = True
            self.to_tidy.set()

    def _run_orphan_scan(self) -> None:
        self.boot_is_noted.wait()
        while not self.stopping.is_set():
            self.to_tidy.clear()
            self._run_safely(self._look_left_behind, may_take=float("inf"))
            self.to_tidy.wait(LEFT_BEHIND_EVERY)

    def _look_left_behind(self) -> None:
        has_acted, self.has_acted = self.has_acted, False
        self.left_behind.look(self.sample, at_all=has_acted)

    def _run_external_scan(self) -> None:
        """Apart from everything else: what others run may hang when it is asked."""
        self.boot_is_noted.wait()
        while not self.stopping.is_set():
            began = time.monotonic()
            self.around.clear()
            self._run_safely(lambda: self.external.look(self.sample))
            self._run_safely(self.runs.follow_logs)
            # Where containers come and go all the time, their events would keep it looking.
            self.stopping.wait(max(0.0, began + AROUND_AT_MOST - time.monotonic()))
            self.around.wait(AROUND_EVERY)

    def _run_external_events(self) -> None:
        """What is only watched is seen to end at once, too."""
        self.boot_is_noted.wait()
        while not self.stopping.is_set():
            try:
                events = creation.docker().happenings()
                self.external.listens_anew()
                self.around.set()
                for event in events:
                    self._run_safely(partial(self.external.note_event, event), but=ContainerError)
                    self.around.set()
            except ContainerError as error:
                log.warning("Docker's events of others: %s", error)
            self.external.listens_anew()
            self.around.set()
            self.stopping.wait(RETRY)

    def _run_checkpoint_scan(self) -> None:
        """Apart from everything else: they may lie on a share that hangs."""
        while not self.stopping.is_set():
            self.checkpoints_asked.clear()
            look = partial(weights.look_at_checkpoints, self.box, self.asking_hub)
            self._run_safely(look, may_take=float("inf"))
            self.checkpoints_asked.wait(CHECKPOINTS_EVERY)

    def _run_model_scan(self) -> None:
        """Apart from everything else: a disk may be asleep, a share may hang."""
        while not self.stopping.is_set():
            self.models_requested.clear()
            self._run_safely(self._scan_models, may_take=float("inf"))
            self.models_requested.wait(self.models_due_in)

    def _scan_models(self) -> None:
        self.models_due_in = MODELS_EVERY
        due_in = self.model_scan.look(go_on=lambda: not self.stopping.is_set())
        self.models_due_in = min(MODELS_EVERY, due_in or MODELS_EVERY)

    def _run_image_inventory(self) -> None:
        """Apart from everything else: adding up the sizes of images may take a minute."""
        while not self.stopping.is_set():
            self.images_requested.clear()
            self._run_safely(self.image_inventories.step, may_take=float("inf"))
            self.images_requested.wait(IMAGE_INVENTORY_EVERY)

    def _run_registry_checks(self) -> None:
        """Apart from everything else: a registry may not answer for minutes."""
        while not self.stopping.wait(REGISTRIES_EVERY):
            ask = partial(
                self.image_inventories.ask_registries, go_on=lambda: not self.stopping.is_set()
            )
            self._run_safely(ask, may_take=float("inf"))

    def _run_alerts(self) -> None:
        looked_at = float("-inf")
        while not self.stopping.is_set():
            self.to_send.clear()
            self._run_safely(lambda: self.alerts.step(self.judged))
            if time.monotonic() - looked_at >= OTHERS_EVERY:
                looked_at = time.monotonic()
                self._run_safely(self.alerts.look_at_others)
            self._run_safely(self.sending.step)
            self.to_send.wait(self.pace.stretch(ALERTS_EVERY))

    def _run_sampler(self) -> None:
        self.collector.start()
        while not self.stopping.is_set():
            sample = self.collector.next_sample(timeout=TICK * 5)
            if sample is None:
                continue
            before = self.sample
            self.sample = self.external.belonging.label_processes(sample)
            self._run_safely(self._tell_sample)
            self._run_safely(lambda: self.releases.see(self.memory.snapshot))
            # The box's row says whether there are GPUs: not seconds after the cards themselves.
            if before is None or _trouble(before) != _trouble(sample):
                self._wake_for({events.Topic.FACTS})

    def _tell_sample(self) -> None:
        if self.sample is not None:
            judged = self.hardware.judge(self.memory.judge(self.sample))
            self.judged = judged
            if (points := self.pace.take_points(judged)) is not None:
                events.publish_sample(self.box.slug, self.box.pk, judged, points)
            self.history.see(judged)

    def _run_docker_events(self) -> None:
        """A container that dies is seen at once, not at the next round."""
        while not self.stopping.is_set():
            try:
                stream = creation.docker().events()
                if self.docker_is_away:
                    log.info("Docker Engine answers on this box again.")
                    self.docker_is_away = False
                for event in stream:
                    self._run_safely(partial(self._on_event, event), but=ContainerError)
            except ContainerError as error:
                log.warning("Docker's events: %s", error)
                self.docker_is_away = True
                self.docker_was_away_at = time.monotonic()
                self._run_safely(lambda: out_of_band.note_end_of_docker(self.box))
            # Whatever happened while nobody listened is found by looking.
            self._wake_for({events.Topic.FACTS})
            self.stopping.wait(RETRY)

    def _on_event(self, event: Event) -> None:
        if event.run is None or not self.boot_is_noted.is_set():
            return
        self.pace.stir()
        run = (
            Run.objects.select_related("server__box__hf_token", "version", *PARTS)
            .filter(pk=event.run, server__box=self.box)
            .first()
        )
        if run is None:
            return
        if event.action == "oom":
            self.oom_killed.note_kill(run.pk)
        if is_managed(run):
            lifecycle.observe(run)
        self.runs.follow_logs()
        if event.action == "start" and not run.is_active:
            self.wake.set()  # not by us

    def _run_wakes(self) -> None:
        while not self.stopping.is_set():
            try:
                with redis.Redis.from_url(settings.REDIS_URL) as client, client.pubsub() as pubsub:
                    pubsub.subscribe(events.wake_channel(self.box.slug))
                    # What was asked for before was told to nobody here.
                    self._wake_for(set(events.Topic))
                    while not self.stopping.is_set():
                        message = pubsub.get_message(ignore_subscribe_messages=True, timeout=RETRY)
                        if message:
                            self._wake_for(events.topics_of(message["data"]))
            except redis.RedisError as error:
                log.warning("Redis is away: %s", error)
                self.stopping.wait(RETRY)

    def _run_safely(
        self,
        work: Callable[[], None],
        *,
        may_take: float = RECONCILE_EVERY,
        but: type[Exception] | tuple[()] = (),
    ) -> bool:
        """Do a round of work; False where the database is away. That ends the round, not the
        watcher, and neither does a fault of ours, unless it lasts."""
        started, is_there = time.monotonic(), True
        try:
            work()
        except (OperationalError, InterfaceError) as error:
            is_there = False
            log.warning("The database is away: %s", error)
            close_old_connections()
        except but:
            raise
        except Exception as error:
            if self.faults.broke(work, error):
                log.exception("A round of %s broke", threading.current_thread().name)
            if self.faults.is_too_long(work):
                raise
        else:
            self.faults.went_well(work)
        took = time.monotonic() - started
        if took > may_take:
            log.warning("A round took %.1f s", took)
        return is_there


def _trouble(sample: dict[str, Any]) -> object:
    """Why there is no GPU; of a collector that hangs the words are others each second."""
    return "silent" if sample.get("stale_s") is not None else sample.get("error")
