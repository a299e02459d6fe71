"""Brings every run of this box on: reconciles, pulls, follows logs, asks engines."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from django.db import close_old_connections
from django.db.models import Q
from django.utils import timezone

from servers import lifecycle, live
from servers.engines import ENGINES
from servers.engines.engine import Engine
from servers.host import probes
from servers.host.containers import ContainerError, Progress
from servers.host.probes import Endpoint
from servers.judge.holders import memory_by_container
from servers.lifecycle import creation, diagnoses, secrets
from servers.models import Box, Run
from servers.models.run import ENDED, State, Wanted
from servers.watcher import logs, logsearch
from servers.watcher.starts import Starts

log = logging.getLogger(__name__)

PROGRESS_EVERY = 0.5  # seconds between two words on a pull
LONGEST_VERSION = 60  # characters that the database keeps
MOST_REQUESTS = 1_000_000  # what an engine claims beyond that is no count
ASK_EVERY = 2.0  # seconds between two questions to a ready engine


class Runs:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._pulls: dict[int, threading.Thread] = {}
        self._asked: dict[int, float] = {}
        self._generated: dict[int, tuple[float, float]] = {}
        self._starts = Starts()

    def mine(self) -> list[Run]:
        return list(
            Run.objects.active()
            .filter(server__box=self.box)
            .select_related("server__box__hf_token", "version")
        )

    def reconcile(self) -> None:
        """Take up whatever a lost nudge, a restart or a missed event left undone."""
        for run in self.mine():
            if run.state == State.PULLING and run.wanted == Wanted.RUNNING:
                self._pull(run)
            else:
                lifecycle.advance(run)
        self.follow_logs()
        self._starts.close(self.box)
        lifecycle.clear(self.box)

    def follow_logs(self) -> None:
        """See to it that every log that Docker still has is being read."""
        unread = Run.objects.filter(
            Q(server__box=self.box) & ~Q(container_id="") & Q(log_complete=False)
        ).select_related("server__box__hf_token", "version")
        for run in unread:
            logs.follow(run.pk, run.container_id, masks=secrets.secret_values(run))

    def forget_secrets(self) -> None:
        """What containers were given, once nothing that they printed is left to be masked."""
        is_read = Q(log_complete=True) | Q(container_id="")
        over = Run.objects.filter(is_read, server__box=self.box, state__in=ENDED)
        over.exclude(given=None).update(given=None)

    def measure(self, sample: Mapping[str, Any]) -> None:
        """Remember the most memory that each run was seen to hold, and whether its GPUs spin."""
        held = memory_by_container(sample)
        for run in self.mine():
            size = held.get(run.container_id, 0)
            if size > (run.peak_memory or 0):
                Run.objects.filter(pk=run.pk).update(peak_memory=size)
            self._starts.judge(run, sample)

    def _pull(self, run: Run) -> None:
        running = self._pulls.get(run.pk)
        if running is not None and running.is_alive():
            return
        thread = threading.Thread(target=pull, args=[run], name=f"pull-{run.pk}", daemon=True)
        self._pulls[run.pk] = thread
        thread.start()

    def tick(self) -> None:
        """Ask engines: every second while they start, every other when they serve."""
        now = time.monotonic()
        lifecycle.start_due(self.box)
        diagnoses.look(self.box)
        for run in self.mine():
            # Before it may become ready: what is known of its log by then counts.
            logsearch.search(run)
            self._starts.look(run)
            if run.state == State.STARTING and run.wanted == Wanted.RUNNING:
                self._ask_starting(run)
                lifecycle.check_limit(run)
            elif run.state == State.READY and now - self._asked.get(run.pk, 0) >= ASK_EVERY:
                self._asked[run.pk] = now
                self._ask_ready(run)
            if run.wanted != Wanted.RUNNING:
                lifecycle.advance(run)

    def _ask_starting(self, run: Run) -> None:
        endpoint = run.endpoint
        if endpoint is None:
            return
        engine = ENGINES[run.version.launch.engine]
        if (
            probes.health(endpoint, run.version.launch.ready_path or engine.health_path)
            is not probes.Health.OK
        ):
            return
        names = probes.models(endpoint, engine.models_path)
        if names is None or run.served_name not in names:
            return
        version = probes.version(endpoint, engine.version_path, engine.version_key)
        printable = "".join(filter(str.isprintable, version or ""))
        lifecycle.reached_ready(run, engine_version=printable[:LONGEST_VERSION])

    def _ask_ready(self, run: Run) -> None:
        endpoint = run.endpoint
        if endpoint is None:
            return
        engine = ENGINES[run.version.launch.engine]
        wanted = (engine.running_metric, engine.waiting_metric, engine.generated_metric)
        found = probes.metrics(endpoint, wanted, engine.metrics_path)
        new: dict[str, Any] = {
            "requests_running": _requests(engine, endpoint, found),
            "tokens_per_second": self._rate(run.pk, found.get(engine.generated_metric)),
        }
        if new["requests_running"] or new["tokens_per_second"]:
            new["last_request_at"] = timezone.now()
        if (new["tokens_per_second"] or 0) > (run.peak_tokens_per_second or 0):
            new["peak_tokens_per_second"] = new["tokens_per_second"]
        if any(getattr(run, name) != value for name, value in new.items()):
            Run.objects.filter(pk=run.pk, state=State.READY).update(**new)
            live.server_changed(run.server_id)

    def _rate(self, pk: int, generated: float | None) -> float | None:
        """Tokens a second since the last question; None when the engine does not count."""
        now = time.monotonic()
        before = self._generated.get(pk)
        if generated is None:
            return None
        self._generated[pk] = (now, generated)
        if before is None or generated < before[1]:
            return None
        return round((generated - before[1]) / (now - before[0]), 1)


def _requests(engine: Engine, endpoint: Endpoint, metrics: dict[str, float]) -> int | None:
    """Requests that run or wait; None when the engine does not say."""
    if engine.running_metric in metrics:
        count = metrics[engine.running_metric] + metrics.get(engine.waiting_metric, 0)
        return int(min(max(count, 0), MOST_REQUESTS))
    return probes.busy_slots(endpoint, engine.slots_path) if engine.slots_path else None


def pull(run: Run) -> None:
    """Pull the run's image, telling how far it is, until it is there or no longer wanted."""
    last_told = 0.0

    def tell(progress: Progress) -> bool:
        nonlocal last_told
        now = time.monotonic()
        if now - last_told < PROGRESS_EVERY:
            return True
        last_told = now
        wanted = Run.objects.filter(pk=run.pk, state=State.PULLING, wanted=Wanted.RUNNING)
        told = wanted.update(pulled=progress.done, pull_total=progress.total)
        live.server_changed(run.server_id)
        return told == 1

    try:
        creation.docker().pull(run.image_to_pull, tell)
        lifecycle.finish_pull(run)
    except ContainerError as error:
        lifecycle.pull_failed(run, error)
    finally:
        close_old_connections()
