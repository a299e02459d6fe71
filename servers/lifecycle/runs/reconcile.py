"""Reconciliation: the steps that bring a run to the desired state.

Every move is short, may be repeated, and is won by one caller only: the worker moves on a
nudge, the watcher on events and every few seconds, and neither knows of the other.
"""

import logging
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers import events
from servers.host.docker.containers import Container, ContainerError
from servers.judge.memory import pools
from servers.launch import numbers
from servers.launch.engines.placement import CardsError
from servers.lifecycle import memory
from servers.lifecycle.images import work
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.runs import (
    commands,
    creation,
    gpu_conflicts,
    out_of_band,
    restart_policy,
    starts,
)
from servers.lifecycle.runs.creation import lock_creation
from servers.lifecycle.runs.ownership import require_managed, verb
from servers.models import Box, Run
from servers.models.jobs import JobState
from servers.models.runs.run import DesiredState, ManagedRun, RunState
from servers.state import samples

log = logging.getLogger(__name__)

TAIL = 20  # lines
# Characters: the page of a failed run shows them all; the log has the rest.
LONGEST_LAST_LINE = 4000


@verb
def advance(run: ManagedRun, /) -> None:
    """Take the next step of a run, whatever it is."""
    if run.wanted != DesiredState.RUNNING:
        _wind_down(run)
    elif run.state == RunState.QUEUED:
        _begin(run)
    elif run.state == RunState.PULLING:
        _await_pull(run)
    elif run.state == RunState.CREATING:
        _create(run, old=RunState.CREATING)
    elif run.state in (RunState.STARTING, RunState.READY, RunState.STOPPING):
        observe(run)
        check_limit(run)


def _begin(run: ManagedRun) -> None:
    try:
        image = creation.image(run)
    except starts.SecretsError as refusal:
        _fail(run, str(refusal))
        return
    except ContainerError as error:
        if error.is_undecided and (run.waits or not gpu_conflicts.is_out_of_patience(run)):
            _wait_for_docker(run, error)
        else:
            _fail(run, str(error), detail=error.detail, may_pass=True)
        return
    if image is not None:
        if _has_room(run):
            _create(run, old=RunState.QUEUED)
    elif _move(run, old=[RunState.QUEUED], new=RunState.PULLING, start__pull=None):
        _await_pull(run)


def _has_room(run: ManagedRun) -> bool:
    """Whether what it waits for is free; if not, that is told, and not for ever."""
    try:
        wait = gpu_conflicts.check_turn(run)
    except CardsError as error:
        _fail(run, str(error))
        return False
    if wait and run.waits and gpu_conflicts.is_over(run):
        _move(run, old=[RunState.QUEUED], new=RunState.STOPPED, **gpu_conflicts.given_up(run, wait))
    elif wait and not run.waits and not wait.is_for_turn and gpu_conflicts.is_out_of_patience(run):
        minutes = int(gpu_conflicts.PATIENCE.total_seconds() / 60)
        advice = f"The page of {run.server.box} says who holds the rest."
        _fail(run, f"{wait} It waited {minutes} minutes. {advice}", may_pass=True)
    elif str(wait) != run.status_message:
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(status_message=str(wait))
        events.publish_change("server", run.server_id)
    return not wait


def _await_pull(run: ManagedRun) -> None:
    """A pull can take an hour: it is a job of the watcher's, whose end wakes whoever calls this."""
    job = work.find_or_request_pull(run)
    if job is None or job.is_open:
        return
    if job.state == JobState.DONE:
        _finish_pull(run)
    elif job.state == JobState.CANCELLED:
        _fail(run, f"The pull of {job.subject} was cancelled. Start again to pull it.")
    else:
        _fail(run, job.said, detail=job.detail, may_pass=True)


def _finish_pull(run: ManagedRun) -> None:
    """The image is there now."""
    if not run.version.launch.free_memory and not run.waits:
        _create(run, old=RunState.PULLING)
    elif _move(run, old=[RunState.PULLING], new=RunState.QUEUED):
        _begin(run)


