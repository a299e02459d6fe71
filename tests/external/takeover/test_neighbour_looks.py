"""Docker is asked anew only of containers to which something has happened."""

from collections.abc import Callable

import pytest

from servers.host.docker.containers import DockerContainers
from servers.host.external.containers import ExternalContainer
from servers.lifecycle.runs import creation
from servers.watcher.external.discovery import ContainerCache
from tests.external.monitoring.hands import Hands

pytestmark = pytest.mark.docker


class CountedDocker:
    """Docker, and which containers it was asked to describe."""

    def __init__(self, asked: DockerContainers, monkeypatch: pytest.MonkeyPatch) -> None:
        self.described: list[str] = []
        self.meanwhile: Callable[[str], None] = lambda _container: None
        really = asked.other

        def other(container: str) -> ExternalContainer | None:
            self.described.append(container)
            found = really(container)
            self.meanwhile(container)
            return found

        monkeypatch.setattr(asked, "other", other)


@pytest.fixture
def counted(asking: DockerContainers, monkeypatch: pytest.MonkeyPatch) -> CountedDocker:
    return CountedDocker(creation.docker(), monkeypatch)


def name_of(container: str, found: list[ExternalContainer]) -> str | None:
    return next((each.container.name for each in found if each.container.id == container), None)


def test_a_container_to_which_nothing_happens_is_described_once(
    hands: Hands, counted: CountedDocker
) -> None:
    container, looks = hands.run("quiet"), ContainerCache()

    first = name_of(container, looks.list_running())
    second = name_of(container, looks.list_running())

    assert first == second == hands.name("quiet")
    assert counted.described.count(container) == 1


def test_what_happened_to_one_is_seen(hands: Hands, counted: CountedDocker) -> None:
    container, looks = hands.run("old"), ContainerCache()
    looks.list_running()
    hands.client.rename(container, hands.name("new"))

    looks.forget(container)

    assert name_of(container, looks.list_running()) == hands.name("new")
    hands.client.remove_container(container, force=True)
    assert name_of(container, looks.list_running()) is None, "the list tells it, also unheard"


def test_what_happens_while_docker_answers_is_seen_the_next_time(
    hands: Hands, counted: CountedDocker
) -> None:
    container, looks = hands.run("during"), ContainerCache()
    counted.meanwhile = looks.forget

    looks.list_running()
    looks.list_running()

    assert counted.described.count(container) == 2


def test_after_news_were_lost_all_are_looked_at_again(hands: Hands, counted: CountedDocker) -> None:
    container, looks = hands.run("lost"), ContainerCache()
    looks.list_running()

    looks.forget_all()
    looks.list_running()
    assert counted.described.count(container) == 2
    counted.meanwhile = lambda _container: looks.forget_all()
    looks.forget_all()
    looks.list_running()
    counted.meanwhile = lambda _container: None

    looks.list_running()

    assert counted.described.count(container) == 4
