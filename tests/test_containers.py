import gc
import threading
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from servers.host.containers import ContainerError, Docker, Event, Mount, Port, Spec
from tests.images import BASE, ENGINE

pytestmark = pytest.mark.docker


def spec(docker: Docker, name: str = "one", **fields: object) -> Spec:
    values: dict[str, object] = {
        "image": ENGINE,
        "name": f"inferdash-{docker.install[:8]}-{name}",
        "labels": {"inferdash.install": docker.install, "inferdash.run": "1"},
        **fields,
    }
    return Spec(**values)  # type: ignore[arg-type]


def shell(docker: Docker, script: str, name: str = "one", **fields: object) -> Spec:
    return spec(docker, name, image=BASE, entrypoint=("/bin/sh", "-c"), command=(script,), **fields)


def wait_for_end(docker: Docker, container_id: str) -> None:
    for _line in docker.logs(container_id, follow=True):
        pass


def test_a_container_is_run_and_described(docker: Docker) -> None:
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


def test_running_the_same_run_twice_gives_one_container(docker: Docker) -> None:
    first = docker.run(shell(docker, "sleep 60"))
    second = docker.run(shell(docker, "sleep 60"))

    assert first.id == second.id
    assert len(docker.list_ours()) == 1


def test_a_name_that_somebody_else_has_is_told(docker: Docker) -> None:
    other = Docker("another-install", docker.host)
    taken = shell(docker, "sleep 60", labels={"inferdash.install": "another-install"})
    made = other.run(taken)
    try:
        with pytest.raises(ContainerError) as caught:
            docker.run(shell(docker, "sleep 60"))
        assert caught.value.kind == "name_taken"
    finally:
        other.remove(made.id)
        other.close()


def test_somebody_elses_container_is_not_touched(docker: Docker) -> None:
    other = Docker("another-install", docker.host)
    made = other.run(shell(docker, "sleep 60", labels={"inferdash.install": "another-install"}))
    try:
        for touch in (
            lambda: docker.signal(made.id, "SIGTERM"),
            lambda: docker.remove(made.id),
            lambda: docker.start(made.id),
        ):
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
    docker: Docker, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"

    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", mounts=(Mount(source=str(gone), target="/m"),)))

    assert caught.value.kind == "missing_mount"
    assert str(gone) in str(caught.value)
    assert not gone.exists()
    assert docker.list_ours() == []


def test_a_taken_port_is_told_and_nothing_is_left(docker: Docker) -> None:
    port = (Port(container_port=80, host_port=18099),)
    docker.run(shell(docker, "sleep 60", ports=port))

    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "sleep 60", "two", ports=port))

    assert caught.value.kind == "port_taken"
    assert len(docker.list_ours()) == 1


