"""What a box has that starts need: from its kernel, its disks and a real Docker Engine."""

import os
import platform
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from servers.host.docker.containers import DockerContainers
from servers.host.kernel import resources
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import creation
from servers.models import Box, HostResources, Server
from servers.watcher import box_row
from servers.watcher.images import ImageInspector
from tests import factories
from tests.base_images import BASE, ENGINE
from tests.ports import free_port

ROUNDED = 0.001  # seconds; of a clock that is read on its own terms

NEEDY = "inferdash-test/needy:1"
ABSENT = "inferdash-test/absent:1"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def test_a_disk_is_that_of_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("/data")

    found = resources.disk("/link/models/none/yet", root=tmp_path)

    assert found is not None
    real = os.statvfs(tmp_path)
    assert found.path == "/link/models/none/yet"
    assert found.total == real.f_blocks * real.f_frsize
    assert 0 < found.free <= found.total
    (tmp_path / "loop").symlink_to("loop")
    assert resources.disk("/loop", root=tmp_path) is None


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_port_that_somebody_listens_on_is_seen(family: int, address: str) -> None:
    # Of one that the kernel chooses for IPv6 somebody may use the same number for IPv4.
    port = free_port()
    with socket.socket(family) as server:
        server.bind((address, port))
        assert port not in (resources.list_listening_ports() or ())
        server.listen()
        assert port in (resources.list_listening_ports() or ())
    assert port not in (resources.list_listening_ports() or ())


def test_its_own_addresses_are_those_that_the_kernel_calls_local(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/fib_trie").write_text(
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n"
        "        |-- 10.0.0.1\n           /32 host LOCAL\n        |-- 10.0.0.255\n"
        "           /32 link BROADCAST\n        |-- 127.0.0.1\n           /32 host LOCAL\n"
    )

    assert resources.addresses(root=tmp_path) == frozenset({"10.0.0.1"})
    assert resources.addresses() is not None


def test_what_the_kernel_does_not_tell_is_not_known(tmp_path: Path) -> None:
    assert resources.list_listening_ports(root=tmp_path) is None
    assert resources.addresses(root=tmp_path) is None
    assert resources.has_toolkit(root=tmp_path) is False
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/nvidia-container-runtime-hook").touch()
    assert resources.has_toolkit(root=tmp_path) is True
    shared = resources.shared_memory()
    assert shared is not None
    assert shared.total > 0


@pytest.fixture
def needy(asking: DockerContainers) -> Iterator[str]:
    """An image that asks for more than any driver has."""
    with closing(APIClient(asking.host, version="auto")) as client:
        container = client.create_container(BASE, ["true"])
        repository, _colon, tag = NEEDY.partition(":")
        asks = "ENV NVIDIA_REQUIRE_CUDA=cuda>=12.8"
        client.commit(container["Id"], repository, tag, changes=asks)
        client.remove_container(container["Id"])
        yield NEEDY
        client.remove_image(NEEDY, force=True)


@pytest.fixture
def box(own_redis: None) -> Box:
    return factories.box(gpus=1, driver="550.54", hf_cache="~/.cache/huggingface")


def place(box: Box, name: str, image: str, **values: Any) -> Server:
    return factories.server(box, name, "gpt-oss-120b", image=image, **values)


@pytest.mark.docker
@pytest.mark.django_db(transaction=True)
def test_what_docker_says_of_images_and_of_itself_stops_a_start(
    asking: DockerContainers, box: Box, needy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [place(box, name, image) for name, image in
               (("fine", ENGINE), ("needy", needy), ("absent", ABSENT))]  # fmt: skip
    monkeypatch.setattr("servers.watcher.images.ImageInspector._take", lambda *_: None)

    ImageInspector(box).look(sample=None)
    box_row.look_at_host_resources(box, creation.docker().facts())

    known = HostResources.objects.get(box=box)
    assert set(known.images) == {ENGINE, NEEDY, ABSENT}
    assert known.images[ABSENT] is None
    assert known.images[ENGINE]["architecture"] == MACHINE
    assert known.images[NEEDY]["require"] == "cuda>=12.8"
    assert known.found["architecture"] == platform.machine()
    assert "runc" in known.found["runtimes"]
    assert known.found["disks"]["images"]["free"] > 0
    # Redis runs on this machine: however long it takes to answer, its clock is ours.
    assert abs(known.found["clock"]["seconds"]) <= known.found["clock"]["within"] + ROUNDED
    told = {}
    for server in servers:
        checked = preflight.check(LaunchContext(server.profile.launch, box, server.profile, server))
        told[server.slug] = {item.id: item for item in checked.items}
    assert told["fine"]["image"].level == "ok"
    assert "driver" not in told["fine"]
    assert told["needy"]["driver"].level == "error"
    assert "Install driver 570 or newer" in told["needy"]["driver"].remedy
    assert "pulled at the start" in told["absent"]["image"].says


@pytest.mark.docker
@pytest.mark.django_db(transaction=True)
def test_an_image_that_is_gone_is_known_to_be_gone(asking: DockerContainers, box: Box) -> None:
    place(box, "fine", ENGINE)
    factories.observation(HostResources, box, images={ENGINE: None, "another:1": None})

    box_row.note_images(box, {ENGINE: creation.docker().image(ENGINE)})

    assert set(HostResources.objects.get().images) == {ENGINE}


@pytest.mark.docker
@pytest.mark.django_db(transaction=True)
def test_a_sign_of_life_writes_supplies_and_disturbs_no_page(
    asking: DockerContainers, box: Box
) -> None:
    box_row.sign_of_life(box, None, [])
    first = HostResources.objects.get(box=box)
    assert "listening" in first.found
    box.refresh_from_db()
    # What changes every few seconds is no news for those who look at the box.
    assert "disks" not in box.facts

    box_row.sign_of_life(box, None, [])
    assert HostResources.objects.exclude(looked_at=first.looked_at).exists()
