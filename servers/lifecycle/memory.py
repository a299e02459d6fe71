"""Memory that ended runs gave back or still hold, and orphans: found, and ended on request."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.host.docker.containers import Container
from servers.host.kernel import resources
from servers.host.kernel import resources as host
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import workers
from servers.host.kernel.resources import SharedSegment
from servers.judge.memory import orphans, release, release_words
from servers.judge.memory.holders import memory_by_container, memory_by_pid
from servers.judge.memory.orphans import ContainerRecord, Orphan, OwnContainer
from servers.judge.memory.pools import GIB, Pool, pools
from servers.judge.memory.release import Release, ReleaseLook
from servers.judge.runs import limits
from servers.launch import numbers
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import creation, starts
from servers.models import Box, Run, Server
from servers.models.runs.run import ACTIVE, ENDED, RunState

# Nothing outlives a restart of the box; where nobody knows of one, this is long enough.
_REMEMBERED = timedelta(days=30)
_MAKING = (RunState.QUEUED, RunState.PULLING, RunState.CREATING)


def look_for_orphans(
    box: Box, sample: Mapping[str, Any] | None, segments: Sequence[SharedSegment] | None = None
) -> list[Orphan]:
    """Everything that is left behind now. Raises ContainerError when Docker cannot be asked.

    `segments` is the box's shared memory, where somebody has looked at it a moment ago.
    """
    now = timezone.now().timestamp()
    known = sample or {}
    if segments is None:
        segments = host.segments(settings.HOST_ROOT)
    found = creation.docker().list_ours()
    # Of others, too: nothing of a container that works is left behind, whoever it belongs to.
    running = creation.docker().list_running()
    ours = _ours(box, found)
    sees_all = os.geteuid() == 0 and _sees_box()
    left = [
        *orphans.processes(
            workers(ours, settings.KERNEL_ROOT), ours, running, memory_by_pid(known), now=now
        ),
        *orphans.segments(segments, now=now, sees_all=sees_all),
        *orphans.containers(_with_runs(box, found)),
    ]
    return orphans.order_orphans(_add_sizes(left, memory_by_container(known)))


def _sees_box() -> bool:
    """Whether the processes that are looked at for shared memory are the box's."""
    return str(settings.HOST_ROOT) != "/" or Kernel(root=settings.KERNEL_ROOT).sees_host_pids()


def _ours(box: Box, found: list[Container]) -> dict[str, OwnContainer]:
    """Every container that this install has, or has had since the boot, by its id."""
    since = box.booted_at or timezone.now() - _REMEMBERED
    lately = Q(ended_at__gt=since) | Q(state__in=ACTIVE)
    # What watched containers leave is not inferdash's to end.
    runs = Run.objects.filter_managed().filter(lately, server__box=box)
    ours: dict[str, OwnContainer] = {}
    for each in found:
        ended = numbers.to_timestamp(each.finished_at)
        ours[each.id] = OwnContainer(server=each.labels.get("inferdash.server", ""), ended_at=ended)
    for slug, ended_at, *ids in runs.values_list(
        "server__slug", "ended_at", "container_id", "container_was"
    ):
        for container in filter(None, ids):
            ended = numbers.to_timestamp(ended_at)
            known = OwnContainer(server=slug, ended_at=ended, is_there=False)
            ours.setdefault(container, known)
    return ours


def _with_runs(box: Box, found: list[Container]) -> Iterator[tuple[Container, ContainerRecord]]:
    by_id = {
        run.container_id: run
        for run in Run.objects.filter(container_id__in=[each.id for each in found])
        .select_related("server")
        .defer("failure_detail")
    }
    named = [numbers.whole(each.labels.get("inferdash.run", "")) for each in found]
    pks = [pk for pk in named if pk is not None]
    making = set(Run.objects.filter(pk__in=pks, state__in=_MAKING).values_list("pk", flat=True))
    slugs = {each.labels.get("inferdash.server", "") for each in found}
    servers = {each.slug: each for each in Server.objects.filter(box=box, slug__in=slugs)}
    busy = dict(
        Run.objects.active().filter(server__box=box).values_list("server__slug", "container_id")
    )
    for one in found:
        run = by_id.get(one.id)
        slug = one.labels.get("inferdash.server", "")
        is_making = run is None and numbers.whole(one.labels.get("inferdash.run", "")) in making
        yield (
            one,
            ContainerRecord(
                server=slug,
                server_exists=slug in servers,
                is_busy=slug in busy and busy[slug] != one.id,
                has_run=run is not None,
                is_active=is_making or (run is not None and run.is_active),
                is_latest=run is not None and run.server.run_id == run.pk,
                is_read=run is not None and run.log.is_complete,
            ),
        )


def _add_sizes(left: list[Orphan], held: Mapping[str, int]) -> Iterator[Orphan]:
    """A container that runs is as large as what its processes hold of the GPUs."""
    for each in left:
        if each.kind == "container" and each.is_running and each.container in held:
            more = {"size": held[each.container], "size_of": "GPU memory"}
            yield Orphan.from_json(each.to_json() | more)
        else:
            yield each


LEVELS = (1, 2, 3)
_LOADED = (RunState.CREATING, RunState.STARTING, RunState.READY, RunState.STOPPING)


class ReclaimError(JobError):
    """It was not done; the text says why. `command` is for whoever has a shell there."""


def reclaim_command(level: int) -> str:
    return f"sudo sh -c 'sync; echo {level} > /proc/sys/vm/drop_caches'"


