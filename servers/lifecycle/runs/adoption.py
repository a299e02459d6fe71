"""Adoption: a container of ours without a run becomes a run again."""

from typing import Any

from django.core.management.color import no_style
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from servers import events
from servers.host.docker.containers import Container
from servers.judge.runs import start_progress
from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch, fill_parameters
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import creation, secret_env
from servers.lifecycle.runs.out_of_band import NO_END
from servers.models import Box, ProfileVersion, Run, Server, User
from servers.models.runs.run import RunState


class AdoptionError(JobError):
    """The container is not made a run; the text says why, and what to do."""


def adopt(box: Box, container_id: str, *, by: User | None) -> Run:
    """The run of a container that works, as if it had just been started.

    Raises AdoptionError, and ContainerError when Docker cannot be asked.
    """
    container = creation.docker().inspect(container_id)
    if container is None or container.state != "running":
        raise AdoptionError(
            "The container does not run any more, so that there is nothing to adopt."
        )
    if container.labels.get("inferdash.install") != creation.docker().install:
        raise AdoptionError("The container was not made by this inferdash.")
    slug = container.labels.get("inferdash.server", "")
    server = Server.objects.select_related("profile__current").filter(box=box, slug=slug).first()
    if server is None:
        raise AdoptionError(f"There is no server {slug} on {box} that it could belong to.")
    digest = creation.docker().digest_of(container.image_id)
    try:
        with transaction.atomic():
            run = _create_run(server, container, by, digest)
            # What it was given must not stand in its log.
            secret_env.remember_again(run, container.env)
            Server.objects.filter(pk=server.pk).update(run=run, removed_at=None)
    except IntegrityError as error:
        raise AdoptionError(
            f"{server} has another run at the moment. Stop that one first, or remove the container."
        ) from error
    events.publish_change("servers")
    events.publish_change("server", server.pk)
    return run


def _create_run(server: Server, container: Container, by: User | None, digest: str) -> Run:
    known = Run.objects.filter(container_id=container.id, server=server).first()
    version = known.version if known else _version(server, container)
    launch = known.launch if known else fill_parameters(version.launch, server.values)
    address, port = _reached_at(container, launch)
    fields: dict[str, Any] = {
        **NO_END,
        "state": RunState.STARTING,
        "started_at": container.started_at,
        "moved_at": timezone.now(),
        "address": address,
        "port": port,
        "served_name": ENGINES[launch.engine].served_name(launch),
        "image_id": container.image_id,
        "start__image_digest": digest,
        "container_id": container.id,
    }
    if known is not None:
        # What stands in its log already tells of its life before.
        lines = known.log.lines
        read = {"start__phases_read": lines, "log__searched": lines, "log__found": {}}
        Run.objects.filter(pk=known.pk).write(**fields, **read)
        known.refresh_from_db()
        return known
    fields |= {
        "server": server,
        "version": version,
        "plan__values": server.values,
        "started_by": by,
    }
    if launch.gpus in ("all", "none") or launch.gpus.replace(",", "").isdigit():
        fields["gpus"] = launch.gpus
    asked = container.labels.get("inferdash.asked", "")
    fields["created_at"] = start_progress.moment(asked) or container.started_at or timezone.now()
    number = numbers.whole(container.labels.get("inferdash.run", ""))
    if number and not Run.objects.filter(pk=number).exists():
        # Docker's events and the container's name go by this number.
        made = Run.objects.create(pk=number, **fields)
        _go_on_counting()
        return made
    return Run.objects.create(**fields)


def _version(server: Server, container: Container) -> ProfileVersion:
    """What it was started with; the newest where that is not known, or is not there any more."""
    number = numbers.whole(container.labels.get("inferdash.version", ""))
    if number is not None:
        found = server.profile.versions.filter(number=number).first()
        if found is not None:
            return found
    if server.profile.current is None:
        raise AdoptionError(f"The profile {server.profile} has no version.")
    return server.profile.current


def _reached_at(container: Container, launch: Launch) -> tuple[str, int]:
    found = creation.bound(container, launch)
    if found is None:
        wanted = ENGINES[launch.engine].port(launch)
        raise AdoptionError(
            f"The container publishes no port {wanted}, where the profile says that its engine "
            "listens."
        )
    return found


def _go_on_counting() -> None:
    """PostgreSQL would give the same number again."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Run]):
            cursor.execute(statement)