def _create(run: ManagedRun, *, old: RunState) -> None:
    """Make the container, or go on where somebody who died meanwhile has left off."""
    with lock_creation(run) as is_ours:
        if not is_ours:
            return
        if old == RunState.CREATING:
            run.refresh_from_db()
        elif not _take_turn(run, old):
            return
        if run.state != RunState.CREATING or not _make(run, is_again=old == RunState.CREATING):
            return
    events.wake_watcher(run.server.box.slug, events.Topic.RUNS)
    run.refresh_from_db()
    if run.wanted != DesiredState.RUNNING:
        _wind_down(run)


def _take_turn(run: ManagedRun, old: RunState) -> bool:
    """Go on to *creating*, or back to wait for who has got there first."""
    with gpu_conflicts.lock_queue(run) as is_alone:
        new = RunState.CREATING if is_alone else RunState.QUEUED
        if new == old or not _move(run, old=[old], new=new):
            return False
    events.publish_change("server", run.server_id)  # now others can see it, too
    if is_alone:
        gpu_conflicts.leave_queue(run)
    return is_alone


def _make(run: ManagedRun, *, is_again: bool) -> bool:
    sample = None
    try:
        if not is_again or creation.find(run) is None:
            creation.remove_predecessors(run)
            gpu_conflicts.drop_cache(run)
            sample = samples.newest(run.server.box.slug)
        around = diagnoses.surroundings(run)
        made = creation.create(run)
    except starts.SecretsError as refusal:
        _fail(run, str(refusal))
        return False
    except ContainerError as error:
        if error.is_undecided:
            _wait_for_docker(run, error)
        else:
            _fail(run, str(error), detail=error.detail, may_pass=True)
        return False
    return _move(
        run,
        old=[RunState.CREATING],
        new=RunState.STARTING,
        status_message="",
        container_id=made.container.id,
        image_id=made.container.image_id,
        start__image_digest=made.image_digest,
        start__command=made.command,
        start__docker_run=made.docker_run,
        address=made.address,
        port=made.port,
        served_name=made.served_name,
        started_at=made.container.started_at or timezone.now(),
        start__unattributed_at_start=pools.compute_unheld(sample),
        start__memory_before=memory.measure_before(run, sample, made.container.started_at),
        start__around={**run.start.around, **around},
    )


def _wait_for_docker(run: Run, error: ContainerError) -> None:
    """Nobody knows yet what Docker did or would do: that is no failure of the run."""
    log.warning("run %s waits: %s", run.pk, error)
    said = f"{error} Then the start goes on."
    waits = Run.objects.filter(pk=run.pk, state__in=[RunState.QUEUED, RunState.CREATING])
    if waits.exclude(status_message=said).update(status_message=said):
        events.publish_change("server", run.server_id)


def reached_ready(run: Run, *, engine_version: str) -> bool:
    """The engine answers and lists its model. False if somebody else moved the run first."""
    return _move(
        run,
        old=[RunState.STARTING],
        new=RunState.READY,
        ready_at=timezone.now(),
        start__engine_version=engine_version,
        # Only now is a checkpoint that the engine itself downloads complete.
        start__checkpoint_revision=creation.checkpoint_revision(run),
    )


@verb
def check_limit(run: ManagedRun, /) -> None:
    """Stop a start that takes longer than its profile allows. No profile does unless it says so."""
    limit = run.version.launch.ready_limit
    is_starting = run.state == RunState.STARTING and run.wanted == DesiredState.RUNNING
    if not limit or not is_starting or run.started_at is None:
        return
    if timezone.now() - run.started_at <= timedelta(seconds=limit):
        return
    sentence = (
        f"It was not ready within {numbers.format_duration(limit)}, the limit of its profile, so inferdash "
        "stopped it. The log says how far it got; if it only needs longer, raise the limit."
    )
    still = Run.objects.filter(pk=run.pk, state=RunState.STARTING, wanted=DesiredState.RUNNING)
    if still.update(
        wanted=DesiredState.STOPPED, given_up=sentence, stop_requested_at=timezone.now()
    ):
        run.refresh_from_db()
        events.publish_change("server", run.server_id)
        _wind_down(run)


