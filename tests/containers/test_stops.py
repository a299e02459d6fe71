import pytest

from servers.host.docker.containers import ContainerError, DockerContainers
from tests.containers.specs import shell, spec, wait_for_end

pytestmark = pytest.mark.docker


def test_out_of_memory_is_seen(docker: DockerContainers) -> None:
    made = docker.run(spec(docker, env={"ENGINE_SCRIPT": "oom"}, memory=64 << 20))
    wait_for_end(docker, made.id)

    found = docker.inspect(made.id)

    assert found is not None
    assert found.oom_killed
    assert found.exit_code == 137


def test_a_signal_ends_an_engine_and_is_refused_afterwards(docker: DockerContainers) -> None:
    made = docker.run(shell(docker, "sleep 60"))
    assert len(docker.processes(made.id)) >= 2  # init, and the shell

    docker.signal(made.id, "SIGTERM")
    wait_for_end(docker, made.id)

    ended = docker.inspect(made.id)
    assert ended is not None
    assert ended.exit_code == 143
    assert docker.processes(made.id) == []
    with pytest.raises(ContainerError) as caught:
        docker.signal(made.id, "SIGTERM")
    assert caught.value.kind == "not_running"
    docker.remove(made.id)
    docker.remove(made.id)
    with pytest.raises(ContainerError) as caught:
        docker.signal(made.id, "SIGTERM")
    assert caught.value.kind == "no_container"


def test_an_engine_as_the_first_process_ignores_sigterm_while_it_loads(
    docker: DockerContainers,
) -> None:
    """Why init is on by default."""
    bare = docker.run(spec(docker, env={"ENGINE_SCRIPT": "hang"}, init=False))
    for _stamp, _stream, text in docker.logs(bare.id, follow=True):
        if b"100%" in text:
            break

    docker.signal(bare.id, "SIGTERM")
    docker.signal(bare.id, "SIGUSR2")  # as deaf to this one, and handled after the other
    alive = docker.inspect(bare.id)
    docker.signal(bare.id, "SIGKILL")
    wait_for_end(docker, bare.id)

    assert alive is not None
    assert alive.state == "running"
    ended = docker.inspect(bare.id)
    assert ended is not None
    assert ended.exit_code == 137
    assert not ended.oom_killed
