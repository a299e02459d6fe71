"""Celery's entry points. A task is a nudge: an id, acknowledged early, that may be lost.

What is to be done stands in the run's row, and the watcher does it if no task came.
"""

import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import redis
from celery import Task, shared_task
from celery.contrib.django.task import DjangoTask
from celery.signals import before_task_publish, task_prerun, task_revoked, worker_ready
from django import db
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from servers import lifecycle
from servers.host.docker.containers import ContainerError
from servers.judge.runs.limits import LimitsError
from servers.launch.engines.placement import Place, VolumeError
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import creation, starts
from servers.lifecycle.weights import deletion, downloads, inventory
from servers.models import Box, Run, StoredCheckpoint
from servers.models.runs.run import PARTS
from servers.state import store

log = logging.getLogger(__name__)

# Seconds in which a worker that is there has looked.
MOUNTS_WITHIN = 2.0
TRIED = "Tried which rights Docker takes from containers."


class BoxTask(DjangoTask):  # type: ignore[type-arg]
    """A database that is away is a line in the log, and no fault of ours."""

    throws = (db.OperationalError, db.InterfaceError)


@shared_task(base=BoxTask, ignore_result=True, name="servers.advance")
def advance(run_id: int) -> None:
    runs = Run.objects.filter_managed().select_related("server__box", "version", *PARTS)
    run = runs.filter(pk=run_id).first()
    if run is None:
        log.info("run %s is gone", run_id)
        return
    lifecycle.advance(run)


@before_task_publish.connect
def note_sent(routing_key: str, **_: object) -> None:
    try:
        store.note_sent(routing_key)
    except redis.RedisError as error:
        # The request itself is about to meet the same.
        log.debug("could not note a request to %s: %s", routing_key, error)


# One that is too old to be done is taken, too.
@worker_ready.connect
@task_prerun.connect
@task_revoked.connect
def note_taken(**_: object) -> None:
    try:
        store.note_taken(Box(slug=settings.BOX).queue)
    except redis.RedisError as error:
        log.warning("could not note that this worker takes requests: %s", error)


@worker_ready.connect
def look_at_docker(**_: object) -> None:
    """What Docker can take from containers is known before the first start asks for it."""
    threading.Thread(target=_look_at_docker, name="hardening", daemon=True).start()


def _look_at_docker() -> None:
    try:
        starts.list_unsupported(creation.docker())
    except ContainerError as error:
        log.warning("what Docker can take from containers is tried at the next start: %s", error)
    else:
        log.info(TRIED)


@shared_task(base=BoxTask, ignore_result=True, name="servers.look_at_paths")
def look_at_paths(asked: str, paths: list[str], home: str, hf_cache: str) -> None:
    try:
        path_reports.answer(asked, paths, home=home, hf_cache=hf_cache)
    except (LimitsError, VolumeError, OSError, redis.RedisError) as error:
        # Who asked says that there was no answer.
        log.warning("could not look at the paths of a launch: %s", error)


def ask_for_paths(box: Box, wanted: Sequence[Place]) -> None:
    args = (
        path_reports.question(box, wanted),
        [each.path for each in wanted],
        box.home,
        box.hf_cache,
    )
    _send_question(look_at_paths, box, args)


def look_at_mounts(context: LaunchContext) -> None:
    """Have the box say what it mounts, where that is not plain: preflight reads its answer."""
    if wanted := context.mounts_to_ask:
        ask_for_paths(context.box, wanted)
        context.wait_for_answer(context.paths_question, seconds=MOUNTS_WITHIN)


def mount_refusal(box: Box, path: str) -> str:
    """Why the box mounts this folder nowhere; "" where it does, or does not answer in time."""
    wanted = (Place(path=path, of="volumes"),)
    if box.is_silent:
        return ""
    ask_for_paths(box, wanted)
    told = path_reports.wait_for_reports(box, wanted, seconds=MOUNTS_WITHIN)
    return told[0].refusal if told else ""


@shared_task(base=BoxTask, ignore_result=True, name="servers.look_at_checkpoint")
def look_at_checkpoint(name: str, slug: str, home: str, hf_cache: str) -> None:
    try:
        inventory.answer(name, Box(slug=slug, home=home, hf_cache=hf_cache))
    except (LimitsError, VolumeError, OSError, redis.RedisError) as error:
        log.warning("could not look at the checkpoint of a launch: %s", error)


def ask_for_checkpoint(box: Box, name: str) -> None:
    _send_question(look_at_checkpoint, box, (name, box.slug, box.home, box.hf_cache))


@shared_task(base=BoxTask, ignore_result=True, name="servers.look_at_hub")
def look_at_hub(asked: str, slug: str, repository: str, revision: str) -> None:
    box = Box.objects.filter(slug=slug).first()
    if box is None:
        return
    try:
        downloads.answer(asked, box, repository, revision)
    except redis.RedisError as error:
        log.warning("could not tell what the Hub has: %s", error)


def ask_hub(box: Box, asked: str, repository: str, revision: str) -> None:
    _send_question(look_at_hub, box, (asked, box.slug, repository, revision), expires=30)


@shared_task(base=BoxTask, ignore_result=True, name="servers.look_at_stored")
def look_at_stored(asked: str, pk: int) -> None:
    """What goes with a model that somebody thinks of deleting."""
    stored = StoredCheckpoint.objects.select_related("box").filter(pk=pk).first()
    if stored is None:
        return
    try:
        deletion.answer(asked, stored)
    except redis.RedisError as error:
        log.warning("could not tell what goes with a model: %s", error)


def ask_about_stored(stored: StoredCheckpoint, asked: str) -> None:
    _send_question(look_at_stored, stored.box, (asked, stored.pk))


def _send_question(
    task: Task[..., None], box: Box, args: tuple[Any, ...], *, expires: int = 10
) -> None:
    """Who asked says that there was no answer, where it cannot be sent; so many seconds."""
    try:
        task.apply_async(args=args, queue=box.queue, retry=False, expires=expires)
    except OperationalError as error:
        log.warning("Redis is away: %s", error)


def nudge(run: Run) -> None:
    """Ask the run's box to look at it, once the row is committed."""
    transaction.on_commit(partial(_send, run.pk, run.server.box.queue))


def _send(run_id: int, queue: str) -> None:
    try:
        advance.apply_async(args=(run_id,), queue=queue, retry=False, expires=60)
    except OperationalError as error:
        # The person's wish is in the database, so this is a delay of seconds, not a failure.
        log.warning("Redis is away; the watcher will find run %s by itself: %s", run_id, error)