def object_to_reclaim(box: Box, sample: Mapping[str, Any] | None) -> str:
    """Why nobody should do it now; "" where nothing speaks against it."""
    busy = Run.objects.filter(server__box=box, state__in=_LOADED).select_related("server").first()
    if busy is not None:
        return (
            f"{busy.server} is {busy.state} on {box}: its files would have to be read from disk "
            "again, and its memory is in use. Stop it first."
        )
    there = [
        f"{each.name or 'a process'} ({each.pid})"
        for pool in pools(sample or {})
        if isinstance(pool, Pool)
        for each in pool.clients
        if not each.is_desktop
    ]
    if there:
        return f"{there[0]} is on a GPU of {box}: it may be an engine that loads. End it first."
    return ""


def reclaim(box: Box, sample: Mapping[str, Any] | None, level: int) -> str:
    """What it has freed, in a sentence. Raises RefusedError; ContainerError when Docker refuses."""
    if level not in LEVELS:
        raise ReclaimError(f"There is no level {level} of it.")
    if why := object_to_reclaim(box, sample):
        raise ReclaimError(why)
    try:
        is_allowed = creation.read_limits().reclaim
    except starts.SecretsError as refusal:
        raise ReclaimError(str(refusal), reclaim_command(level)) from refusal
    if not is_allowed:
        raise ReclaimError(
            f"{box} does not let inferdash do this, as it takes root's rights. "
            f"{limits.granted_by(settings.MANAGE, 'reclaim')}. Or type it there:",
            reclaim_command(level),
        )
    before = _free()
    host.drop_caches(creation.docker(), root=settings.HOST_ROOT, level=level)
    after = _free()
    freed = after - before
    figures = f"{before / GIB:.1f} GiB were free before, {after / GIB:.1f} GiB are now"
    if freed < GIB / 10:
        return f"It freed next to nothing: {figures}."
    return f"Freed {freed / GIB:.1f} GiB: {figures}."


def _free() -> int:
    return Kernel(root=settings.KERNEL_ROOT).meminfo().get("MemFree", 0)


def read_release(run: Run) -> Release:
    """What came back so far; an empty one until it has ended."""
    return Release.from_json(run.health.memory_after) if run.health.memory_after else Release()


def describe_release(run: Run) -> str:
    return release_words.sentence(read_release(run), now=timezone.now().timestamp())


def find_release_code(run: Run) -> str:
    """Of the first message of describe_release(); "" where there is none."""
    return release_words.find_code(read_release(run), now=timezone.now().timestamp())


def measure_before(
    run: Run, sample: Mapping[str, Any] | None, started_at: datetime | None
) -> dict[str, Any] | None:
    """What its GPUs had in use before its container was started; None where nobody looked then."""
    if sample is None or (started_at and sample["t"] > started_at.timestamp()):
        return None
    if any(card.get("kind") == "unified" for card in sample.get("gpus") or []):
        left = [vars(each) for each in resources.segments(settings.HOST_ROOT)]
        sample = {**sample, "shm": left}
    found = release.measure_before(sample, run.gpus, now=timezone.now().timestamp())
    if found is None:
        return None
    # What an earlier run has not given back yet is none of this one's, and may come back under it.
    waiting = Run.objects.filter(server__box=run.server.box, state__in=ENDED, released_at=None)
    for earlier in waiting.filter(start__memory_before__isnull=False).exclude(pk=run.pk):
        if read_release(earlier).outcome in ("", "releasing"):
            found = release.lower(found, earlier.start.memory_before)
    return found


def list_watched_runs(box: Box) -> list[Run]:
    """Runs whose memory somebody has to look at: those that have it, and those that had it."""
    has_ended = Q(state__in=ENDED, released_at=None)
    has_container = Q(state__in=ACTIVE) & ~Q(container_id="")
    with_memory = Run.objects.filter(server__box=box, start__memory_before__isnull=False)
    return with_memory.filter(has_ended | has_container).fetch_any()


def look_at_release(
    run: Run, snapshot: Mapping[str, Any], pids: Collection[int]
) -> ReleaseLook | None:
    assert run.start.memory_before is not None
    return release.look(
        run.start.memory_before,
        snapshot,
        run.container_id or run.container_was,
        began=numbers.to_timestamp(run.started_at),
        ended=numbers.to_timestamp(run.ended_at),
        pids=pids,
        thresholds=settings.MEMORY_THRESHOLDS,
    )


def note(run: Run, seen: ReleaseLook | None, *, held: int | None) -> None:
    """Write down what a look at an ended run says. `held` is what it held before its end."""
    if run.ended_at is None or run.start.memory_before is None:
        return
    so_far = read_release(run) if run.health.memory_after else Release(held=held)
    now = timezone.now()
    ended = run.ended_at.timestamp()
    new = release.step(
        so_far,
        seen,
        run.start.memory_before,
        ended=ended,
        now=now.timestamp(),
        thresholds=settings.MEMORY_THRESHOLDS,
    )
    is_over = new.is_over or now.timestamp() - ended > release.REMEMBERED
    if new == so_far and not is_over:
        return
    fields = {"health__memory_after": new.to_json(), "released_at": now if is_over else None}
    if not Run.objects.filter(pk=run.pk, released_at=None).write(**fields):
        return
    if release_words.short(new) != release_words.short(so_far) or new.outcome != so_far.outcome:
        events.publish_change("server", run.server_id)
