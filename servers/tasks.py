"""Celery's entry points. A task is a nudge: an id, acknowledged early, that may be lost.

What is to be done stands in the run's row, and the watcher does it if no task came.
"""

import logging
from functools import partial

from celery import shared_task
from celery.contrib.django.task import DjangoTask
from django.db import transaction
from kombu.exceptions import OperationalError

from servers import lifecycle
from servers.models import Run

log = logging.getLogger(__name__)


@shared_task(base=DjangoTask, ignore_result=True, name="servers.advance")
def advance(run_id: int) -> None:
    run = Run.objects.select_related("server__box", "version").filter(pk=run_id).first()
    if run is None:
        log.info("run %s is gone", run_id)
        return
    lifecycle.advance(run)


def nudge(run: Run) -> None:
    """Ask the run's box to look at it, once the row is committed."""
    transaction.on_commit(partial(_send, run.pk, run.server.box.queue))


def _send(run_id: int, queue: str) -> None:
    try:
        advance.apply_async(args=(run_id,), queue=queue, retry=False, expires=60)
    except OperationalError as error:
        # The person's wish is in the database, so this is a delay of seconds, not a failure.
        log.warning("Redis is away; the watcher will find run %s by itself: %s", run_id, error)
