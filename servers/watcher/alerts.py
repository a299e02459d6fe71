"""The alert monitor: rows and samples against open alerts, and their notifications."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db import close_old_connections
from django.db.models import Q
from django.db.utils import InterfaceError, OperationalError

from servers.judge.alerts import boxes, runs
from servers.judge.alerts.boxes import NOTHING, BoxCases, Fetch
from servers.judge.alerts.case import ENDS, AlertCase, AlertChange, Key, Open, Steady
from servers.judge.alerts.runs import RunFacts
from servers.judge.logs import failure_catalog
from servers.judge.logs.remedies import list_texts
from servers.judge.profiles.facts import BoxKind, LaunchFacts, Subject
from servers.launch import numbers
from servers.launch.engines.launch import fill_parameters
from servers.lifecycle import alerts, memory
from servers.lifecycle.benchmarks import start_checks
from servers.lifecycle.canary import alerts as canaries
from servers.lifecycle.runs import restart_policy, starts
from servers.models import (
    Alert,
    Box,
    Download,
    ImageJob,
    Notification,
    NotificationChannel,
    Run,
    Server,
)
from servers.models.alerts import ChannelKind
from servers.models.runs.run import ACTIVE, RunState
from servers.state import samples

# Seconds: a sample that is older tells nothing of now.
FRESH = 15.0


class AlertMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._steady = Steady()

    def step(self, judged: Mapping[str, Any] | None) -> None:
        """`judged`: the newest sample with its verdicts and findings; None: there is none."""
        now = time.time()
        open_ones = self._open()
        told = frozenset(open_ones)
        servers = list(self._servers())
        facts = [_facts(server) for server in servers]
        found = self._of_sample(judged, now, told)
        cases = [
            *(case for each in facts for case in runs.cases(each, now=now, open_kinds=_list_silent_kinds(each, told))),
            *boxes.find_download_cases(_fetches(self.box), now=now),
            *found.cases,
            *canaries.list_cases(servers),
            *start_checks.list_cases(servers),
            *self._of_data_folder(told),
            *boxes.lacks(self.box.slug, _problems(self.box), judged),
        ]  # fmt: skip
        changes = self._steady.step(
            now,
            boxes.without_floor_twice(cases, told),
            {key: _build_open(alert) for key, alert in open_ones.items()},
            unknown_kinds=found.unknown_kinds,
            unsure=found.unsure,
            refuted=found.refuted,
        )
        for change in changes:
            self._do(change, open_ones.get(change.key))
        for each in facts:
            if case := runs.event(each, now=now):
                alerts.raise_alert(self.box, case)
        for server, each in zip(servers, facts, strict=True):
            if not each.deaths and (before := _find_previous_life(server)):
                self._tell_of_restart(before, now)

    def _tell_of_restart(self, before: Run, now: float) -> None:
        """Somebody else starts what is watched, faster than anybody looks."""
        case = runs.judge_restart(_facts_of(before), now=now)
        if case is not None and not Alert.objects.filter(run=before, kind__in=ENDS).exists():
            alerts.raise_alert(self.box, case)

    def look_at_others(self) -> None:
        """A box cannot tell of its own silence: the watchers of the others do."""
        if settings.WIRE == "box":
            return  # it may write no rows of others; the hub does
        now = time.time()
        silent = {a.box_id: a for a in Alert.objects.open().filter(kind="silent")}
        for other in Box.objects.exclude(pk=self.box.pk).exclude(seen_at=None):
            assert other.seen_at is not None
            case = boxes.silence(
                other.slug,
                seen_at=other.seen_at.timestamp(),
                now=now,
                servers=_count_running(other),
            )
            if case is not None and other.pk not in silent:
                alerts.raise_alert(other, case)
            elif case is None and other.pk in silent:
                alerts.clear(silent[other.pk])

    def _open(self) -> dict[Key, Alert]:
        return {
            (each.kind, each.subject): each for each in Alert.objects.open().filter(box=self.box)
        }

    def _servers(self) -> Iterator[Server]:
        shown = Server.objects.present().filter(box=self.box, run__isnull=False)
        yield from shown.select_related(
            "run__version", "run__plan", "run__start", "run__log", "run__health", "box"
        )

    def _of_sample(
        self, judged: Mapping[str, Any] | None, now: float, told: frozenset[Key]
    ) -> BoxCases:
        if judged is None or now - judged["t"] > FRESH:
            return NOTHING
        return boxes.of_sample(self.box.slug, judged, is_low=boxes.FLOOR in told)

    def _of_data_folder(self, told: frozenset[Key]) -> Iterator[AlertCase]:
        disk = samples.disk()
        if disk is None:
            return
        is_told = boxes.DATA_FOLDER in told
        case = boxes.data_folder(self.box.slug, disk.free, disk.total, is_told=is_told)
        if case is not None:
            yield case

    def _do(self, change: AlertChange, alert: Alert | None) -> None:
        if change.case is None:
            if alert is not None:
                alerts.clear(alert, why=_why_over(alert))
        elif alert is None:
            alerts.raise_alert(self.box, change.case)
        elif change.what == "worse":
            alerts.worsen(alert, change.case)
        else:
            alerts.reword(alert, change.case)


def _problems(box: Box) -> list[dict[str, str]]:
    # As it stands in the row: another thread writes it.
    facts = Box.objects.values_list("facts", flat=True).get(pk=box.pk)
    return list(facts.get("problems", []))


def _list_silent_kinds(run: RunFacts, told: frozenset[Key]) -> frozenset[str]:
    return frozenset(kind for kind, subject in told if subject == run.server)


def _build_open(alert: Alert) -> Open:
    words = (alert.title, alert.detail, alert.memory, alert.advice)
    return Open(severity=alert.severity, words=words)


def _why_over(alert: Alert) -> str:
    """Why a server is nobody's worry any more, for those who heard of it; "" of other things."""
    if alert.kind not in ENDS:
        return ""
    server = alert.server
    run = server.run if server is not None and server.removed_at is None else None
    if run is None:
        return "Its server was removed."
    if run.state == RunState.READY:
        return "It is ready again."
    if not run.is_active:
        return "It was stopped."
    if run.is_watched:
        return "It was started again outside inferdash."
    return f"{run.started_by or 'Somebody'} has started it again."


