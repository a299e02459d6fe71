"""Starts that wait for each other: in their order, with an end, and one load at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.lifecycle import QueueOptions
from servers.lifecycle.runs.ownership import require_managed
from servers.models import AuditEntry, Box, Run, Server
from servers.models.runs.run import ManagedRun, ManagedServer, RunState
from tests import factories, samples, shelves
from tests.base_images import ENGINE
from tests.samples import GIB

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis", "worker"),
]


def box(kind: str, count: int) -> Box:
    return factories.box("rtx8" if kind == "discrete" else "spark-1", gpus=count, kind=kind)


@pytest.fixture
def rtx8() -> Box:
    return box("discrete", 4)


@pytest.fixture
def spark() -> Box:
    return box("unified", 1)


def server(on: Box, name: str, gpus: str = "all", **launch: Any) -> ManagedServer:
    return factories.server(on, name, engine="llamacpp", image=ENGINE, gpus=gpus, **launch)


def queued(
    of: ManagedServer, *, waits: bool = True, minutes: int | None = None, by: str = "ada"
) -> ManagedRun:
    until = timezone.now() + timedelta(minutes=minutes) if minutes else None
    patience = QueueOptions(until=until) if waits else None
    run = lifecycle.start(of, by=factories.person(by), patience=patience)
    assert run is not None
    return run


def advanced(run: ManagedRun) -> ManagedRun:
    run = Run.objects.filter_managed().select_related("server__box", "version").get(pk=run.pk)
    lifecycle.advance(run)
    return Run.objects.filter_managed().get(pk=run.pk)


def has_begun(run: ManagedRun) -> bool:
    return run.start.creating_at is not None


def serves(on: Box, name: str = "glm-5", gpus: str = "0,1") -> ManagedRun:
    """A ready server of maria's, with memory on its cards."""
    run = factories.run(server(on, name, gpus), started_by=factories.person("maria"))
    held = [int(index) for index in gpus.split(",") if index.isdigit()] or [0, 1, 2, 3]
    cards = [samples.card(at, [(50 + at, 61.0)] if at in held else []) for at in range(4)]
    processes = [samples.process(50 + at, run.container_id) for at in held]
    factories.tell(on, samples.sample(cards, processes))
    return run


def end(run: ManagedRun, on: Box, state: RunState = RunState.STOPPED) -> None:
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=timezone.now())
    factories.tell(on, samples.sample([samples.card(at, []) for at in range(4)], []))


def test_a_start_waits_until_its_gpus_are_free(rtx8: Box) -> None:
    holder = serves(rtx8)
    run = advanced(queued(server(rtx8, "qwen")))

    assert (run.state, has_begun(run)) == (RunState.QUEUED, False)
    assert run.status_message == "It waits for GPUs 0-3, held by glm-5 (maria)."
    assert list(holder.waited_for_by.all()) == [run]

    end(holder, rtx8)
    run = advanced(run)

    assert has_begun(run)
    assert not holder.waited_for_by.exists()


def test_the_wait_is_no_part_of_the_time_to_ready(rtx8: Box) -> None:
    holder = serves(rtx8)
    run = advanced(queued(server(rtx8, "qwen")))
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(hours=2))
    end(holder, rtx8)
    run = advanced(run)

    assert run.turn_at is not None
    Run.objects.filter(pk=run.pk).update(state=RunState.READY, ready_at=timezone.now())
    run.refresh_from_db()
    shown = Server.objects.with_details().get(pk=run.server_id)

    for took in (run.time_to_ready, vars(shown)["last_time_to_ready"]):
        assert took is not None
        assert took < timedelta(minutes=5)


def test_a_wait_has_an_end_and_says_what_it_was_for(rtx8: Box) -> None:
    serves(rtx8)
    run = advanced(queued(server(rtx8, "qwen"), minutes=30))
    early = timezone.now() - timedelta(minutes=30, seconds=1)
    Run.objects.filter(pk=run.pk).update(created_at=early, waits_until=timezone.now())

    run = advanced(run)

    assert run.state == RunState.STOPPED
    said = "It waited 30 min, as it was told to, and was given up: glm-5 (maria) has GPUs 0-3."
    assert run.status_message == said
    assert AuditEntry.objects.filter(action="give up waiting", subject="qwen").exists()
    assert not run.waits_for.exists()


def test_who_is_told_no_end_waits_on(rtx8: Box) -> None:
    serves(rtx8)
    run = queued(server(rtx8, "qwen", free_memory=90 * GIB))
    long_ago = timezone.now() - timedelta(days=2)
    Run.objects.filter(pk=run.pk).update(created_at=long_ago, moved_at=long_ago)

    assert advanced(run).state == RunState.QUEUED
    full = samples.sample([samples.card(at, [(9, 12.0)]) for at in range(4)], [])
    factories.tell(rtx8, full)
    Run.objects.exclude(pk=run.pk).update(state=RunState.STOPPED)
    assert advanced(run).state == RunState.QUEUED


def test_a_stop_ends_the_wait(rtx8: Box) -> None:
    holder = serves(rtx8)
    run = advanced(queued(server(rtx8, "qwen")))
    lifecycle.stop(run, by=factories.person())

    run = advanced(run)

    assert (run.state, run.status_message) == (RunState.STOPPED, "")
    assert not holder.waited_for_by.exists()


