"""What the tests share: real parts, started once a session."""

import uuid
from collections.abc import Iterator

import pytest

from servers.host.containers import Docker
from tests import docker_engine, images

pytest_plugins = ["tests.parts"]


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """DOCKER_HOST of the tests' own Docker Engine, with the test engine's image."""
    was_up = docker_engine.answers()
    host = docker_engine.up()
    images.build_engine(host)
    yield host
    if not was_up:
        docker_engine.down()


@pytest.fixture
def docker(docker_host: str) -> Iterator[Docker]:
    """Docker for an install of its own; what a test leaves behind is removed."""
    client = Docker(str(uuid.uuid4()), docker_host)
    yield client
    for container in client.list_ours():
        client.remove(container.id)
    client.close()