def _count_running(box: Box) -> int:
    return Run.objects.filter(server__box=box, state__in=ACTIVE).count()


def _find_previous_life(server: Server) -> Run | None:
    """The life before, of a watched one that runs."""
    run = server.run
    if run is None or not run.is_watched or not run.is_active:
        return None
    earlier = server.runs.filter(pk__lt=run.pk).select_related("version", "server__box")
    return earlier.order_by("-pk").first()


def _facts(server: Server) -> RunFacts:
    """Of its newest run, with those before it where it is one of a row."""
    run = server.run
    assert run is not None
    facts = _facts_of(run)
    if not (run.is_watched or run.plan.attempts):
        return facts
    found = restart_policy.count_crashes(server)
    if not found.is_loop:
        return facts
    # What the newest does not know yet, the one before does.
    last = server.runs.filter(state=RunState.FAILED).order_by("-pk").first()
    why = facts.why or (last.why if last else "")
    return replace(facts, deaths=found.count, has_served=found.was_ready, why=why)


def _facts_of(run: Run) -> RunFacts:
    server, box = run.server, run.server.box
    stuck, remedy = starts.describe_deadlock(run, unified=box.is_unified)
    release = memory.read_release(run)
    return RunFacts(
        pk=run.pk,
        server=server.slug,
        box=box.slug,
        state=run.state,
        asked_at=run.created_at.timestamp(),
        ready_at=numbers.to_timestamp(run.ready_at),
        ended_at=numbers.to_timestamp(run.ended_at),
        was_stopped=run.stopped_by_id is not None,
        is_automatic=run.plan.attempts > 0,
        why=run.why,
        is_explained=bool(run.log.diagnosis),
        remedy=remedy or _remedy(run),
        status_message=run.status_message,
        restart_at=numbers.to_timestamp(run.restart_at),
        memory=memory.describe_release(run) if run.ended_at else "",
        is_memory_settled=run.start.memory_before is None
        or release.outcome not in ("", "releasing"),
        held=run.health.peak_memory,
        unhealthy_because=run.health.unhealthy_because if run.is_unhealthy else "",
        unhealthy_since=numbers.to_timestamp(run.health.unhealthy_since),
        stuck=stuck,
        memory_warning=run.start.memory_warning,
    )


