"""Limits of a box that could be narrower, for its page."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings

from servers.host.files import mounts, paths
from servers.judge.runs import limits
from servers.judge.runs import open_limits as judge
from servers.judge.runs.open_limits import MountFolder, PlacedMount
from servers.launch.engines import parameters
from servers.launch.engines.volumes import VolumeError, parse
from servers.lifecycle.runs.creation import own_paths
from servers.models import Box, Server

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
    root, seen = settings.HOST_ROOT, mounts.table(root=settings.HOST_ROOT)
    try:
        account = limits.account_places(own_paths(), root=root)
    except paths.PathError:
        account = {}
    for path in allowed.mount_roots:
        try:
            held = limits.held_in(path, account, root=root)
        except paths.PathError:
            held = ()
        place = mounts.real_place(path, seen, root=root)
        point = mounts.find_mount(place, seen) if place else None
        lacks = tuple(each for each in WANTED if point and each not in point.options)
        yield MountFolder(path=path, held=held, lacks=lacks, point=point.path if point else "")


def _list_placed_mounts(box: str) -> Iterator[PlacedMount]:
    servers = Server.objects.present().filter(box__slug=box, watches={})
    for server in servers.select_related("box", "profile__current"):
        if server.profile.current is None:
            continue
        launch = parameters.fill(server.profile.launch, server.values)
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
