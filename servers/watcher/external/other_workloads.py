"""Other workloads on the box: containers that are no engines, images, missing permissions."""

import getpass
import os
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.external.containers import ExternalContainer
from servers.host.kernel.proc import Kernel
from servers.judge.external.engines import Origin, WatcherRights, unseen
from servers.launch import numbers
from servers.launch.commandline.clusters import ray_start
from servers.launch.commandline.inspect import argv
from servers.lifecycle.runs import creation, starts
from servers.models import Box, OtherWorkloads
from servers.watcher.external.processes import RayWorkerProcess
from servers.watcher.external.systemd_owners import NOBODY, SystemdOwner

# Listing images costs Docker more than listing containers.
IMAGES_EVERY = 60.0


class OtherWorkloadsMonitor:
    """What the last look has found; a row is written only where that is anything new."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._counted_at = float("-inf")
        self._images: dict[str, int] = {}

    def note(
        self,
        others: Iterable[ExternalContainer],
        engines: Collection[str],
        units: Mapping[str, SystemdOwner],
        sample: Mapping[str, Any] | None,
        *,
        workers: Iterable[RayWorkerProcess] = (),
    ) -> None:
        """`engines` are the containers that are told of elsewhere, `workers` processes of Ray in
        none. Raises ContainerError.
        """
        containers = [
            _describe_container(other, units)
            for other in others
            if other.container.id not in engines
        ]
        containers += [_of_process(worker) for worker in workers]
        containers.sort(key=lambda each: str(each["name"]))
        if time.monotonic() - self._counted_at >= IMAGES_EVERY:
            self._counted_at = time.monotonic()
            count, size = creation.docker().count_images()
            self._images = {"count": count, "size": size}
        self._keep(
            trouble="",
            containers=containers,
            images=self._images,
            unseen=[each.to_json() for each in unseen(_build_rights(), sample)],
        )

    def note_trouble(self, error: ContainerError, sample: Mapping[str, Any] | None) -> None:
        """Docker could not be asked; what is known stays."""
        standing = _build_rights(str(error), is_refused=error.kind == "no_permission")
        self._keep(trouble=str(error), unseen=[each.to_json() for each in unseen(standing, sample)])

    def _keep(self, **values: Any) -> None:
        defaults = {"looked_at": timezone.now(), **values}
        known, is_new = OtherWorkloads.objects.get_or_create(box=self.box, defaults=defaults)
        is_worker_new = _workers(values) != _workers({"containers": known.containers})
        if is_new or any(getattr(known, name) != value for name, value in values.items()):
            known.write(**defaults)
            events.publish_change("box", self.box.pk)
        if "containers" in values and (is_new or is_worker_new):
            # They stand on the card of the engine that they work for, on whichever box.
            for server in starts.list_ray_heads():
                events.publish_change("server", server)


def _workers(values: Mapping[str, Any]) -> list[Any]:
    return [
        (each["container"], each["ray"]) for each in values.get("containers", ()) if "ray" in each
    ]


def _of_process(worker: RayWorkerProcess) -> dict[str, Any]:
    return {
        "container": worker.key,
        "name": f"process {worker.pid}",
        "image": worker.command,
        "ports": [],
        "started_at": worker.started_at,
        "wants_gpus": True,
        "origin": worker.origin.to_json(),
        "ray": worker.head,
        "pids": list(worker.pids),
    }


def _describe_container(
    other: ExternalContainer, units: Mapping[str, SystemdOwner]
) -> dict[str, Any]:
    container = other.container
    began = container.started_at
    ports = sorted({port.host_port for port in container.published if port.host_port})
    attendant = units.get(container.id, NOBODY)
    origin = Origin.from_labels(container.labels, other.policy, **attendant._asdict())
    ray = ray_start(argv(other.inspected), container.env)
    works = {"ray": f"{ray.host}:{ray.port}"} if ray is not None and not ray.is_head else {}
    return {
        "container": container.id,
        "name": container.name,
        "image": other.image,
        "ports": ports,
        "started_at": numbers.to_timestamp(began),
        "wants_gpus": other.wants_gpus,
        "origin": origin.to_json(),
        **works,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number that no /etc/passwd knows, as containers may have
        return str(os.geteuid())


def _build_rights(trouble: str = "", *, is_refused: bool = False) -> WatcherRights:
    return WatcherRights(
        user=_user(),
        is_root=os.geteuid() == 0,
        is_in_container=not Kernel(root=settings.KERNEL_ROOT).sees_host_pids(),
        docker_trouble=trouble,
        is_docker_refused=is_refused,
    )