def test_a_small_start_does_not_overtake_a_large_one(rtx8: Box) -> None:
    holder = serves(rtx8, gpus="0")
    large = advanced(queued(server(rtx8, "qwen", "0,1,2,3"), by="ivan"))
    small = advanced(queued(server(rtx8, "gemma-tiny", "3")))

    assert not has_begun(small)
    assert small.status_message == "It waits for GPU 3, and qwen (ivan) is first."

    end(holder, rtx8)
    assert not has_begun(advanced(small)), "it is still the large one's turn"
    large = advanced(large)
    assert has_begun(large)
    Run.objects.filter(pk=large.pk).update(state=RunState.STARTING)
    small = advanced(small)
    assert small.status_message.startswith("It waits until qwen (ivan) is ready:")


def test_who_waits_for_other_cards_is_nobodys_first(rtx8: Box) -> None:
    serves(rtx8)
    advanced(queued(server(rtx8, "qwen", "0,1")))

    assert has_begun(advanced(queued(server(rtx8, "gemma-tiny", "3"))))


def test_a_server_that_crashed_and_starts_again_keeps_its_gpus(rtx8: Box) -> None:
    holder = serves(rtx8)
    run = advanced(queued(server(rtx8, "qwen")))
    end(holder, rtx8, RunState.FAILED)
    Run.objects.filter(pk=holder.pk).update(restart_at=timezone.now() + timedelta(seconds=10))

    run = advanced(run)

    assert not has_begun(run)
    assert run.status_message == "It waits for GPUs 0-3, and glm-5 (maria) is first."
    lifecycle.call_off(require_managed(holder.server), by=None)
    assert has_begun(advanced(run))


def test_memory_that_is_on_its_way_back_is_waited_for(rtx8: Box) -> None:
    holder = serves(rtx8)
    run = queued(server(rtx8, "qwen"))
    end(holder, rtx8)
    Run.objects.filter(pk=holder.pk).write(start__memory_before={"pools": {}})

    waits = advanced(run)

    assert waits.status_message == "It waits for memory of glm-5 (maria) that is on its way back."
    Run.objects.filter(pk=holder.pk).update(released_at=timezone.now())
    assert has_begun(advanced(run))


def test_on_unified_memory_one_loads_at_a_time_whoever_starts_it(spark: Box) -> None:
    first = queued(server(spark, "glm-5"), waits=False)
    second = queued(server(spark, "qwen"), waits=False)

    assert not has_begun(advanced(second)), "both were asked for, and the first one's turn is first"
    assert has_begun(advanced(first))
    Run.objects.filter(pk=first.pk).update(state=RunState.STARTING)
    second = advanced(second)
    assert second.state == RunState.QUEUED
    assert "until glm-5 (ada) is ready" in second.status_message

    Run.objects.filter(pk=first.pk).update(state=RunState.READY)
    assert has_begun(advanced(second))


def test_what_inferdash_starts_by_itself_waits_its_turn_too(spark: Box) -> None:
    factories.run(server(spark, "glm-5"), RunState.STARTING)
    crashed = factories.run(server(spark, "qwen"), RunState.FAILED, ready_at=None)
    Run.objects.filter(pk=crashed.pk).update(restart_at=timezone.now())

    lifecycle.start_due(spark)
    again = Run.objects.filter_managed().filter(server=crashed.server).latest("pk")

    assert again.plan.attempts == 1
    again = advanced(again)
    assert (again.state, has_begun(again)) == (RunState.QUEUED, False)
    assert "until glm-5 (ada) is ready" in again.status_message


def test_all_that_start_with_the_box_load_one_after_the_other(spark: Box) -> None:
    runs = []
    for name in ("glm-5", "qwen", "gemma-tiny"):
        made = factories.run(server(spark, name), RunState.STOPPED, image_id="")
        Run.objects.filter(pk=made.pk).update(restart_at=timezone.now(), status_message="Boot.")
        runs.append(made)
    lifecycle.start_due(spark)
    again = [Run.objects.filter_managed().filter(server=run.server).latest("pk") for run in runs]

    for _round in range(2):
        again = [advanced(run) for run in again]

    assert [has_begun(run) for run in again].count(True) == 1


def test_a_start_that_somebody_insists_on_waits_for_nobody(spark: Box) -> None:
    factories.run(server(spark, "glm-5"), RunState.STARTING)
    run = lifecycle.start(server(spark, "qwen"), by=factories.person(), despite="it is small")

    assert run is not None
    assert has_begun(advanced(run))


def test_a_pulled_image_goes_back_to_wait(spark: Box) -> None:
    factories.run(server(spark, "glm-5"), RunState.STARTING)
    run = queued(server(spark, "qwen"), waits=False)
    pull = shelves.image_job(spark, reference=ENGINE, state="done")
    Run.objects.filter(pk=run.pk).write(state=RunState.PULLING, start__pull=pull)

    run = advanced(run)

    assert (run.state, has_begun(run)) == (RunState.QUEUED, False)


def test_on_unified_memory_it_waits_for_bytes(spark: Box) -> None:
    """What the profile wants to find free; nobody is in the way of one that has it."""
    holder = factories.run(server(spark, "glm-5"), started_by=factories.person("maria"))
    gpu = samples.unified(20, [(50, 61.0)])
    factories.tell(spark, samples.sample([gpu], [samples.process(50, holder.container_id)]))
    run = advanced(queued(server(spark, "qwen", free_memory=32 * GIB)))

    assert run.status_message == (
        "It waits for 12 GiB more of the memory that GPU and machine share; glm-5 (maria) has it."
    )
    factories.tell(spark, samples.sample([samples.unified(80, [])], []))
    assert has_begun(advanced(run))
