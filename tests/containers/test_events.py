import itertools
import threading
from contextlib import closing
from pathlib import Path

import pytest

from servers.host.docker.containers import ContainerError, DockerContainers, Event
from tests import docker_engine
from tests.containers.specs import shell, wait_for_end

pytestmark = pytest.mark.docker


def test_events_tell_of_our_containers_only(docker: DockerContainers) -> None:
    with closing(DockerContainers("another-install", docker.host)) as other:
        events = docker.events()
        theirs = other.run(
            shell(docker, "true", "theirs", labels={"inferdash.install": "another-install"})
        )
        ours = docker.run(shell(docker, "true", "ours"))
        other.remove(theirs.id)

        heard = list(itertools.takewhile(lambda event: event.action != "die", events))

    assert {event.container_id for event in heard} == {ours.id}
    assert {event.run for event in heard} == {1}
    assert [event.action for event in heard if event.action in ("create", "start")] == [
        "create",
        "start",
    ]


def test_events_that_nobody_heard_are_told_later(docker: DockerContainers) -> None:
    events = docker.events()
    made = docker.run(shell(docker, "true"))
    first = next(iter(events))
    events.close()
    wait_for_end(docker, made.id)

    later = docker.events(since=first.at)
    heard = list(itertools.takewhile(lambda event: event.action != "die", later))

    assert [event.action for event in heard][-1] == "start"


def test_listening_for_events_can_be_ended_from_another_thread(docker: DockerContainers) -> None:
    events = docker.events()
    heard: list[Event] = []
    thread = threading.Thread(target=lambda: heard.extend(events))
    thread.start()

    events.close()
    thread.join(20)

    assert not thread.is_alive()
    assert heard == []


def test_a_daemon_that_goes_away_is_told_to_those_who_listen(short_path: Path) -> None:
    engine = docker_engine.PrivateDockerEngine(folder=short_path / "engine")
    host = engine.up()
    try:
        with closing(DockerContainers("x", host)) as docker:
            events = docker.events()
            engine.down()
            with pytest.raises(ContainerError) as caught:
                list(events)
    finally:
        engine.down()

    assert caught.value.kind == "daemon_down"
