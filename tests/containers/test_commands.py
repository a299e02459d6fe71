import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from servers.host.docker.client import creation
from servers.host.docker.containers import DockerContainers, Mount, Port
from tests.base_images import ENGINE
from tests.containers.specs import spec

pytestmark = pytest.mark.docker


def test_the_command_can_be_copied(docker: DockerContainers) -> None:
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
    assert text.endswith("Qwen/Qwen3-8B \\\n  --json '{\"a\": 1}'")


def test_the_copied_command_makes_the_same_container(
    docker: DockerContainers, tmp_path: Path
) -> None:
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


def _inspected(docker: DockerContainers, name: str) -> dict[str, Any]:
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


def test_kernels_are_kept_as_long_as_their_image(docker: DockerContainers) -> None:
    image = docker.image(ENGINE)
    assert image is not None
    kept = docker.keep_kernels(image.id)
    assert docker.keep_kernels(image.id) == kept
    orphan = docker.keep_kernels("sha256:" + "0" * 64)

    assert docker.drop_orphaned_kernels() == [orphan]
    assert docker.drop_orphaned_kernels() == []