def _wind_down(run: ManagedRun) -> None:
    if run.state in (RunState.QUEUED, RunState.PULLING):
        ended = {"ended_at": timezone.now(), "status_message": ""}
        if _move(run, old=[RunState.QUEUED, RunState.PULLING], new=RunState.STOPPED, **ended):
            work.let_go_of_pull(run)
            gpu_conflicts.leave_queue(run)
            _follow_up(run)
    elif run.state == RunState.CREATING:
        # Whoever creates looks at what is wanted as soon as Docker has answered.
        with lock_creation(run) as is_ours:
            if is_ours:
                _abandon_creation(run)
    elif run.state in (RunState.STARTING, RunState.READY):
        if (
            run.wanted == DesiredState.DRAINED
            and run.state == RunState.READY
            and run.health.requests_running
        ):
            return
        grace = timedelta(seconds=run.version.launch.grace)
        if _move(
            run,
            old=[RunState.STARTING, RunState.READY],
            new=RunState.STOPPING,
            kill_at=timezone.now() + grace,
        ):
            _signal(run, "SIGTERM")
        observe(run)
    elif run.state == RunState.STOPPING:
        if run.kill_at is not None and timezone.now() >= run.kill_at:
            _signal(run, "SIGKILL")
        observe(run)


def _abandon_creation(run: ManagedRun) -> None:
    """Its maker is gone; what that has left behind is ended, too."""
    try:
        found = creation.find(run)
        if found is not None and found.state == "created":
            creation.docker().remove(found.id)
            found = None
    except ContainerError as error:
        log.warning("run %s cannot be looked for: %s", run.pk, error)
        return
    if found is None:
        ended = {"ended_at": timezone.now(), "status_message": ""}
        if _move(run, old=[RunState.CREATING], new=RunState.STOPPED, **ended):
            _follow_up(run)
        return
    if _move(
        run,
        old=[RunState.CREATING],
        new=RunState.STARTING,
        status_message="",
        container_id=found.id,
        image_id=found.image_id,
        started_at=found.started_at,
    ):
        _wind_down(run)


def _signal(run: ManagedRun, name: str) -> None:
    try:
        creation.docker().signal(run.container_id, name)
    except ContainerError as error:
        # It may just have ended by itself, which observe() will see; anything else is
        # tried again on the next round and must be visible until then.
        log.warning("run %s: %s: %s", run.pk, name, error)


@verb
def observe(run: ManagedRun, /) -> None:
    """Look at the run's container and record an end that it has come to."""
    if run.state not in (RunState.STARTING, RunState.READY, RunState.STOPPING):
        return
    try:
        container = creation.docker().inspect(run.container_id)
        if container is not None and not container.has_ended:
            out_of_band.note_pause(run, container)
            return
        tail = creation.docker().tail(container.id, TAIL) if container else []
        # Whoever asked for this end did so before it came, and maybe after the row was read.
        run.refresh_from_db()
        if container is None:
            _end_vanished(run)
        else:
            _end_run(run, container, tail)
    except Run.DoesNotExist:
        return  # deleted meanwhile: there is nothing left to say of it
    except ContainerError as error:
        # Docker is away: nothing is known, so nothing is claimed.
        log.warning("run %s cannot be looked at: %s", run.pk, str(error))


def _end_vanished(run: ManagedRun) -> None:
    active = [RunState.STARTING, RunState.READY, RunState.STOPPING]
    now = timezone.now()
    if run.given_up:
        fields = {"failure": run.given_up, "ended_at": now, **restart_policy.plan(run)}
        moved = _move(run, old=active, new=RunState.FAILED, **fields)
    elif run.wanted != DesiredState.RUNNING:
        moved = _move(run, old=active, new=RunState.STOPPED, ended_at=now)
    else:
        moved = _move(
            run,
            old=active,
            new=RunState.STOPPED,
            ended_at=now,
            status_message=restart_policy.REMOVED,
        )
    if moved:
        _follow_up(run)


def went_down_with_box(run: Run, container: Container | None, tail: list[str]) -> bool:
    """Its box was restarted: nobody's wish and no failure. False if somebody moved it first."""
    seen = _collect_ending(run, container, tail) if container else {"ended_at": timezone.now()}
    return _move(run, old=[RunState.STARTING, RunState.READY], new=RunState.STOPPED, **seen)


