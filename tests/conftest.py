"""What the tests share: real parts, started once a session."""

import asyncio
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connections

from servers.host.docker.containers import DockerContainers
from servers.judge.runs import limits
from servers.lifecycle.runs import creation
from servers.models import Box
from tests import docker_engine, factories, migrated

# The same examples each time, so that a failure is the change's; --hypothesis-profile=default looks
# for new ones. How quick a machine is says nothing of the code.
hypothesis.settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("suite")

pytest_plugins = [
    "tests.groups",
    "tests.durations",
    "tests.parts",
    "tests.redis_server",
    "tests.scheduling",
    "tests.running",
]


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """DOCKER_HOST of the tests' own Docker Engine, with the test engine's image."""
    with docker_engine.lease() as host:
        yield host


@pytest.fixture(scope="session")
def docker_host_without_gpus() -> Iterator[str]:
    """DOCKER_HOST of a Docker Engine that cannot give GPUs. It has no images."""
    with docker_engine.lease(docker_engine.WITHOUT_GPUS) as host:
        yield host


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file, as in production: threads that share one in memory meet locks that no file has."""
    folder = tmp_path_factory.mktemp("database")
    migrated.put_into(folder)
    wanted = connections["default"].settings_dict["TEST"]
    wanted.update({"NAME": str(folder / migrated.NAME), "MIGRATE": False})


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """It is migrated already."""
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """It ends outside Playwright's loop, in which tests.running leaves the last test of a browser."""
    yield
    asyncio._set_running_loop(None)
    connections.close_all()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """For sockets, whose path the kernel takes only up to 107 bytes: pytest's own is longer."""
    with tempfile.TemporaryDirectory(prefix="ifd-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> None:
    """People of a test are made in no time: hashing a password as it ought to be takes 0.6 s."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session", autouse=True)
def own_ports() -> None:
    """Each process of tests, and what it starts, has engines' ports of its own: else one's engine
    takes a port that another holds on purpose, or had before its Docker Engine went away."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    usual = settings.ENGINE_PORTS
    moved = (1 + process) * len(usual)
    settings.ENGINE_PORTS = range(usual.start + moved, usual.stop + moved)
    os.environ["INFERDASH_ENGINE_PORTS"] = (
        f"{settings.ENGINE_PORTS.start}-{settings.ENGINE_PORTS.stop - 1}"
    )


@pytest.fixture
def root(tmp_path: Path, settings: Any) -> Path:
    """The disks of a box, of the test's own and empty so far, with the limits of a new box."""
    settings.HOST_ROOT = tmp_path / "root"
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text(limits.default_text("/home/ada"))
    return tmp_path / "root"


@pytest.fixture
def box() -> Box:
    return factories.box()


@pytest.fixture
def docker(docker_host: str) -> Iterator[DockerContainers]:
    """Docker for an install of its own; what a test leaves behind is removed."""
    client = DockerContainers(str(uuid.uuid4()), docker_host)
    yield client
    for container in client.list_ours():
        client.remove(container.id)
    client.close()


@pytest.fixture
def asking(docker: DockerContainers, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerContainers]:
    """The worker's and the watcher's Docker is the tests' own."""
    monkeypatch.setattr(settings, "INSTALL", docker.install)
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    creation.docker.cache_clear()
    yield docker
    creation.docker().close()
    creation.docker.cache_clear()


@pytest.fixture
def worker(
    docker: DockerContainers, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DockerContainers:
    """This process is the worker of a box: its Docker is the tests' own, its box.toml says nothing."""
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text("")
    monkeypatch.setattr(creation, "docker", lambda: docker)
    return docker
