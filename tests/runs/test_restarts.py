"""What inferdash starts again by itself, and what it does not."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.judge.memory.pools import compute_unheld
from servers.lifecycle.runs import creation, restart_policy
from servers.lifecycle.runs.ownership import require_managed
from servers.models import AuditEntry, Box, Run
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from tests import factories, samples
from tests.base_images import ENGINE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


def failed(of: ManagedServer, **values: Any) -> ManagedRun:
    """A run that has just failed, with what inferdash notes on it."""
    run = factories.run(of, RunState.FAILED, failure="The engine ended by itself.", **values)
    Run.objects.filter(pk=run.pk).update(**restart_policy.plan(run))
    run.refresh_from_db()
    return run


def make_due(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(restart_at=timezone.now())


def card(of: ManagedServer) -> str:
    client = factories.log_in(factories.person())
    return " ".join(client.get("/").content.decode().split())


def test_without_a_policy_nothing_is_started_again(box: Box) -> None:
    run = failed(factories.server(box))

    assert (run.restart_at, run.status_message) == (None, "")


def test_a_failed_run_is_started_again_after_pauses_that_grow_until_the_tries_are_used_up(
    box: Box,
) -> None:
    server = factories.server(box, restart="on-failure", restart_tries=2)
    run: Run = failed(server, image_id="sha256:1", overridden_errors="I know")
    pauses = []
    for _ in range(2):
        assert run.restart_at is not None
        pauses.append(round((run.restart_at - timezone.now()).total_seconds(), -1))
        lifecycle.start_due(box)
        assert factories.latest_run(server) == run, "not yet"
        make_due(run)
        lifecycle.start_due(box)
        run = factories.latest_run(server)
        assert run.state == RunState.QUEUED
        assert run.plan.overridden_errors == "I know"
        assert run.plan.pinned_image == "sha256:1"
        values = {"state": RunState.FAILED, "ended_at": timezone.now()}
        Run.objects.filter(pk=run.pk).update(**values, **restart_policy.plan(require_managed(run)))
        run.refresh_from_db()

    assert pauses == [10, 60]
    assert run.restart_at is None
    assert (
        run.status_message
        == "inferdash has started it again 2 times in a row, and does not try once more."
    )
    assert run.status_message in card(server)


def test_always_does_not_give_up(box: Box) -> None:
    run = failed(factories.server(box, restart="always"), attempts=40)

    assert run.restart_at is not None
    assert run.restart_at - timezone.now() > timedelta(seconds=590)


def test_who_has_served_for_ten_minutes_counts_from_the_beginning(box: Box) -> None:
    server = factories.server(box, restart="on-failure")
    now = timezone.now()

    steady = failed(server, attempts=2, ready_at=now - timedelta(minutes=30))
    shaky = failed(server, attempts=2, ready_at=now - timedelta(minutes=2))

    assert steady.next_try == 1
    assert steady.restart_at is not None
    assert shaky.restart_at is None


def test_the_restart_is_in_the_activity_with_its_reason(box: Box) -> None:
    run = failed(factories.server(box, "glm-5", restart="always"))
    make_due(run)

    lifecycle.start_due(box)

    entry = AuditEntry.objects.get(action="start again")
    assert entry.by is None
    assert entry.subject == "glm-5"
    assert entry.detail["why"] == "The engine ended by itself."
    assert entry.detail["try"] == 1


def test_the_version_that_failed_is_started_again_whatever_was_saved_since(box: Box) -> None:
    server = factories.server(box, restart="always")
    run = failed(server)
    server.profile.save_version(server.launch, by=None, message="Another")
    make_due(run)

    lifecycle.start_due(box)

    assert factories.latest_run(server).version == run.version


def test_what_is_known_to_fail_is_not_started_in_a_loop(box: Box) -> None:
    flags = ("--max-modle-len", "4096")
    server = factories.server(box, "gpt-oss-120b", restart="always", flags=flags)

    run = failed(server)

    assert run.restart_at is None
    assert run.status_message.startswith("inferdash does not start it again: it is known to fail.")
    assert failed(server, ready_at=timezone.now()).restart_at, "the rule was wrong about it"


@pytest.mark.parametrize("is_running", [False, True])
def test_a_persons_stop_calls_the_planned_start_off(box: Box, is_running: bool) -> None:
    server = factories.server(box, restart="always")
    run = failed(server)
    client = factories.log_in(factories.person("ben"))
    assert "Starts again" in card(server)
    if is_running:
        # It started in the moment of the click.
        make_due(run)
        lifecycle.start_due(box)

    client.post(f"/servers/{server.slug}/stop/")

    assert "Starts again" not in card(server)
    lifecycle.start_due(box)
    last = factories.latest_run(server)
    assert last.wanted == DesiredState.STOPPED
    assert str(last.stopped_by) == "ben"
    assert server.runs.count() == 1 + is_running
    assert AuditEntry.objects.filter(action="stop", by=last.stopped_by).exists()


def test_a_stop_in_the_moment_of_the_end_is_a_stop(box: Box) -> None:
    server = factories.server(box, restart="always")
    run = factories.run(server, RunState.READY)
    stale = Run.objects.filter_managed().get(pk=run.pk)
    lifecycle.stop(run, by=factories.person("ben"))
    Run.objects.filter(pk=run.pk).update(state=RunState.FAILED, **restart_policy.plan(stale))
    make_due(run)

    lifecycle.start_due(box)

    assert factories.latest_run(server) == run


def test_a_start_by_a_person_takes_the_place_of_the_planned_one(box: Box) -> None:
    server = factories.server(box, restart="always")
    run = failed(server)
    made = lifecycle.start(server, by=factories.person())
    assert made is not None
    assert made.plan.attempts == 0
    make_due(run)

    lifecycle.start_due(box)

    assert factories.latest_run(server) == made


def test_a_removed_server_is_not_started_again(box: Box) -> None:
    server = factories.server(box, restart="always")
    run = failed(server)
    assert lifecycle.remove(server, by=None)
    make_due(run)

    lifecycle.start_due(box)

    assert factories.latest_run(server) == run


def test_on_unified_memory_it_waits_until_the_memory_is_back() -> None:
    spark = factories.box("spark-1")
    server = factories.server(spark, restart="on-failure")
    before = samples.sample([samples.unified(100, [])], [])
    run = failed(server, unattributed_at_start=compute_unheld(before))
    make_due(run)

    # 41 GiB are another server's; 33 GiB nobody's.
    leaky = samples.sample([samples.unified(26, [(7001, 41.0)])], [])
    factories.tell(spark, leaky)
    lifecycle.start_due(spark)

    assert factories.latest_run(server) == run
    assert "33 GiB more than at its start are in use, and no GPU process" in card(server)

    factories.tell(spark, samples.sample([samples.unified(59, [(7001, 41.0)])], []))
    lifecycle.start_due(spark)

    assert factories.latest_run(server) != run


def test_cards_with_memory_of_their_own_are_not_waited_for() -> None:
    assert compute_unheld(samples.sample([samples.card(0, [])], [])) is None


def test_the_card_says_which_try_comes_when(box: Box) -> None:
    server = factories.server(box, restart="on-failure", restart_tries=3)
    failed(server, attempts=1)

    said = card(server)

    assert "Starts again <time" in said
    assert "</time>, try 2 of 3." in said
    assert ">Stop<" in said


@pytest.fixture
def worker(
    docker: DockerContainers, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text(f'mount_roots = ["{tmp_path}"]\n')
    monkeypatch.setattr(creation, "docker", lambda: docker)


@pytest.fixture
def ended(docker: DockerContainers, worker: None) -> Callable[[ManagedRun], ManagedRun]:
    """Start it, let the container end, and observe it as the watcher does."""

    def observe(run: ManagedRun) -> ManagedRun:
        lifecycle.advance(run)
        run.refresh_from_db()
        for _line in docker.logs(run.container_id, follow=True):
            pass
        lifecycle.observe(run)
        run.refresh_from_db()
        return run

    return observe


def started(server: ManagedServer) -> ManagedRun:
    run = lifecycle.start(server, by=factories.person())
    assert run is not None
    return run


@pytest.mark.docker
def test_an_engine_that_dies_gets_another_container_of_the_same_image(
    box: Box, ended: Callable[[Run], Run]
) -> None:
    server = factories.server(
        box, image=ENGINE, gpus="none", restart="on-failure", entrypoint=("sh", "-c", "exit 3")
    )
    run = ended(started(server))
    assert run.state == RunState.FAILED
    assert run.restart_at is not None
    make_due(run)
    lifecycle.start_due(box)

    again = ended(factories.latest_run(server))

    assert again != run
    assert again.image_id == run.image_id
    assert again.started_by == run.started_by
    assert again.restart_at is not None


@pytest.mark.docker
def test_an_image_without_the_program_is_not_tried_again(
    box: Box, ended: Callable[[Run], Run]
) -> None:
    server = factories.server(
        box, image=ENGINE, gpus="none", restart="always", entrypoint=("sh", "-c", "exit 127")
    )

    assert ended(started(server)).restart_at is None


@pytest.mark.docker
def test_an_image_that_is_gone_is_told_and_not_tried_again(box: Box, worker: None) -> None:
    server = factories.server(box, image=ENGINE, gpus="none", restart="always")
    run = failed(server, image_id="sha256:" + "ab" * 32)
    make_due(run)
    lifecycle.start_due(box)
    again = factories.latest_run(server)

    lifecycle.advance(require_managed(again))

    again.refresh_from_db()
    assert again.state == RunState.FAILED
    assert again.failure.startswith("The image that it ran, sha256:abababababab, is no longer on")
    assert again.restart_at is None
