import gc
import os
import socket
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from servers.host.docker.containers import ContainerError, DockerContainers, Mount, Port, Spec
from servers.host.docker.facts import translate
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from tests.base_images import BASE, ENGINE
from tests.containers.specs import shell, spec
from tests.registry import pull
from tests.waiting import wait_until

pytestmark = pytest.mark.docker


def test_a_taken_port_is_told_and_nothing_is_left(docker: DockerContainers) -> None:
    port = (Port(container_port=80, host_port=18099),)
    docker.run(shell(docker, "sleep 60", ports=port))

    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "sleep 60", "two", ports=port))

    assert caught.value.kind == "port_taken"
    assert "Port 18099 of this box is taken by the container inferdash-" in str(caught.value)
    assert len(docker.list_ours()) == 1


def test_a_port_taken_by_a_program_names_the_program(docker: DockerContainers) -> None:
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
    endpoint = Endpoint(address="127.0.0.1", port=port)
    return wait_until(lambda: probes.models(endpoint), "the engine answers")


def test_ports_are_published_on_loopback_only(docker: DockerContainers) -> None:
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


def test_a_missing_program_is_told_and_nothing_is_left(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(spec(docker, image=BASE, entrypoint=("vllm",), command=("serve",), init=False))

    assert caught.value.kind == "no_program"
    assert docker.list_ours() == []


def test_a_limit_that_the_kernel_refuses_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", ulimits={"memlock": -1}))

    assert caught.value.kind == "rlimit"
    assert docker.list_ours() == []


@pytest.mark.parametrize("gpus", ["all", "count=2", "0,1"])
def test_gpus_are_asked_for(docker: DockerContainers, gpus: str) -> None:
    docker.run(shell(docker, "sleep 60", gpus=gpus))

    assert len(docker.list_ours()) == 1


def test_a_docker_without_gpus_says_how_to_get_them(docker_host_without_gpus: str) -> None:
    with closing(DockerContainers(str(uuid.uuid4()), docker_host_without_gpus)) as docker:
        refusal = docker.refusal(Spec(image="", gpus="all", network="none"))

        assert refusal is not None
        assert refusal.kind == "no_gpu_driver"
        assert "NVIDIA Container Toolkit" in str(refusal)
        assert "could not select device driver" in refusal.detail
        assert docker.refusal(Spec(image="", network="none")) is None
        assert docker.list_ours() == []


def test_options_can_be_tried_before_a_start(docker: DockerContainers, tmp_path: Path) -> None:
    memlock = docker.refusal(Spec(image="", ulimits={"memlock": -1}))
    gone = docker.refusal(Spec(image="", mounts=(Mount(source=f"{tmp_path}/x", target="/x"),)))

    assert memlock is not None
    assert memlock.kind == "rlimit"
    assert gone is not None
    assert gone.kind == "missing_mount"
    assert docker.refusal(Spec(image="", gpus="all", ulimits={"nofile": 1000})) is None
    assert docker.list_ours() == []


def test_a_missing_device_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", devices=("/dev/infiniband/rdma_cm",)))

    assert caught.value.kind == "no_device"
    assert "/dev/infiniband/rdma_cm" in str(caught.value)
    assert docker.list_ours() == []


def test_a_reference_that_cannot_be_one_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        pull(docker, "Team/Engine:1")

    assert caught.value.kind == "bad_reference"


def test_an_image_that_is_not_here_ends_a_run(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(spec(docker, image="no/such:image"))

    assert caught.value.kind == "no_image"
    assert "no/such:image" in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_socket_that_may_not_be_used_is_told(docker_host: str) -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(ContainerError) as caught:
            DockerContainers("x", docker_host).facts()
        with pytest.raises(ContainerError) as listening:
            DockerContainers("x", docker_host).events()
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


def test_an_unknown_runtime_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", runtime="kata"))

    assert caught.value.kind == "unknown_runtime"


def test_an_unknown_network_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.run(shell(docker, "true", network="fabric"))

    assert caught.value.kind == "no_network_named"
    assert docker.list_ours() == []


def test_a_registry_out_of_reach_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        pull(docker, "registry.invalid/engine:1")

    assert caught.value.kind == "no_network"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_daemon_that_is_down_is_told(tmp_path: Path) -> None:
    with pytest.raises(ContainerError) as caught:
        DockerContainers("x", f"unix://{tmp_path}/none.sock").facts()

    assert caught.value.kind == "daemon_down"
    assert "systemctl start docker" in str(caught.value)
    # docker-py leaves the socket of a failed connection to the collector: now, not in the
    # middle of another test.
    del caught
    gc.collect()


def test_an_image_that_is_not_here_is_none(docker: DockerContainers) -> None:
    assert docker.image("no/such:image") is None


def test_an_image_says_its_entrypoint(docker: DockerContainers) -> None:
    image = docker.image(ENGINE)

    assert image is not None
    assert image.entrypoint == ("python3", "-m", "tests.engine")
