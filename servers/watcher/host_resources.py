"""The watcher's look at host resources: disks, ports, images, clock, toolkit."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import redis
from django.conf import settings
from django.utils import timezone

from servers.host.docker.containers import DockerFacts, Image
from servers.host.kernel import clock, resources
from servers.launch.engines.volumes import VolumeError, resolve
from servers.models import Box, HostResources
from servers.state import store

log = logging.getLogger(__name__)

REQUIRE, NO_REQUIRE = "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE"


def look(box: Box, docker: DockerFacts | None) -> None:
    """Everything but the images; without Docker, what can be told without it."""
    root = settings.HOST_ROOT
    found: dict[str, Any] = {}
    if docker is not None:
        found = {"architecture": docker.architecture, "runtimes": list(docker.runtimes)}
    disks = {
        "images": resources.disk(docker.root, root=root) if docker is not None else None,
        "cache": _cache(box),
        "shm": resources.shared_memory(root=root),
    }
    found["disks"] = {name: asdict(disk) for name, disk in disks.items() if disk is not None}
    if (ports := resources.list_listening_ports()) is not None:
        found["listening"] = sorted(ports)
    if (addresses := resources.addresses()) is not None:
        found["addresses"] = sorted(addresses)
    if (toolkit := resources.has_toolkit(root=root)) is not None:
        found["toolkit"] = toolkit
    try:
        found["clock"] = asdict(clock.ahead_of(store.shared_time))
    except (redis.RedisError, OSError) as error:
        log.warning("Redis does not say the time: %s", error)
    _keep(box, found=found)


def note_images(box: Box, seen: Mapping[str, Image | None]) -> None:
    """Which of the images that profiles name are there, and what they ask of the driver."""
    images = {reference: _image(image) if image else None for reference, image in seen.items()}
    if HostResources.objects.filter(box=box, images=images).exists():
        return
    _keep(box, images=images)


def _image(image: Image) -> dict[str, Any]:
    is_asked = image.env.get(NO_REQUIRE, "").casefold() not in ("1", "true")
    return {
        "id": image.id,
        "architecture": image.architecture,
        "size": image.size,
        "require": image.env.get(REQUIRE, "") if is_asked else "",
    }


def _cache(box: Box) -> resources.HostDisk | None:
    if not box.hf_cache:
        return None
    try:
        path = resolve(box.hf_cache, home=box.home)
    except VolumeError:
        return None
    return resources.disk(path, root=settings.HOST_ROOT)


def _keep(box: Box, **values: Any) -> None:
    HostResources.objects.update_or_create(box=box, defaults={"seen_at": timezone.now(), **values})
