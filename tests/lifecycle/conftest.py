from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.models import Box
from servers.models.runs.run import ManagedRun, ManagedServer
from tests import factories
from tests.base_images import ENGINE
from tests.lifecycle.starts import wait_until_ended


@pytest.fixture(autouse=True)
def _worker(
    worker: DockerContainers, own_redis: redis.Redis, settings: Any, tmp_path: Path
) -> None:
    """This process is the worker of a box that allows tmp_path to be mounted."""
    settings.BOX_FILE.write_text(f'mount_roots = ["{tmp_path}"]\n')


@pytest.fixture
def server(box: Box) -> Callable[..., ManagedServer]:
    def make(**launch: Any) -> ManagedServer:
        values = {"image": ENGINE, "env": {"ENGINE_SECONDS": "0.1"}, "gpus": "none", **launch}
        return factories.server(box, **values)

    return make


@pytest.fixture
def ended(docker: DockerContainers) -> Callable[[ManagedRun], ManagedRun]:
    """Let the container end, and observe it as the watcher does."""

    def observe(run: ManagedRun) -> ManagedRun:
        wait_until_ended(docker, run)
        lifecycle.observe(run)
        run.refresh_from_db()
        return run

    return observe
