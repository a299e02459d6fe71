"""A start that waits until its GPUs have the memory free that the profile names."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.judge.memory import pools
from servers.models import Box, Run, Server
from servers.models.runs.run import ManagedRun, RunState
from tests import factories, samples, shelves
from tests.base_images import ENGINE
from tests.samples import GIB

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis", "worker"),
]


def queued(box: Box, **launch: Any) -> ManagedRun:
    server = factories.server(
        box, **{"image": ENGINE, "gpus": "1,2", "free_memory": 60 * GIB, **launch}
    )
    run = lifecycle.start(server, by=None)
    assert run is not None
    return run


def holding(*held: float) -> dict[str, Any]:
    return samples.sample([samples.card(i, [(100 + i, each)]) for i, each in enumerate(held)], [])


def advanced(run: ManagedRun) -> ManagedRun:
    run = Run.objects.filter_managed().select_related("server__box", "version").get(pk=run.pk)
    lifecycle.advance(run)
    return Run.objects.filter_managed().get(pk=run.pk)


def card(of: Server) -> str:
    client = factories.log_in(factories.person())
    return " ".join(client.get("/").content.decode().split())


def test_it_waits_while_one_of_its_gpus_is_short(box: Box) -> None:
    run = queued(box)
    factories.tell(box, holding(90, 5, 84))

    run = advanced(run)

    assert run.state == RunState.QUEUED
    assert "GPU 2 has 11 of the 60 GiB free that it waits for." in card(run.server)
    assert "Waiting for the worker" not in card(run.server)
    assert run.start.creating_at is None

    factories.tell(box, holding(90, 5, 20))
    run = advanced(run)

    assert run.start.creating_at is not None, "GPU 0 is none of its GPUs"
    assert run.status_message == ""


def test_a_stop_ends_the_wait(box: Box) -> None:
    run = queued(box)
    factories.tell(box, holding(0, 90, 0))
    run = advanced(run)
    lifecycle.stop(run, by=None)

    run = advanced(run)

    assert (run.state, run.status_message) == (RunState.STOPPED, "")


def test_it_does_not_wait_for_ever(box: Box) -> None:
    run = queued(box, restart="on-failure")
    factories.tell(box, holding(0, 90, 0))
    Run.objects.filter(pk=run.pk).update(moved_at=timezone.now() - timedelta(minutes=11))

    run = advanced(run)

    assert run.state == RunState.FAILED
    assert run.failure.startswith("GPU 1 has 5 of the 60 GiB free that it waits for. It waited 10")
    assert run.restart_at is not None


@pytest.mark.parametrize("values", [{"gpus": "none"}, {"free_memory": 0}])
def test_who_needs_none_does_not_wait(values: dict[str, Any], box: Box) -> None:
    run = queued(box, **values)
    factories.tell(box, holding(95, 95, 95))

    assert advanced(run).start.creating_at is not None


def test_a_box_that_says_nothing_of_its_memory_is_not_waited_for(box: Box) -> None:
    run = queued(box)

    assert advanced(run).start.creating_at is not None


def test_after_a_pull_it_waits_too(box: Box) -> None:
    run = queued(box)
    pull = shelves.image_job(box, reference=ENGINE, state="done")
    Run.objects.filter(pk=run.pk).write(state=RunState.PULLING, start__pull=pull)
    factories.tell(box, holding(0, 90, 0))

    run = advanced(run)

    assert run.state == RunState.QUEUED
    assert "waits for" in run.status_message


def test_on_unified_memory_it_is_what_programs_may_still_have() -> None:
    said = samples.sample([samples.unified(51, [(1, 41.0)])], [])

    assert pools.compute_free(said, "all") == {0: int(51 * GIB)}
