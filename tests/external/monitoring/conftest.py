"""A box with a real watcher, and somebody who uses Docker without inferdash."""

from collections.abc import Iterator
from contextlib import suppress

import docker
import pytest
from docker.errors import NotFound

from tests.chaos.conftest import place  # noqa: F401 - a fixture
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import Hands


@pytest.fixture
def hands(place: ChaosSite) -> Iterator[Hands]:  # noqa: F811
    client = docker.APIClient(place.docker.host, version="auto", timeout=60)
    made = Hands(place=place, client=client)
    try:
        yield made
    finally:
        for container in made.made:
            with suppress(NotFound):
                client.remove_container(container, force=True, v=True)
        client.close()
