"""What the tests share: real parts, started once a session."""

import uuid
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connections

from servers.host.containers import Docker
from servers.lifecycle import creation
from tests import docker_engine

pytest_plugins = ["tests.parts", "tests.redis_server"]


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """DOCKER_HOST of the tests' own Docker Engine, with the test engine's image."""
    with docker_engine.lease() as host:
        yield host


@pytest.fixture(scope="session")
def docker_host_without_gpus() -> Iterator[str]:
    """DOCKER_HOST of a Docker Engine that cannot give GPUs. It has no images."""
    with docker_engine.lease(docker_engine.WITHOUT_GPUS) as host:
        yield host


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file, as in production: threads that share one in memory meet locks that no file has."""
    path = tmp_path_factory.mktemp("database") / "tests.sqlite3"
    connections["default"].settings_dict["TEST"]["NAME"] = str(path)


@pytest.fixture
def docker(docker_host: str) -> Iterator[Docker]:
    """Docker for an install of its own; what a test leaves behind is removed."""
    client = Docker(str(uuid.uuid4()), docker_host)
    yield client
    for container in client.list_ours():
        client.remove(container.id)
    client.close()


@pytest.fixture
def asking(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    """The worker's and the watcher's Docker is the tests' own."""
    monkeypatch.setattr(settings, "INSTALL", docker.install)
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    creation.docker.cache_clear()
    yield docker
    creation.docker().close()
    creation.docker.cache_clear()
