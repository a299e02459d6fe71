from collections.abc import Callable
from pathlib import Path

import pytest

from servers.host.docker.containers import ContainerError, DockerContainers, Mount
from tests.containers.specs import shell, wait_for_end

pytestmark = pytest.mark.docker


def test_a_container_is_run_and_described(docker: DockerContainers) -> None:
    made = docker.run(shell(docker, "exit 7"))
    wait_for_end(docker, made.id)

    found = docker.inspect(made.id)

    assert found is not None
    assert found.has_ended
    assert found.exit_code == 7
    assert not found.oom_killed
    assert found.started_at is not None
    assert found.finished_at is not None
    assert found.finished_at >= found.started_at


def test_running_the_same_run_twice_gives_one_container(docker: DockerContainers) -> None:
    first = docker.run(shell(docker, "sleep 60"))
    second = docker.run(shell(docker, "sleep 60"))

    assert first.id == second.id
    assert len(docker.list_ours()) == 1


def test_a_name_that_somebody_else_has_is_told(docker: DockerContainers) -> None:
    other = DockerContainers("another-install", docker.host)
    taken = shell(docker, "sleep 60", labels={"inferdash.install": "another-install"})
    made = other.run(taken)
    try:
        with pytest.raises(ContainerError) as caught:
            docker.run(shell(docker, "sleep 60"))
        assert caught.value.kind == "name_taken"
    finally:
        other.remove(made.id)
        other.close()


def test_somebody_elses_container_is_not_touched(docker: DockerContainers) -> None:
    other = DockerContainers("another-install", docker.host)
    made = other.run(shell(docker, "sleep 60", labels={"inferdash.install": "another-install"}))
    try:
        touches: list[Callable[[], None]] = [
            lambda: docker.signal(made.id, "SIGTERM"),
            lambda: docker.remove(made.id),
            lambda: docker.start(made.id),
        ]
        for touch in touches:
            with pytest.raises(ContainerError) as caught:
                touch()
            assert caught.value.kind == "not_ours"
        still = docker.inspect(made.id)
        assert still is not None
        assert still.state == "running"
    finally:
        other.remove(made.id)
        other.close()


def test_a_missing_mount_source_is_an_error_and_nothing_is_made(
    docker: DockerContainers, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"

    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", mounts=(Mount(source=str(gone), target="/m"),)))

    assert caught.value.kind == "missing_mount"
    assert str(gone) in str(caught.value)
    assert not gone.exists()
    assert docker.list_ours() == []
