"""A box whose watcher's Docker is the tests' own, and a registry that it pulls from."""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from docker import APIClient
from docker.errors import APIError, ImageNotFound

from servers.host.docker.containers import DockerContainers
from servers.lifecycle.images import inventory
from servers.lifecycle.runs import creation
from servers.models import Box
from tests import factories
from tests.registry import Registry, registry


@pytest.fixture(autouse=True)
def _worker(docker: DockerContainers, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.INSTALL = docker.install
    docker.logins = inventory.load_credentials
    monkeypatch.setattr(creation, "docker", lambda: docker)


@pytest.fixture
def store(docker: DockerContainers) -> Iterator[Registry]:
    """A registry; whatever was pulled from it is removed again, whichever name it has then."""
    with registry(docker.facts().architecture, layers=3) as made:
        yield made
    with closing(APIClient(docker.host, version="auto")) as client:
        for each in client.images():
            names = [*(each["RepoTags"] or ()), *(each["RepoDigests"] or ())]
            if any(f"/{made.name}" in name for name in names):
                for name in names:
                    with suppress(ImageNotFound, APIError):
                        client.remove_image(name)


@pytest.fixture
def box(db: None) -> Box:
    return factories.box("rtx8")
