"""Servers after a reboot of their box, and limits that it left open."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from servers import events
from servers.host.files import paths
from servers.judge.runs import limits
from servers.judge.runs import open_limits as judge
from servers.judge.runs.open_limits import MountFolder, PlacedMount
from servers.launch.engines.launch import fill_parameters
from servers.launch.engines.placement import VolumeError, parse
from servers.lifecycle.runs import creation, reconcile, restart_policy
from servers.lifecycle.runs.creation import own_paths
from servers.models import Box, Reboot, Run, Server
from servers.models.runs.run import ENDED, DesiredState, RunState

# A box that goes down ends its containers a while before the watcher.
SHUTDOWN = timedelta(minutes=2)


def note_boot(box: Box, boot_id: str, booted_at: datetime, *, seen_before: datetime | None) -> None:
    """Take up what a restart of the box has ended; a boot that was seen before changes nothing.

    To be called before anything else looks at the box's runs, which would take the restart for
    a failure. `seen_before` is the watcher's last sign of life before this one. Raises
    ContainerError while Docker is not there yet: nothing is known then.
    """
    if box.boot_id == boot_id:
        return
    if box.boot_id:
        _remember(box, boot_id, booted_at, seen_before)
        for server in box.servers.filter(removed_at=None).select_related("run__version", "box"):
            if server.run is not None and server.run.wanted == DesiredState.RUNNING:
                _take_up(server.run, booted_at, seen_before)
    box.boot_id, box.booted_at = boot_id, booted_at
    Box.objects.filter(pk=box.pk).update(boot_id=boot_id, booted_at=booted_at)


def _remember(box: Box, boot_id: str, booted_at: datetime, seen_before: datetime | None) -> None:
    """Before anything is taken up, and before the box's facts are those of this boot."""
    Reboot.objects.get_or_create(
        box=box,
        boot_id=boot_id,
        defaults={
            "booted_at": booted_at,
            "last_seen_at": seen_before,
            "before": versions(box),
            "runs": _list_wanted_runs(box, booted_at, seen_before),
        },
    )


def _list_wanted_runs(box: Box, booted_at: datetime, seen_before: datetime | None) -> list[int]:
    """The runs that people wanted when it went down, in the order in which they were started."""
    servers = box.servers.filter(removed_at=None, run__wanted=DesiredState.RUNNING)
    servers = servers.select_related("run").order_by("run__started_at", "run__pk")
    return [
        run.pk
        for run in (server.run for server in servers)
        if run is not None
        and (
            run.is_active
            or (restart_policy.was_before_boot(run, booted_at) and _went_down(run, seen_before))
        )
    ]


def note_versions(box: Box) -> None:
    """What the box is like since its last restart, as far as is known by now."""
    boot = Reboot.objects.filter(box=box, boot_id=box.boot_id).first()
    if boot is None or boot.after.keys() >= boot.before.keys():
        return
    if (known := versions(box) | boot.after) != boot.after:
        Reboot.objects.filter(pk=boot.pk).update(after=known)


def versions(box: Box) -> dict[str, str]:
    """Of what may be upgraded while a box is down, as its row has them."""
    facts = box.facts
    found = {
        "driver": facts.get("driver") or "",
        "docker": (facts.get("docker") or {}).get("version") or "",
        "kernel": facts.get("kernel") or "",
    }
    return {name: version for name, version in found.items() if version}


def _went_down(run: Run, seen_before: datetime | None) -> bool:
    """Whether one that has ended was ended by the shutdown, before inferdash could know why.

    Docker stops containers then as if somebody had asked for it.
    """
    if run.state not in ENDED or run.stopped_by_id is not None:
        return False
    at_the_end = run.ended_at and seen_before and run.ended_at >= seen_before - SHUTDOWN
    return bool(at_the_end or run.restart_at is not None)


def _take_up(run: Run, booted_at: datetime, seen_before: datetime | None) -> None:
    if not restart_policy.was_before_boot(run, booted_at):
        return
    if run.state in (RunState.STARTING, RunState.READY):
        container = creation.docker().inspect(run.container_id)
        if container is None or container.has_ended:
            tail = creation.docker().tail(container.id, reconcile.TAIL) if container else []
            with transaction.atomic():
                if reconcile.went_down_with_box(run, container, tail):
                    _note(run)
    elif _went_down(run, seen_before):
        _note(run)


def _note(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(**restart_policy.plan_after_boot(run))
    events.publish_change("server", run.server_id)


WANTED = ("nosuid", "nodev")


def find_mount_permissions(
    box: str, allowed: limits.Limits, left_out: dict[str, str]
) -> list[dict[str, Any]]:
    """For the box of this slug, which is the one that this process is on."""
    told = judge.openings(
        allowed,
        list(_roots(allowed)),
        list(_list_placed_mounts(box)),
        home=settings.HOME,
        manage=settings.MANAGE,
        left_out=left_out,
    )
    return [each.to_json() for each in told]


def _roots(allowed: limits.Limits) -> Iterator[MountFolder]:
    root, seen = settings.HOST_ROOT, paths.read_mount_table(root=settings.HOST_ROOT)
    try:
        account = limits.account_places(own_paths(), root=root)
    except paths.PathError:
        account = {}
    for path in allowed.mount_roots:
        try:
            held = limits.held_in(path, account, root=root)
        except paths.PathError:
            held = ()
        place = paths.real_place(path, seen, root=root)
        point = paths.find_mount(place, seen) if place else None
        lacks = tuple(each for each in WANTED if point and each not in point.options)
        yield MountFolder(path=path, held=held, lacks=lacks, point=point.path if point else "")


def _list_placed_mounts(box: str) -> Iterator[PlacedMount]:
    servers = Server.objects.present().filter_managed().filter(box__slug=box)
    for server in servers.select_related("box", "profile__current"):
        if server.profile.current is None:
            continue
        launch = fill_parameters(server.profile.launch, server.values)
        yield PlacedMount(
            slug=server.slug,
            on_host_network=launch.network == "host",
            mounts=tuple(_sources(launch.volumes, server.box)),
        )


def _sources(volumes: tuple[str, ...], box: Box) -> Iterator[str]:
    for text in volumes:
        try:
            volume = parse(text, home=box.home)
        except VolumeError:
            continue  # its start says so
        if volume.kind == "bind":
            yield volume.source
