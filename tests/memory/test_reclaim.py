"""The page cache of the box, dropped before a start that wants it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers import lifecycle
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.host.kernel import resources
from servers.lifecycle.runs import creation
from servers.models.runs.run import ManagedRun, RunState
from tests import factories, samples
from tests.base_images import ENGINE
from tests.page_cache import PAGES, cached

__all__ = ["cached"]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


@pytest.fixture
def worker(
    docker: DockerContainers, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    monkeypatch.setattr(creation, "docker", lambda: docker)
    return tmp_path / "box.toml"


def started(*, clients: bool = False) -> ManagedRun:
    box = factories.box("rtx8")
    held = [(100, 30.0)] if clients else []
    factories.tell(box, samples.sample([samples.card(0, held)], [samples.process(100)]))
    run = lifecycle.start(
        factories.server(box, image=ENGINE, gpus="none", drop_cache=True), by=None
    )
    assert run is not None
    lifecycle.advance(run)
    run.refresh_from_db()
    return run


def test_a_start_drops_it_where_the_box_allows_it(
    worker: Path, cached: Callable[[], int], docker: DockerContainers
) -> None:
    worker.write_text("reclaim = true\n")

    run = started()

    assert run.state == RunState.STARTING, run.failure
    assert cached() == 0
    docker.remove(run.container_id)


def test_a_box_that_does_not_allow_it_says_so(worker: Path, cached: Callable[[], int]) -> None:
    worker.write_text("")

    run = started()

    assert run.state == RunState.FAILED
    assert "allow reclaim`" in run.failure
    assert cached() == PAGES


def test_it_stays_while_somebody_is_on_a_gpu(
    worker: Path, cached: Callable[[], int], docker: DockerContainers
) -> None:
    worker.write_text("reclaim = true\n")

    run = started(clients=True)

    assert run.state == RunState.STARTING, run.failure
    assert cached() == PAGES
    docker.remove(run.container_id)


def test_who_is_not_root_needs_a_container_for_it(
    docker: DockerContainers, cached: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_SWITCH", Path("/proc/version"))

    with pytest.raises(ContainerError, match="could not be dropped"):
        resources.drop_caches(docker)

    monkeypatch.undo()
    resources._through_container(docker, Path("/"))
    assert cached() == 0
    assert docker.list_ours() == []
