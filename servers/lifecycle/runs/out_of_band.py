"""Changes to our containers that people make without inferdash, and adoption of those without a run."""

import logging
from datetime import timedelta
from typing import Any

from django.core.management.color import no_style
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone

from servers import events
from servers.host.docker.containers import IDENTITY, Container, ContainerError
from servers.judge.runs import start_progress
from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch, fill_parameters
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import creation, restart_policy, starts
from servers.models import AuditEntry, Box, ProfileVersion, Run, Server, User
from servers.models.runs.run import ENDED, DesiredState, RunState

log = logging.getLogger(__name__)


PAUSED = "Its container is paused:"
WITH_DOCKER = (
    "Docker Engine ended at about that time, and has perhaps stopped it: that is not known."
)
# Docker gives its containers 15 s when it ends, and those that were made with more time that.
DOCKERS_END = timedelta(seconds=30)

# What was noted of an end that was none.
NO_END: dict[str, Any] = {
    "wanted": DesiredState.RUNNING,
    "stopped_by": None,
    "stop_requested_at": None,
    "stopping_at": None,
    "kill_at": None,
    "ready_at": None,
    "ended_at": None,
    "exit_code": None,
    "oom_killed": False,
    "failure": "",
    "failure_detail": "",
    "log__last_lines": [],
    "given_up": "",
    "restart_at": None,
    "restart_for": None,
    "log__diagnosis": {},
    "log__oom": {},
    "start__reader": {},
    "health__requests_running": None,
    "health__tokens_per_second": None,
    "health__unhealthy_since": None,
    "health__unhealthy_because": "",
    "health__slow_because": "",
    "health__first_answer": {},
    "health__spins_since": None,
    # It was measured for the end before.
    "start__memory_before": None,
    "health__memory_after": {},
    "released_at": None,
    "log__is_complete": False,
}


def take_up(box: Box) -> None:
    """Follow again what somebody has started again, and remove what a dead maker left behind.

    The row is read before its container is looked at: one that ends meanwhile was not started.
    """
    try:
        made = creation.docker().live_runs()
        ended = Run.objects.filter(pk__in=made, state__in=ENDED, server__box=box)
        latest = ended.filter(server__run=F("pk"), server__removed_at=None)
        for run in latest.select_related("server__box", "version", "plan", "log"):
            container = creation.docker().inspect(made[run.pk])
            if container is None or not _is_of(run, container):
                continue
            if container.state == "running":
                _follow_again(run, container)
            elif container.state == "created" and run.started_at is None:
                # It was asked for by a maker that was killed, and came after the run's end.
                creation.docker().remove(container.id)
    except ContainerError as error:
        log.warning("Nobody can tell what was started by hand: %s", error)


def _is_of(run: Run, container: Container) -> bool:
    """A database that was restored from yesterday gives the same number to another run."""
    if run.container_id:
        return run.container_id == container.id
    labels = creation.labels(run)
    return all(container.labels.get(name) == labels[name] for name in IDENTITY)


def _follow_again(run: Run, container: Container) -> None:
    address, port = creation.bound(container, run.launch) or (run.address, run.port)
    fields = {
        **NO_END,
        "container_id": container.id,
        "image_id": container.image_id,
        "started_at": container.started_at,
        "address": address,
        "port": port,
        "status_message": "Somebody has started its container again, outside inferdash.",
        # What stands in its log already tells of its life before.
        "start__phases_read": run.log.lines,
        "log__searched": run.log.lines,
        "log__found": {},
    }
    try:
        with transaction.atomic():
            again = Run.objects.filter(pk=run.pk)
            if not again.move(old=ENDED, new=RunState.STARTING, **fields):
                return
            starts.remember_again(run, container.env)
            AuditEntry.note(None, "start outside inferdash", run.server, run=run.pk)
    except IntegrityError:
        # Somebody has pressed Start meanwhile: that run has the server.
        return
    log.info("run %s: its container was started by hand", run.pk)
    events.publish_change("server", run.server_id)


def note_end_of_docker(box: Box) -> None:
    """Docker has gone away: what it stopped before as if somebody had asked is wanted as before."""
    stopped = Run.objects.filter_managed().filter(
        server__box=box,
        server__run=F("pk"),
        state=RunState.STOPPED,
        wanted=DesiredState.RUNNING,
        stopped_by=None,
        restart_at=None,
        ended_at__gte=timezone.now() - DOCKERS_END,
    )
    for run in stopped.select_related("server__box", "server__profile", "version"):
        plan = restart_policy.plan(run)
        plan["status_message"] = " ".join(filter(None, (WITH_DOCKER, plan.get("status_message"))))
        if Run.objects.filter(pk=run.pk, state=RunState.STOPPED, restart_at=None).update(**plan):
            events.publish_change("server", run.server_id)


def note_pause(run: Run, container: Container) -> None:
    said = ""
    if container.state == "paused":
        said = (
            f"{PAUSED} nothing in it runs until somebody says docker unpause {container.name} "
            "on the box, or it is stopped here."
        )
    if run.status_message != said and (said or run.status_message.startswith(PAUSED)):
        Run.objects.filter(pk=run.pk).update(status_message=said)
        events.publish_change("server", run.server_id)


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
            starts.remember_again(run, container.env)
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