def _collect_ending(run: Run, container: Container, tail: list[str]) -> dict[str, Any]:
    return {
        "exit_code": container.exit_code,
        "oom_killed": container.oom_killed,
        "log__last_lines": [starts.mask_secrets(run, line)[:LONGEST_LAST_LINE] for line in tail],
        "ended_at": container.finished_at or timezone.now(),
    }


def _end_run(run: ManagedRun, container: Container, tail: list[str]) -> None:
    seen = _collect_ending(run, container, tail)
    active = [RunState.STARTING, RunState.READY, RunState.STOPPING]
    if run.given_up:
        seen |= restart_policy.plan(run)
        moved = _move(run, old=active, new=RunState.FAILED, failure=run.given_up, **seen)
    elif run.wanted != DesiredState.RUNNING:
        moved = _move(run, old=active, new=RunState.STOPPED, **seen)
    else:
        moved = _move_unasked(run, container, seen)
    if moved:
        _follow_up(run)


def _move_unasked(run: ManagedRun, container: Container, seen: dict[str, Any]) -> bool:
    """Nobody has asked inferdash for this end: perhaps somebody has asked Docker."""
    ended = container.finished_at or timezone.now()
    asked = creation.docker().was_told_to_end(container.id, began=container.started_at, ended=ended)
    judged = restart_policy.judge_exit(run.ready_at, container, asked=asked)
    active = [RunState.STARTING, RunState.READY, RunState.STOPPING]
    if judged.state is RunState.FAILED:
        if run.ready_at or container.exit_code not in restart_policy.NO_PROGRAM:
            seen |= restart_policy.plan(run)
        return _move(run, old=active, new=RunState.FAILED, failure=judged.says, **seen)
    # What a restart of Docker has ended is wanted as before.
    plan = {} if judged.is_sure else restart_policy.plan(run)
    plan["status_message"] = " ".join(filter(None, (judged.says, plan.get("status_message"))))
    return _move(run, old=active, new=RunState.STOPPED, **seen, **plan)


def clear(box: Box) -> None:
    """Delete the containers that removed servers left; runs and logs stay.

    What an engine wrote last may still be on its way to the database: its container stays
    until the log is complete.
    """
    left = Run.objects.filter_managed().filter(
        server__box=box, server__removed_at__isnull=False, log__is_complete=True
    )
    try:
        for run in left.exclude(container_id="").fetch_any():
            creation.remove_container(run)
    except ContainerError as error:
        log.warning("Containers of removed servers stay for now: %s", error)


def _follow_up(run: ManagedRun) -> None:
    """Restart asked for a successor."""
    run.refresh_from_db()
    if run.restart_for is None or not (run.state == RunState.STOPPED or run.given_up):
        return
    server = require_managed(run.server)
    if server.run_id != run.pk:
        return
    successor = commands.start(
        server, by=run.restart_for, despite=run.plan.restart_overridden_errors
    )
    if successor is not None:
        advance(successor)


def _fail(run: ManagedRun, sentence: str, *, detail: str = "", may_pass: bool = False) -> None:
    """`may_pass`: the reason is none of the profile's, so that another try may succeed."""
    _move(
        run,
        old=[RunState.QUEUED, RunState.PULLING, RunState.CREATING],
        new=RunState.FAILED,
        failure=starts.mask_secrets(run, sentence),
        failure_detail=starts.mask_secrets(run, detail),
        ended_at=timezone.now(),
        **({"status_message": ""} | (restart_policy.plan(run) if may_pass else {})),
    )


def _move(run: Run, *, old: list[RunState], new: RunState, **fields: Any) -> bool:
    moved = Run.objects.filter(pk=run.pk).move(old=old, new=new, **fields)
    if moved:
        run.refresh_from_db()
        events.publish_change("server", run.server_id)
        if new in (RunState.STARTING, RunState.READY):
            # What it has mounted, pulled or downloaded is to stand on the pages of models and images.
            topics = (
                events.Topic.RUNS,
                events.Topic.CHECKPOINTS,
                events.Topic.MODELS,
                events.Topic.IMAGES,
            )
            events.wake_watcher(run.server.box.slug, *topics)
    return moved
