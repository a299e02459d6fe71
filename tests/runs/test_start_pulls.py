"""A start whose image is missing waits for a pull, which is a job like any other."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.lifecycle.images import work
from servers.lifecycle.jobs import commands
from servers.lifecycle.runs import creation
from servers.models import AuditEntry, Box, ImageJob, Run
from servers.models.jobs import JobState
from servers.models.runs.run import ManagedRun, RunState
from tests import factories, jobs, shelves
from tests.registry import registry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

IMAGE = "vllm/vllm-openai:v0.20.2"


@pytest.fixture
def box() -> Box:
    return factories.box("rtx8")


def pulling(on: Box, name: str = "qwen3-8b", **launch: Any) -> ManagedRun:
    """A start that has just found its image missing, asked for by ada."""
    of = factories.server(on, name, **{"image": IMAGE, **launch})
    return advanced(factories.run(of, RunState.PULLING, pulling_at=timezone.now()))


def advanced(run: ManagedRun) -> ManagedRun:
    """After the worker or watcher has looked at it."""
    lifecycle.advance(fresh(run))
    return fresh(run)


def fresh(run: ManagedRun) -> ManagedRun:
    return Run.objects.filter_managed().select_related("server__box", "version").get(pk=run.pk)


def page() -> str:
    client = Client()
    client.force_login(factories.person())
    return " ".join(client.get("/").content.decode().split())


@pytest.mark.docker
@pytest.mark.usefixtures("worker")
def test_starts_of_one_image_wait_for_one_pull(box: Box, docker: DockerContainers) -> None:
    with registry(docker.facts().architecture) as store:
        servers = [
            factories.server(box, name, image=store.image, gpus="none") for name in ("one", "two")
        ]
        runs = [lifecycle.start(each, by=factories.person()) for each in servers]
        first, second = [advanced(each) for each in runs if each is not None]
        job = ImageJob.objects.get()
        assert (first.state, second.state) == (RunState.PULLING, RunState.PULLING)
        assert (first.start.pull, second.start.pull) == (job, job)

        jobs.obey(box)
        job.refresh_from_db()
        assert job.state == "done"
        for run in (first, second):
            after = advanced(run)
            assert after.state == RunState.STARTING or "does not contain" in after.failure
            with suppress(ContainerError):
                creation.remove_container(after)
        docker.drop_image(job.image_id)
    said = list(AuditEntry.objects.filter(action__contains="image").order_by("pk"))
    assert [each.action for each in said] == ["pull image", "pull image done"]
    assert said[0].by == factories.person()


def test_its_page_tells_how_far_the_pull_is(box: Box) -> None:
    run = pulling(box)
    assert f"The pull of {IMAGE} waits for its turn" in page()
    job = ImageJob.objects.get()

    job.write(state=JobState.DOING)
    assert f"Asking the registry for {IMAGE}" in page()

    job.write(done=2**30, total=4 * 2**30)
    assert "1.0 of 4.0 GiB of the image" in page()
    assert advanced(run).state == RunState.PULLING


def test_a_stop_ends_the_pull_that_nobody_else_waits_for(box: Box) -> None:
    first, second = pulling(box, "one"), pulling(box, "two")
    job = ImageJob.objects.get()

    for run, is_open in ((first, True), (second, False)):
        assert lifecycle.stop(run, by=factories.person())
        assert advanced(run).state == RunState.STOPPED
        job.refresh_from_db()
        assert job.is_open is is_open


def test_a_stop_leaves_the_pull_that_a_person_has_asked_for(box: Box) -> None:
    """Before the start, while it waits, or by doing once more what has failed."""
    failed = shelves.image_job(box, reference=IMAGE, state="failed")
    asks: tuple[Callable[[], object], ...] = (
        lambda: work.ask_to_pull(box, IMAGE, by=factories.person()),
        lambda: work.ask_again(failed, by=factories.person()),
    )
    for number, (ask, is_first) in enumerate(product(asks, (True, False))):
        if is_first:
            assert ask() is not None
        run = pulling(box, f"server-{number}")
        if not is_first:
            assert ask() is None
        assert lifecycle.stop(run, by=factories.person())
        assert advanced(run).state == RunState.STOPPED
        job = ImageJob.objects.open().get()
        assert (job, job.for_start, job.wanted) == (run.start.pull, False, "go")
        job.move(JobState.DONE)


def test_a_start_that_is_stopped_meanwhile_leaves_no_pull(box: Box) -> None:
    before = factories.run(factories.server(box, image=IMAGE), RunState.PULLING)
    late = fresh(before)
    assert lifecycle.stop(before, by=factories.person())

    lifecycle.advance(late)

    assert not ImageJob.objects.open().exists()
    assert advanced(before).state == RunState.STOPPED


def test_a_pull_that_fails_fails_the_start_which_is_planned_again(box: Box) -> None:
    run = pulling(box, restart="on-failure")
    said, detail = "The registry does not answer.", "dial tcp: i/o timeout"
    ImageJob.objects.get().move(JobState.FAILED, said=said, detail=detail)

    run = advanced(run)

    assert (run.state, run.failure, run.failure_detail) == (RunState.FAILED, said, detail)
    assert run.restart_at is not None


def test_a_pull_that_somebody_cancels_fails_the_start_for_good(box: Box) -> None:
    run = pulling(box, restart="on-failure")
    assert commands.cancel(ImageJob.objects.get(), by=factories.person("grace"))

    run = advanced(run)

    assert (run.state, run.restart_at) == (RunState.FAILED, None)
    assert run.failure == f"The pull of {IMAGE} was cancelled. Start again to pull it."


@pytest.mark.docker
@pytest.mark.usefixtures("worker")
def test_a_start_goes_on_when_the_watcher_is_replaced_in_the_middle_of_its_pull(box: Box) -> None:
    run = pulling(box)
    cut = ImageJob.objects.get()
    cut.write(state=JobState.DOING)
    jobs.obey(box)  # another watcher, which does not know it
    cut.refresh_from_db()
    assert (cut.state, cut.was_cut) == ("failed", True)

    run = advanced(run)

    assert run.state == RunState.PULLING
    assert run.start.pull == ImageJob.objects.open().get()


def test_a_start_pulls_what_a_person_has_yet_to_decide_on(box: Box) -> None:
    held = shelves.image_job(box, reference=IMAGE, state="held", ended_at=None)

    run = pulling(box)

    held.refresh_from_db()
    assert (run.start.pull, held.state, held.despite) == (held, "asked", True)


def test_a_pull_that_is_held_after_a_start_has_joined_it_goes_on(box: Box) -> None:
    """Also one of a newer build, which would hold the start of its tag without end."""
    joins: tuple[tuple[dict[str, Any], bool], ...] = (
        ({}, True),
        ({"params": {"digest": shelves.image_id(7)}}, False),
    )
    for number, (values, is_joined) in enumerate(joins):
        job = shelves.image_job(box, reference=IMAGE, state="doing", ended_at=None, **values)
        run = pulling(box, f"server-{number}")
        assert run.start.pull == (job if is_joined else None)
        job.write(state=JobState.HELD, said="There is no room for it.")

        run = advanced(run)

        job.refresh_from_db()
        assert (job.state, job.despite, job.asked_by) == ("asked", True, run.started_by)
        assert AuditEntry.objects.filter(action="pull image despite").count() == number + 1
        job.move(JobState.DONE)


def test_what_brings_something_else_is_waited_out(box: Box) -> None:
    """A newer build beside the tag, and a pull that is about to be cancelled."""
    others: tuple[dict[str, Any], ...] = (
        {"params": {"digest": shelves.image_id(7)}},
        {"wanted": "cancelled", "params": {"for_start": True}},
    )
    for number, values in enumerate(others):
        other = shelves.image_job(box, reference=IMAGE, state="doing", ended_at=None, **values)
        run = pulling(box, f"server-{number}")
        assert run.start.pull is None
        assert f'Waits for another job on {IMAGE}: see <a href="/images/">Images</a>.' in page()

        other.move(JobState.DONE)
        run = advanced(run)
        assert run.start.pull == ImageJob.objects.open().get()
        ImageJob.objects.all().delete()
        assert fresh(run).start.pull is None