def _fetches(box: Box) -> list[Fetch]:
    """The newest try of each download and pull that its page tells of."""
    downloads = Download.objects.for_page().filter(box=box).order_by("pk")
    pulls = ImageJob.objects.for_page().filter(box=box, kind=ImageJob.Kind.PULL).order_by("pk")
    tries: list[tuple[str, str, str, Download | ImageJob]] = [
        *(("download", row.target, str(row), row) for row in downloads),
        # What a start has asked for fails with its run, which tells it.
        *(("pull", x.source, x.source, x) for x in pulls if x.state != "failed" or not x.for_start),
    ]
    found = {
        (kind, subject): Fetch(
            kind=kind,
            subject=subject,
            name=name,
            box=box.slug,
            is_failed=row.state == "failed",
            asked_at=row.asked_at.timestamp(),
            ended_at=numbers.to_timestamp(row.ended_at),
            said=row.said,
            advice=row.advice,
        )
        for kind, subject, name, row in tries
    }
    return list(found.values())


def _remedy(run: Run) -> str:
    """The first thing that the catalogue says to do about why it failed; "" where it does not."""
    failure = failure_catalog.by_id().get(run.log.cause or run.log.place)
    if failure is None:
        return ""
    groups = run.log.diagnosis.get("groups", {})
    # Of each server in each round: what the rows at hand tell is enough.
    launch = fill_parameters(run.version.launch, run.plan.values)
    kind: BoxKind = "unified" if run.server.box.is_unified else "discrete"
    facts = LaunchFacts(Subject(launch=launch, box_kind=kind))
    return next(list_texts(failure.remedies, facts.engine, groups, facts), "")


log = logging.getLogger(__name__)

# Messages to one channel in a row; what is left waits for the next round.
AT_ONCE = 20
MOST_THREADS = 8
PING_EVERY = 60.0


class NotificationSender:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._threads: dict[int, threading.Thread] = {}
        self._pinged: dict[int, float] = {}

    def step(self) -> None:
        """Start what is due. Short; for every round."""
        if settings.WIRE == "box":
            return  # the hub does, which alone knows addresses
        self._threads = {pk: each for pk, each in self._threads.items() if each.is_alive()}
        waiting: dict[int, list[Notification]] = {}
        for notification in alerts.due(self.box):
            waiting.setdefault(notification.channel_id, []).append(notification)
        for pk, notifications in waiting.items():
            self._start(pk, partial(self._send, notifications[:AT_ONCE]))
        self._give_signs_of_life()

    def finish(self, seconds: float) -> None:
        """Wait for what is on its way, so that it is not sent again after a restart."""
        deadline = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, pk: int, work: Callable[[], None]) -> bool:
        """Whether the channel was free, and a thread too."""
        if pk in self._threads or len(self._threads) >= MOST_THREADS:
            return False
        self._threads[pk] = threading.Thread(target=_work_in_thread, args=[work], daemon=True)
        self._threads[pk].start()
        return True

    def _send(self, notifications: list[Notification]) -> None:
        for notification in notifications:
            # Whoever does not take this one now would not take the next.
            if not alerts.send(notification, self.box):
                return

    def _give_signs_of_life(self) -> None:
        """By a row that another loop writes: a watcher that hangs gives none."""
        now = time.monotonic()
        boxes = Q(box=self.box)
        if settings.WIRE == "hub":
            boxes |= Q(box__link__joined_at__isnull=False, box__link__revoked_at=None)
        pings = NotificationChannel.objects.filter(boxes, kind=ChannelKind.PING, is_enabled=True)
        for channel in pings.select_related("box"):
            if channel.box is None or channel.box.is_silent:
                continue
            is_due = now - self._pinged.get(channel.pk, float("-inf")) >= PING_EVERY
            if is_due and self._start(channel.pk, partial(alerts.ping, channel)):
                self._pinged[channel.pk] = now


def _work_in_thread(work: Callable[[], None]) -> None:
    try:
        work()
    except (OperationalError, InterfaceError) as error:
        log.warning("The database is away: %s", error)
    finally:
        close_old_connections()
