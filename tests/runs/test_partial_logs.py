"""Failed runs whose log never became whole: what can be said is said after a while."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.lifecycle.logs.diagnoses import PATIENCE
from servers.models import Box, LogChunk, Run
from tests import factories
from tests.runs.test_failed_runs import OOM, failed, looked

pytestmark = pytest.mark.django_db


def unread(log: str = OOM, *, ago: timedelta = PATIENCE * 2, **values: Any) -> Run:
    return failed(log, is_complete=False, ended_at=timezone.now() - ago, **values)


def test_it_is_judged_by_what_there_is() -> None:
    run = looked(unread())

    assert (run.log.cause, run.log.diagnosis["is_partial"]) == ("cuda-oom", True)


def test_it_is_given_time_first() -> None:
    assert looked(unread(ago=PATIENCE / 2)).log.diagnosis == {}


def test_the_last_lines_that_docker_gave_count_where_the_log_lacks_them() -> None:
    start, rest = OOM.split("\n")[0], OOM.split("\n")[1:]
    run = looked(unread(start, last_lines=[start, *rest]))

    assert run.log.cause == "cuda-oom"
    assert run.log.diagnosis["evidence"][0][0] == 0


def test_it_is_judged_again_when_the_rest_comes() -> None:
    run = looked(unread("", last_lines=["nothing that tells"]))
    assert run.log.cause == ""
    assert run.log.diagnosis["is_partial"]
    same = looked(run)
    assert same.log.diagnosis == run.log.diagnosis

    stamp = b"2026-11-21T08:00:00.000000000Z e "
    records = [stamp + line.encode() for line in OOM.split("\n")]
    LogChunk.objects.append(run.pk, 0, records)
    Run.objects.filter(pk=run.pk).write(log__is_complete=True)
    again = looked(run)
    assert (again.log.cause, again.log.diagnosis["is_partial"]) == ("cuda-oom", False)


def test_the_page_says_that_a_part_was_missing(client: Client) -> None:
    run = looked(unread())
    client.force_login(factories.person())

    page = client.get(f"/servers/{run.server.slug}/").content.decode()
    assert "GPU memory ran out" in page
    assert "Judged by a part of its log" in page


def test_the_page_says_who_has_to_come_back_for_a_cause(client: Client) -> None:
    run = unread(ago=PATIENCE / 2)
    client.force_login(factories.person())
    address = f"/servers/{run.server.slug}/"
    assert "Its log is still being read" in client.get(address).content.decode()

    Box.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    assert "when its watcher runs again" in client.get(address).content.decode()
