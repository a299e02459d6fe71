"""Orphans on this box, with what the database knows of them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from servers.host.docker.containers import Container
from servers.host.kernel import shm
from servers.host.kernel.proc import Kernel
from servers.host.kernel.shm import SharedSegment
from servers.host.kernel.workers import workers
from servers.judge.memory import orphans
from servers.judge.memory.holders import memory_by_container
from servers.judge.memory.orphans import ContainerRecord, Orphan, OwnContainer
from servers.launch import numbers
from servers.lifecycle.runs import creation
from servers.models import Box, Run, Server
from servers.models.runs.run import ACTIVE, RunState

# Nothing outlives a restart of the box; where nobody knows of one, this is long enough.
_REMEMBERED = timedelta(days=30)
_MAKING = (RunState.QUEUED, RunState.PULLING, RunState.CREATING)


def look(
    box: Box, sample: Mapping[str, Any] | None, segments: Sequence[SharedSegment] | None = None
) -> list[Orphan]:
    """Everything that is left behind now. Raises ContainerError when Docker cannot be asked.

    `segments` is the box's shared memory, where somebody has looked at it a moment ago.
    """
    now = timezone.now().timestamp()
    known = sample or {}
    if segments is None:
        segments = shm.segments(settings.HOST_ROOT)
    found = creation.docker().list_ours()
    # Of others, too: nothing of a container that works is left behind, whoever it belongs to.
    running = creation.docker().list_running()
    ours = _ours(box, found)
    sees_all = os.geteuid() == 0 and _sees_box()
    left = [
        *orphans.processes(
            workers(ours, settings.KERNEL_ROOT), ours, running, _on_gpu(known), now=now
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
    runs = Run.objects.filter(lately, server__box=box, is_watched=False)
    ours: dict[str, OwnContainer] = {}
    for each in found:
        ended = each.finished_at.timestamp() if each.finished_at else None
        ours[each.id] = OwnContainer(server=each.labels.get("inferdash.server", ""), ended_at=ended)
    for slug, ended_at, *ids in runs.values_list(
        "server__slug", "ended_at", "container_id", "container_was"
    ):
        for container in filter(None, ids):
            ended = ended_at.timestamp() if ended_at else None
            known = OwnContainer(server=slug, ended_at=ended, is_there=False)
            ours.setdefault(container, known)
    return ours


def _on_gpu(sample: Mapping[str, Any]) -> dict[int, int | None]:
    """Bytes on all GPUs by pid; None where the driver does not tell."""
    held: dict[int, int | None] = {}
    for card in sample.get("gpus") or []:
        for each in card.get("processes") or []:
            before, used = held.get(each["pid"], 0), each.get("used")
            held[each["pid"]] = None if before is None or used is None else before + used
    return held


def _with_runs(box: Box, found: list[Container]) -> Iterator[tuple[Container, ContainerRecord]]:
    by_id = {
        run.container_id: run
        for run in Run.objects.filter(container_id__in=[each.id for each in found])
        .select_related("server")
        .defer("reader", "last_lines", "failure_detail")
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
                is_read=run is not None and run.log_complete,
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
