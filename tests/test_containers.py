import gc
import itertools
import os
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from servers.host import probes
from servers.host.containers import ContainerError, Docker, Event, Mount, Port, Spec
from servers.host.docker_errors import translate
from servers.host.docker_request import creation
from servers.host.probes import Endpoint
from tests import docker_engine
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
    assert "Port 18099 of this box is taken by the container inferdash-" in str(caught.value)
    assert len(docker.list_ours()) == 1


def test_a_port_taken_by_a_program_names_the_program(docker: Docker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        port = (Port(container_port=80, host_port=number),)

        with pytest.raises(ContainerError) as caught:
            docker.run(shell(docker, "sleep 60", ports=port))

    assert caught.value.kind == "port_taken"
    assert f"taken by python (pid {os.getpid()})" in str(caught.value).replace("python3", "python")
    assert docker.list_ours() == []


def _served(port: int) -> list[str] | None:
    """Docker accepts connections before the engine does, and resets them."""
    deadline = time.monotonic() + 30
    endpoint = Endpoint(address="127.0.0.1", port=port)
    while (names := probes.models(endpoint)) is None:
        assert time.monotonic() < deadline, "the engine never answered"
        time.sleep(0.1)
    return names


def test_ports_are_published_on_loopback_only(docker: Docker) -> None:
    made = docker.run(
        spec(
            docker,
            command=("vllm", "serve", "tiny"),
            ports=(Port(container_port=8000, host_port=0),),
        )
    )

    assert [(port.container_port, port.host_ip) for port in made.ports] == [(8000, "127.0.0.1")]
    number = made.ports[0].host_port
    assert _served(number) == ["tiny"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", number))


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


@pytest.mark.parametrize("gpus", ["all", "count=2", "0,1"])
def test_gpus_are_asked_for(docker: Docker, gpus: str) -> None:
    docker.run(shell(docker, "sleep 60", gpus=gpus))

    assert len(docker.list_ours()) == 1


def test_a_docker_without_gpus_says_how_to_get_them(docker_host_without_gpus: str) -> None:
    with closing(Docker(str(uuid.uuid4()), docker_host_without_gpus)) as docker:
        refusal = docker.refusal(Spec(image="", gpus="all", network="none"))

        assert refusal is not None
        assert refusal.kind == "no_gpu_driver"
        assert "NVIDIA Container Toolkit" in str(refusal)
        assert "could not select device driver" in refusal.detail
        assert docker.refusal(Spec(image="", network="none")) is None
        assert docker.list_ours() == []


def test_options_can_be_tried_before_a_start(docker: Docker, tmp_path: Path) -> None:
    memlock = docker.refusal(Spec(image="", ulimits={"memlock": -1}))
    gone = docker.refusal(Spec(image="", mounts=(Mount(source=f"{tmp_path}/x", target="/x"),)))

    assert memlock is not None
    assert memlock.kind == "rlimit"
    assert gone is not None
    assert gone.kind == "missing_mount"
    assert docker.refusal(Spec(image="", gpus="all", ulimits={"nofile": 1000})) is None
    assert docker.list_ours() == []


def test_a_missing_device_is_told(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", devices=("/dev/infiniband/rdma_cm",)))

    assert caught.value.kind == "no_device"
    assert "/dev/infiniband/rdma_cm" in str(caught.value)
    assert docker.list_ours() == []


def test_a_reference_that_cannot_be_one_is_told(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.pull("Team/Engine:1", lambda progress: True)

    assert caught.value.kind == "bad_reference"


def test_an_image_that_is_not_here_ends_a_run(docker: Docker) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(spec(docker, image="no/such:image"))

    assert caught.value.kind == "no_image"
    assert "no/such:image" in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_socket_that_may_not_be_used_is_told(docker_host: str) -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(ContainerError) as caught:
            Docker("x", docker_host).facts()
        with pytest.raises(ContainerError) as listening:
            Docker("x", docker_host).events()
    finally:
        os.seteuid(0)

    assert caught.value.kind == listening.value.kind == "no_permission"
    assert "usermod -aG docker" in str(caught.value)
    del caught, listening
    gc.collect()


# What cannot be made to happen here, in the words of Docker 20.10 to 29.
@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (
            'nvidia-container-cli: device error: 7: unknown device: unknown"',
            "no_such_gpu",
            "no GPU 7",
        ),
        (
            "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=7",
            "no_such_gpu",
            "no GPU nvidia.com/gpu=7",
        ),
        (
            "OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: "
            "driver not loaded",
            "no_gpu_driver",
            "nvidia-smi",
        ),
        ("unknown or invalid runtime name: nvidia", "unknown_runtime", "no runtime nvidia"),
        (
            "failed to register layer: write /usr/lib/libtorch_cuda.so: no space left on device",
            "disk_full",
            "docker system df",
        ),
        (
            "pull access denied for engine, repository does not exist or may require "
            "'docker login': denied: requested access to the resource is denied",
            "pull_denied",
            "docker login",
        ),
        ("toomanyrequests: You have reached your pull rate limit.", "rate_limit", "Wait"),
        (
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            "wrong_platform",
            "linux/arm64/v8",
        ),
        ("exec /opt/nvidia/entrypoint.sh: exec format error", "wrong_platform", "processor"),
        (
            "failed to bind host port for 0.0.0.0:8000:172.17.0.2:80/tcp: address already in use",
            "port_taken",
            "taken",
        ),
        ("UnixHTTPConnectionPool: Read timed out. (read timeout=60)", "timeout", "in time"),
        ("something nobody has seen", "other", "refused to start: something nobody has seen"),
    ],
)
def test_docker_s_words_become_advice(text: str, kind: str, says: str) -> None:
    error = translate(text, doing="to start")

    assert error.kind == kind
    assert says in str(error)
    assert error.detail == text


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


def test_a_signal_ends_an_engine_and_is_refused_afterwards(docker: Docker) -> None:
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


def test_an_engine_as_the_first_process_ignores_sigterm_while_it_loads(docker: Docker) -> None:
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


def test_no_line_of_a_flood_is_lost_or_doubled(docker: Docker) -> None:
    count = 200_000
    made = docker.run(spec(docker, env={"ENGINE_SCRIPT": "flood", "ENGINE_LINES": str(count)}))
    numbers: list[int] = []

    for _stamp, _stream, text in docker.logs(made.id, follow=True):
        if text.startswith(b"line "):
            numbers.append(int(text.split(b" ")[1]))
            if len(numbers) == count:
                break

    assert numbers == list(range(count))


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
    with closing(Docker("another-install", docker.host)) as other:
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


def test_events_that_nobody_heard_are_told_later(docker: Docker) -> None:
    events = docker.events()
    made = docker.run(shell(docker, "true"))
    first = next(iter(events))
    events.close()
    wait_for_end(docker, made.id)

    later = docker.events(since=first.at)
    heard = list(itertools.takewhile(lambda event: event.action != "die", later))

    assert [event.action for event in heard][-1] == "start"


def test_listening_for_events_can_be_ended_from_another_thread(docker: Docker) -> None:
    events = docker.events()
    heard: list[Event] = []
    thread = threading.Thread(target=lambda: heard.extend(events))
    thread.start()

    events.close()
    thread.join(20)

    assert not thread.is_alive()
    assert heard == []


def test_a_daemon_that_goes_away_is_told_to_those_who_listen(tmp_path: Path) -> None:
    engine = docker_engine.Engine(folder=tmp_path / "engine")
    host = engine.up()
    try:
        with closing(Docker("x", host)) as docker:
            events = docker.events()
            engine.down()
            with pytest.raises(ContainerError) as caught:
                list(events)
    finally:
        engine.down()

    assert caught.value.kind == "daemon_down"


def test_the_command_can_be_copied(docker: Docker) -> None:
    text = spec(
        docker,
        command=("Qwen/Qwen3-8B", "--json", '{"a": 1}'),
        env={"HF_TOKEN": "hf_secret", "A": "b c", "BAR": "it's\n"},
        gpus="0,1",
        shm_size=1 << 30,
        mounts=(Mount(source="/mnt", target="/models", read_only=True),),
        ports=(Port(container_port=8000, host_port=18000),),
    ).docker_run(mask={"HF_TOKEN"})

    assert "hf_secret" not in text
    assert "-e HF_TOKEN \\\n" in text
    assert "-e 'A=b c'" in text
    assert r"-e $'BAR=it\'s\n'" in text
    assert "--gpus '\"device=0,1\"'" in text
    assert "-p 127.0.0.1:18000:8000" in text
    assert "--mount type=bind,source=/mnt,target=/models,readonly" in text
    assert text.endswith("Qwen/Qwen3-8B --json '{\"a\": 1}'")


def test_the_copied_command_makes_the_same_container(docker: Docker, tmp_path: Path) -> None:
    wanted = spec(
        docker,
        entrypoint=("python3", "-m", "tests.engine"),
        command=("--name", "it's"),
        env={"A": "b c", "HF_TOKEN": "hf_secret"},
        mounts=(
            Mount(source=str(tmp_path), target="/models", read_only=True),
            Mount(source="kernels", target="/kernels", kind="volume"),
        ),
        ports=(
            Port(container_port=8000, host_port=18000),
            Port(container_port=8000, host_port=18001, host_ip="0.0.0.0"),
            Port(container_port=9000, host_port=0),
        ),
        ipc="host",
        pid="host",
        shm_size=64 << 20,
        memory=256 << 20,
        ulimits={"memlock": -1, "stack": 67108864},
        gpus="0,1",
        gpu_capabilities=("gpu", "compute", "utility"),
        runtime="runc",
        cap_add=("SYS_NICE", "IPC_LOCK"),
        privileged=True,
        cpuset_cpus="0",
        devices=("/dev/null:/dev/one:r",),
        security_opt=("seccomp=unconfined",),
        group_add=("44",),
        hostname="engine",
        extra_hosts=("spark-2:10.0.0.2",),
        tmpfs=("/scratch:size=1m",),
        stop_signal="SIGINT",
        user="1000:1000",
        workdir="/tmp",
        restart="on-failure",
    )
    command = wanted.docker_run(mask={"HF_TOKEN"}).replace("docker run -d", "docker create")
    environment = os.environ | {"DOCKER_HOST": docker.host, "HF_TOKEN": "hf_secret"}
    subprocess.run(command, shell=True, check=True, env=environment, capture_output=True)  # noqa: S602
    copied = _inspected(docker, wanted.name)
    docker.remove(wanted.name)

    with closing(APIClient(docker.host, version="auto")) as client:
        client.create_container(**creation(wanted))
    ours = _inspected(docker, wanted.name)

    assert ours == copied


def _inspected(docker: Docker, name: str) -> dict[str, Any]:
    """What Docker was told, without the differences that mean nothing."""
    with closing(APIClient(docker.host, version="auto")) as client:
        found = client.inspect_container(name)
    config, host = found["Config"], found["HostConfig"]
    config["Env"].sort()
    keys = ("Env", "ExposedPorts", "Hostname", "Labels", "StopSignal", "User", "WorkingDir")
    host["NetworkMode"] = host["NetworkMode"].replace("default", "bridge")
    host["CapAdd"] = {name.removeprefix("CAP_") for name in host["CapAdd"]}
    for request in host["DeviceRequests"]:
        request["Options"] = request["Options"] or {}
        request["Capabilities"] = [sorted(names) for names in request["Capabilities"]]
    return {
        "words": config["Entrypoint"] + config["Cmd"],
        **{key: config[key] for key in keys},
        **{key: value for key, value in host.items() if value},
    }


def test_kernels_are_kept_as_long_as_their_image(docker: Docker) -> None:
    image = docker.image(ENGINE)
    assert image is not None
    kept = docker.keep_kernels(image.id)
    assert docker.keep_kernels(image.id) == kept
    orphan = docker.keep_kernels("sha256:" + "0" * 64)

    assert docker.drop_orphaned_kernels() == [orphan]
    assert docker.drop_orphaned_kernels() == []