def test_a_missing_program_is_told_and_nothing_is_left(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(spec(docker, image=BASE, entrypoint=("vllm",), command=("serve",), init=False))

    assert caught.value.kind == "no_program"
    assert docker.list_ours() == []


def test_a_limit_that_the_kernel_refuses_is_told(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", ulimits={"memlock": -1}))

    assert caught.value.kind == "rlimit"
    assert docker.list_ours() == []


def test_gpus_are_asked_for_by_number(docker: Docker) -> None:
    docker.run(shell(docker, "sleep 60", gpus="0,1"))

    assert len(docker.list_ours()) == 1


def test_an_unknown_runtime_is_told(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", runtime="kata"))

    assert caught.value.kind == "unknown_runtime"


def test_an_unknown_network_is_told(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", network="fabric"))

    assert caught.value.kind == "no_network_named"
    assert docker.list_ours() == []


def test_a_registry_out_of_reach_is_told(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.pull("registry.invalid/engine:1", lambda progress: True)

    assert caught.value.kind == "no_network"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_daemon_that_is_down_is_told(tmp_path: Path) -> None:
    with pytest.raises(ContainerError) as caught:
        Docker("x", f"unix://{tmp_path}/none.sock").facts()

    assert caught.value.kind == "daemon_down"
    assert "systemctl start docker" in str(caught.value)
    # docker-py leaves the socket of a failed connection to the collector: now, not in the
    # middle of another test.
    del caught
    gc.collect()


def test_an_image_that_is_not_here_is_none(docker: Docker) -> None:
    assert docker.image("no/such:image") is None


def test_an_image_says_its_entrypoint(docker: Docker) -> None:
    image = docker.image(ENGINE)

    assert image is not None
    assert image.entrypoint == ("python3", "-m", "tests.engine")


def test_out_of_memory_is_seen(docker: Docker) -> None:
    made = docker.run(spec(docker, env={"ENGINE_SCRIPT": "oom"}, memory=64 << 20))
    wait_for_end(docker, made.id)

    found = docker.inspect(made.id)

    assert found is not None
    assert found.oom_killed
    assert found.exit_code == 137


def test_lines_of_any_length_come_whole_and_apart(docker: Docker) -> None:
    script = "head -c 50000 /dev/zero | tr '\\0' x; echo; echo err >&2; printf end"
    made = docker.run(shell(docker, script))

    wait_for_end(docker, made.id)

    # Read anew: a follower may miss what a process wrote as its last (Docker 20.10).
    lines = list(docker.logs(made.id))

    assert sorted((stream, len(text)) for _stamp, stream, text in lines) == [
        ("e", 3),
        ("o", 3),
        ("o", 50000),
    ]


def test_a_log_goes_on_from_a_lines_own_time(docker: Docker) -> None:
    made = docker.run(shell(docker, "for i in 1 2 3 4 5; do echo $i; sleep 0.01; done"))
    wait_for_end(docker, made.id)
    lines = list(docker.logs(made.id))

    rest = list(docker.logs(made.id, since=lines[2][0]))

    assert rest == lines[2:]


def test_a_follower_can_be_closed_from_another_thread(docker: Docker) -> None:
    made = docker.run(shell(docker, "echo here; sleep 600"))
    stream = docker.logs(made.id, follow=True)
    read: list[bytes] = []
    seen = threading.Event()

    def follow() -> None:
        for _stamp, _stream, text in stream:
            read.append(text)
            seen.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert seen.wait(20)
    stream.close()
    thread.join(20)

    assert not thread.is_alive()
    assert read == [b"here"]


def test_events_tell_of_our_containers_only(docker: Docker) -> None:
    other = Docker("another-install", docker.host)
    events = cast(Generator[Event], docker.events())
    actions: list[tuple[str, int | None]] = []
    died = threading.Event()

    def listen() -> None:
        with closing(events):
            for event in events:
                actions.append((event.action, event.run))
                if event.action == "die":
                    died.set()
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    # The subscription is up when Docker answers it; an event before that is not heard.
    while not died.wait(0.2):
        theirs = other.run(
            shell(docker, "true", "theirs", labels={"inferdash.install": "another-install"})
        )
        ours = docker.run(shell(docker, "true", "ours"))
        wait_for_end(docker, ours.id)
        docker.remove(ours.id)
        other.remove(theirs.id)
    thread.join()
    other.close()

    assert {run for _action, run in actions} == {1}


def test_the_command_can_be_copied(docker: Docker) -> None:
    text = spec(
        docker,
        command=("Qwen/Qwen3-8B", "--json", '{"a": 1}'),
        env={"HF_TOKEN": "hf_secret", "A": "b c"},
        gpus="0,1",
        shm_size=1 << 30,
        mounts=(Mount(source="/mnt", target="/models", read_only=True),),
        ports=(Port(container_port=8000, host_port=18000),),
    ).docker_run(mask={"HF_TOKEN"})

    assert "hf_secret" not in text
    assert "-e HF_TOKEN \\\n" in text
    assert "-e 'A=b c'" in text
    assert "--gpus '\"device=0,1\"'" in text
    assert "-p 127.0.0.1:18000:8000" in text
    assert "--mount type=bind,source=/mnt,target=/models,readonly" in text
    assert text.endswith("Qwen/Qwen3-8B --json '{\"a\": 1}'")
