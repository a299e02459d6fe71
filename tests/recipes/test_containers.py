"""Every recipe up to the creation of its container, on a real Docker Engine."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from servers.host.docker.client import creation
from servers.host.docker.containers import DockerContainers
from servers.judge.runs.limits import PIDS, drop_rights
from servers.launch.engines import placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Site
from servers.launch.recipes.catalogue import catalogue
from tests.base_images import ENGINE

pytestmark = pytest.mark.docker

HOST_PORT = 18000
TOKEN = "hf_of_the_box"
# What inferdash adds to every container: logs by the line, the box's checkpoints and token.
OWN_ENV = {
    "TQDM_BAR_FORMAT={l_bar}{bar}{r_bar}\n",
    "TQDM_MININTERVAL=1",
    "HF_HOME=/root/.cache/huggingface",
    f"HF_TOKEN={TOKEN}",
}
ENGINE_ENV = {
    "vllm": set(),
    "sglang": {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0"},
    "llamacpp": {"LLAMA_ARG_ENDPOINT_METRICS=1"},
}
PORTS = {"vllm": 8000, "sglang": 30000, "llamacpp": 8080}


def launches() -> Iterator[Any]:
    for recipe in catalogue().recipes:
        if not recipe.is_startable:
            continue
        yield pytest.param(recipe.launch(), id=recipe.id)
        for migration in recipe.migrated:
            name = f"{recipe.id} with {migration.checked_with}"
            yield pytest.param(recipe.launch(migration), id=name)


@pytest.fixture
def api(docker: DockerContainers) -> Iterator[APIClient]:
    with closing(APIClient(docker.host, version="auto")) as client:
        yield client
        for container in docker.list_ours():
            docker.remove(container.id)
        for volume in client.volumes(filters={"name": docker.install})["Volumes"] or ():
            client.remove_volume(volume["Name"])


@pytest.mark.parametrize("launch", list(launches()))
def test_the_created_container_is_what_the_recipe_says(
    docker: DockerContainers, api: APIClient, tmp_path: Path, launch: Launch
) -> None:
    bare = created(docker, api, tmp_path, Launch(engine="vllm", image="", checkpoint="c"), "bare")
    launch = there(docker, launch, tmp_path)

    found = created(docker, api, tmp_path, launch, "recipe")

    config, host = found["Config"], found["HostConfig"]
    port = launch.port or PORTS[launch.engine]
    assert config["Cmd"] == words(launch, port)
    assert config["Entrypoint"] == list(launch.entrypoint or ("python3", "-m", "tests.engine"))
    assert set(config["Env"]) == (
        OWN_ENV
        | ENGINE_ENV[launch.engine]
        | {f"{name}={value}" for name, value in launch.env.items()}
        | image_env(api, without=launch.env)
    )
    assert config["User"] == launch.user
    assert mounts(found) == {
        *((source, target, access) for source, target, access in said_mounts(launch)),
        (str(tmp_path / "hf"), "/root/.cache/huggingface", "rw"),
    }
    assert {
        key: value
        for key, value in host.items()
        if key != "Mounts" and value != bare["HostConfig"][key]
    } == differences(launch, port)
    settled = {"Cmd", "Entrypoint", "Env", "ExposedPorts", "Hostname", "Labels", "User"}
    assert {key: value for key, value in config.items() if key not in settled} == {
        key: value for key, value in bare["Config"].items() if key not in settled
    }


def created(
    docker: DockerContainers, api: APIClient, folder: Path, launch: Launch, name: str
) -> dict[str, Any]:
    """Created, not started; the fixture removes it."""
    image = docker.image(ENGINE)
    assert image is not None
    hf_cache = folder / "hf"
    hf_cache.mkdir(exist_ok=True)
    spec = placement.spec(
        launch,
        Site(home=str(folder), hf_cache=str(hf_cache), hf_token=TOKEN),
        name=f"inferdash-{docker.install[:8]}-{name}",
        labels={"inferdash.install": docker.install},
        host_port=launch.host_port or HOST_PORT,
        entrypoint=image.entrypoint,
        kernels_volume="",
        image=ENGINE,
    )
    made = api.create_container(**creation(drop_rights(spec, pids=PIDS)))
    found: dict[str, Any] = api.inspect_container(made["Id"])
    host = found["HostConfig"]
    # Written differently by different releases of Docker.
    host["CapAdd"] = [name.removeprefix("CAP_") for name in host["CapAdd"] or ()]
    return found


def there(docker: DockerContainers, launch: Launch, folder: Path) -> Launch:
    """The launch with bind mounts from a folder that exists, and volumes that nobody else has."""
    parts = [text.partition(":") for text in launch.volumes]
    return replace(
        launch,
        volumes=tuple(
            f"{folder}:{rest}" if source.startswith("/") else f"{docker.install}-{source}:{rest}"
            for source, _colon, rest in parts
        ),
    )


def words(launch: Launch, port: int) -> list[str]:
    """What follows the entrypoint: the program, inferdash's own flags, the recipe's."""
    program = {
        "vllm": ["vllm", "serve"],
        "sglang": ["python3", "-m", "sglang.launch_server"],
        "llamacpp": ["/app/llama-server"],
    }[launch.engine]
    checkpoint = {"vllm": [], "sglang": ["--model-path"], "llamacpp": ["-hf"]}[launch.engine]
    name = "--alias" if launch.engine == "llamacpp" else "--served-model-name"
    return [
        *(program if list(launch.entrypoint) != program else []),
        *checkpoint,
        launch.checkpoint,
        *((name, launch.served_name) if launch.served_name else ()),
        "--host",
        "127.0.0.1" if launch.network == "host" else "0.0.0.0",
        "--port",
        str(port),
        *launch.flags,
    ]


def image_env(api: APIClient, *, without: dict[str, str]) -> set[str]:
    image = api.inspect_image(ENGINE)  # type: ignore[no-untyped-call]
    return {text for text in image["Config"]["Env"] if text.partition("=")[0] not in without}


def said_mounts(launch: Launch) -> Iterator[tuple[str, str, str]]:
    for text in launch.volumes:
        source, target, *options = text.split(":")
        yield source, target, "ro" if options == ["ro"] else "rw"


def mounts(found: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (mount.get("Name") or mount["Source"], mount["Destination"], "rw" if mount["RW"] else "ro")
        for mount in found["Mounts"]
    }


def differences(launch: Launch, port: int) -> dict[str, Any]:
    """How Docker shows what sets the recipe's container apart from one without options."""
    said: dict[str, Any] = {}
    binding = [{"HostIp": "127.0.0.1", "HostPort": str(launch.host_port or HOST_PORT)}]
    bindings = {} if launch.network == "host" else {f"{port}/tcp": binding}
    if bindings != {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(HOST_PORT)}]}:
        said["PortBindings"] = bindings
    if launch.network != "bridge":
        said["NetworkMode"] = launch.network
    if launch.ipc:
        # Docker's own: labels of SELinux would keep the box's segments out of reach.
        said |= {"IpcMode": launch.ipc, "SecurityOpt": ["no-new-privileges", "label=disable"]}
    if launch.shm_size:
        said["ShmSize"] = launch.shm_size
    if launch.ulimits:
        said["Ulimits"] = [
            {"Name": name, "Hard": count, "Soft": count} for name, count in launch.ulimits.items()
        ]
    if launch.cap_add:
        said["CapAdd"] = list(launch.cap_add)
    if launch.privileged:
        said |= {"Privileged": True, "SecurityOpt": ["label=disable"]}
        said |= {"MaskedPaths": None, "ReadonlyPaths": None, "CapDrop": []}
    if launch.gpus == "none":
        said["DeviceRequests"] = []
    return said
