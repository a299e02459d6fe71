"""What becomes of servers when their box is restarted."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.lifecycle.runs import creation
from servers.models import AuditEntry, Box, Run, Server
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from tests import factories
from tests.base_images import ENGINE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def box() -> Box:
    hour_ago = timezone.now() - timedelta(hours=1)
    return factories.box("rtx8", boot_id="before", booted_at=hour_ago - timedelta(days=3))


def boot(box: Box, at: datetime | None = None) -> None:
    lifecycle.note_boot(box, "after", at or timezone.now(), seen_before=box.seen_at)


def failed_in_the_shutdown(box: Box, name: str = "qwen3-8b", **launch: Any) -> ManagedRun:
    """The engine got Docker's SIGTERM, and inferdash had time to write that down."""
    run = factories.run(
        factories.server(box, name, **launch),
        RunState.FAILED,
        started_at=timezone.now() - timedelta(hours=1),
        ended_at=timezone.now(),
        failure="The engine was ended by SIGTERM (exit code 143) while it was serving.",
    )
    boot(box)
    run.refresh_from_db()
    return run


def test_what_the_shutdown_ended_is_started_again_with_the_box(box: Box) -> None:
    run = failed_in_the_shutdown(box, start_with_box=True)

    lifecycle.start_due(box)

    again = factories.latest_run(run.server)
    assert again.state == RunState.QUEUED
    assert again.version == run.version


def test_without_start_with_box_it_says_that_the_box_was_restarted(box: Box) -> None:
    run = failed_in_the_shutdown(box, restart="on-failure")

    lifecycle.start_due(box)

    assert factories.latest_run(run.server) == run
    assert run.status_message.startswith("The box was restarted. Its profile does not say")


def test_a_restart_that_was_planned_before_the_boot_is_the_boots_business(box: Box) -> None:
    on = factories.server(box, restart="always")
    at = timezone.now() - timedelta(hours=1)
    run = factories.run(on, RunState.FAILED, started_at=at, ended_at=at, restart_at=timezone.now())

    boot(box)

    run.refresh_from_db()
    assert run.restart_at is None


@pytest.mark.parametrize("values", [{"stopped": True}, {"ended": "long ago"}])
def test_what_was_not_wanted_then_stays_as_it_is(box: Box, values: dict[str, Any]) -> None:
    on = factories.server(box, start_with_box=True)
    now = timezone.now()
    started = now - timedelta(hours=3)
    if "stopped" in values:
        run = factories.run(
            on, RunState.STOPPED, started_at=started, ended_at=now, wanted=DesiredState.STOPPED
        )
    else:
        ended = now - timedelta(hours=2)
        run = factories.run(on, RunState.FAILED, started_at=started, ended_at=ended)

    boot(box)
    lifecycle.start_due(box)

    assert factories.latest_run(on) == run
    assert factories.latest_run(on).status_message == ""


def test_the_first_look_at_a_box_is_no_restart(box: Box) -> None:
    box.boot_id = ""
    run = failed_in_the_shutdown(box, start_with_box=True)

    assert run.restart_at is None
    assert box.boot_id == "after"


def test_a_boot_is_taken_up_once(box: Box) -> None:
    boot(box)

    run = failed_in_the_shutdown(box, start_with_box=True)

    assert run.restart_at is None


def test_a_start_that_takes_the_box_down_with_it_is_not_repeated_for_ever(box: Box) -> None:
    run = failed_in_the_shutdown(box, start_with_box=True, restart="always")
    Run.objects.filter(pk=run.pk).write(plan__attempts=2, ready_at=None, restart_at=None)
    box.boot_id = "before"
    boot(box)

    run.refresh_from_db()
    assert run.restart_at is None
    assert "2 times in a row, and does not try once more" in run.status_message


@pytest.fixture
def running(
    docker: DockerContainers, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[ManagedServer], ManagedRun]:
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text("")
    monkeypatch.setattr(creation, "docker", lambda: docker)

    def start(server: ManagedServer) -> ManagedRun:
        run = lifecycle.start(server, by=factories.person())
        assert run is not None
        lifecycle.advance(run)
        run.refresh_from_db()
        assert run.state == RunState.STARTING
        return run

    return start


def power_off(docker: DockerContainers, run: Run) -> datetime:
    """What is left of a container after it: an end, and nobody who saw it."""
    docker.signal(run.container_id, "SIGKILL")
    for _line in docker.logs(run.container_id, follow=True):
        pass
    return timezone.now()


@pytest.mark.docker
@pytest.mark.parametrize("with_box", [True, False])
def test_a_container_that_went_down_with_the_box_has_not_failed(
    with_box: bool, box: Box, docker: DockerContainers, running: Callable[[Server], Run]
) -> None:
    slow = {"ENGINE_SECONDS": "600"}
    on = factories.server(box, image=ENGINE, gpus="none", env=slow, start_with_box=with_box)
    run = running(on)

    boot(box, power_off(docker, run))

    run.refresh_from_db()
    assert run.state == RunState.STOPPED
    assert run.exit_code == 137
    lifecycle.start_due(box)
    again = factories.latest_run(on)
    assert (again != run) is with_box
    if with_box:
        assert (
            AuditEntry.objects.get(action="start again").detail["why"] == "The box was restarted."
        )
        assert again.image_id == ""
        assert again.plan.pinned_image == run.image_id
    else:
        client = factories.log_in(factories.person())
        assert "The box was restarted. Its profile does not say" in client.get("/").content.decode()


@pytest.mark.docker
def test_a_container_that_survived_is_left_alone(
    box: Box, docker: DockerContainers, running: Callable[[Server], Run]
) -> None:
    slow = {"ENGINE_SECONDS": "600"}
    run = running(factories.server(box, image=ENGINE, gpus="none", env=slow))

    boot(box, timezone.now() + timedelta(seconds=1))

    run.refresh_from_db()
    assert run.state == RunState.STARTING
