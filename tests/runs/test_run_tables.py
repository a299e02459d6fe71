"""A run and its four other tables: made together, changed together."""

import pytest
from django.core.exceptions import FieldDoesNotExist
from django.db import IntegrityError

from servers.models import Run, RunHealth
from servers.models.runs.run import PARTS, RunState
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return factories.run(factories.server(factories.box()), RunState.STARTING, attempts=2)


def test_a_run_is_made_with_a_row_in_each_table(run: Run) -> None:
    found = Run.objects.select_related(*PARTS).get(pk=run.pk)

    assert [getattr(found, part).pk for part in PARTS] == [run.pk] * 4
    assert (found.plan.attempts, found.health.requests_running) == (2, None)
    with pytest.raises(IntegrityError):
        RunHealth.objects.create(run=run)


def test_columns_of_several_tables_are_written_where_the_filters_hold(run: Run) -> None:
    mine = Run.objects.filter(pk=run.pk)

    assert mine.filter(state=RunState.READY).write(failure="no", log__lines=7) == 0
    assert mine.filter(state=RunState.STARTING).write(failure="yes", log__lines=8) == 1
    assert mine.move(old=[RunState.STARTING], new=RunState.READY, start__docker_run="a")
    assert not mine.move(old=[RunState.STARTING], new=RunState.FAILED, start__docker_run="b")

    run.refresh_from_db()
    assert (run.failure, run.log.lines, run.start.docker_run) == ("yes", 8, "a")
    assert run.state == RunState.READY


def test_what_one_table_refuses_is_written_in_none(run: Run) -> None:
    with pytest.raises(FieldDoesNotExist):
        Run.objects.filter(pk=run.pk).write(failure="half", log__lines=7, start__nothing=1)

    run.refresh_from_db()
    assert (run.failure, run.log.lines) == ("", 0)


def test_the_hot_row_stays_small() -> None:
    assert len(Run._meta.concrete_fields) <= 40
