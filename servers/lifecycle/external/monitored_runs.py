"""Runs of monitored servers: their ends, and the lives that come after them.

Everything here only looks. What is not ours is neither moved on nor ended by inferdash.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.judge.memory.holders import cards_by_container
from servers.lifecycle import external
from servers.lifecycle.external import ExternalWorkload, WatchError, monitoring
from servers.lifecycle.runs import restart_policy
from servers.lifecycle.runs.ownership import verb
from servers.models import Box, Run
from servers.models.runs.run import PARTS, ExternalRun, ExternalServer, RunState

log = logging.getLogger(__name__)

LIVING = [RunState.STARTING, RunState.READY]

# A container that keeps dying before it is ready, so many times, is followed again when it has
# run for so long: Docker starts one anew every minute, for days.
LOOP, LASTING = 3, timedelta(minutes=1)

PAUSED = "Its container is paused: nothing in it runs until somebody unpauses it."
LOOPS = (
    "It is started again and again, and dies each time before it is ready. It is followed again "
    "when it has run for a minute."
)

_untold: set[str] = set()  # those of whom it was said that they are not followed


def step(box: Box, found: Iterable[ExternalWorkload], sample: Mapping[str, Any] | None) -> None:
    """Look at every watched run of the box, and begin those of what was started anew.

    `found` are those that run now. Raises ContainerError.
    """
    cards = cards_by_container(sample or {})
    for run in _active(box):
        _note_cards(run, cards.get(run.container_id, frozenset()))
        look(run)
    running = {each.key: each for each in found}
    watched = box.servers.filter_external().filter(removed_at=None)
    for server in watched.select_related("box__hf_token", "profile", "run__version"):
        if server.run is None or server.run.is_active:
            continue
        stranger = _successor(server, running)
        if stranger is None or not external.has_seen(stranger) or _keeps_dying(server, stranger):
            continue
        try:
            _note_loop(server, monitoring.go_on(server, stranger))
        except WatchError as error:
            if stranger.key not in _untold:
                _untold.add(stranger.key)
                log.warning("%s is not followed any further: %s", server, error)


def _note_loop(server: ExternalServer, run: ExternalRun | None) -> None:
    """Each life may be ready for a moment, and looks well by itself."""
    found = restart_policy.count_crashes(server)
    if run is not None and found.is_loop:
        Run.objects.filter(pk=run.pk).update(
            status_message=restart_policy.explain_crash_loop(found)
        )
        events.publish_change("server", server.pk)


def _keeps_dying(server: ExternalServer, stranger: ExternalWorkload) -> bool:
    began = stranger.started_at
    lately = list(server.runs.order_by("-pk").values_list("state", "ready_at")[:LOOP])
    is_loop = len(lately) == LOOP and all(
        state == RunState.FAILED and ready_at is None for state, ready_at in lately
    )
    if not is_loop or began is None or timezone.now() - began > LASTING:
        return False
    if (
        Run.objects.filter(pk=server.run_id or 0)
        .exclude(status_message=LOOPS)
        .update(status_message=LOOPS)
    ):
        events.publish_change("server", server.pk)
    return True


def _note_cards(run: ExternalRun, held: frozenset[int]) -> None:
    """Where it was given all GPUs: those that it really uses, so that the others count as free."""
    used = frozenset(map(int, run.gpus.split(","))) if run.gpus[:1].isdigit() else frozenset()
    if held <= used or run.version.launch.gpus != "all":
        return
    run.gpus = ",".join(map(str, sorted(held | used)))
    Run.objects.filter(pk=run.pk).update(gpus=run.gpus)
    events.publish_change("server", run.server_id)


def _active(box: Box) -> list[ExternalRun]:
    found = Run.objects.filter_external().filter(server__box=box, state__in=LIVING)
    return list(found.select_related("server__box__hf_token", "version", *PARTS))


def _successor(
    server: ExternalServer, running: dict[str, ExternalWorkload]
) -> ExternalWorkload | None:
    """The container of the last run, started again, or who has taken the place of the last one."""
    last = server.run
    assert last is not None
    same = running.get(last.container_id)
    if same is not None:
        began = same.started_at
        return same if began and last.started_at and began > last.started_at else None
    busy = set(Run.objects.active().values_list("container_id", flat=True))
    for stranger in running.values():
        if stranger.identity == server.watches and stranger.key not in busy:
            return stranger
    return None


def note_wish_to_end(key: str, *, is_told: bool = True) -> None:
    """Somebody has told it, or Docker, that it is to end: that will be no failure.

    Not `is_told`: it goes on, and an end that comes now is its own.
    """
    mine = Run.objects.filter_external().filter(container_id=key, state__in=LIVING)
    mine.update(stop_requested_at=timezone.now() if is_told else None)


@verb
def look(run: ExternalRun, /, *, exit_code: int | None = None) -> None:
    """Record the end of a watched run's life. `exit_code` is what an event has said of it."""
    end, is_paused = external.find_end(run, exit_code=exit_code)
    if end is not None:
        _end(run, end.state, **end.fields)
    else:
        _note_pause(run, is_paused)


def _end(run: ExternalRun, state: RunState, **fields: Any) -> None:
    moved = Run.objects.filter(pk=run.pk).move(old=LIVING, new=state, **fields)
    if moved:
        run.refresh_from_db()
        events.publish_change("server", run.server_id)


def _note_pause(run: ExternalRun, is_paused: bool) -> None:
    said = PAUSED if is_paused else ""
    if run.status_message != said and (said or run.status_message == PAUSED):
        Run.objects.filter(pk=run.pk).update(status_message=said)
        events.publish_change("server", run.server_id)


@verb
def look_surely(run: ExternalRun, /, *, exit_code: int | None = None) -> None:
    """As look(), but a Docker that is away is said, and nothing is claimed."""
    try:
        look(run, exit_code=exit_code)
    except ContainerError as error:
        log.warning("run %s cannot be looked at: %s", run.pk, error)


def of_container(box: Box, container_id: str) -> ExternalRun | None:
    """The watched run of a container that lives."""
    return next((run for run in _active(box) if run.container_id == container_id), None)
