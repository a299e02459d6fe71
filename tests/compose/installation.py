"""inferdash as docker-compose.yml runs it, on the tests' Docker Engine."""

import fcntl
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from docker import APIClient

from servers.host.docker.containers import DockerContainers
from tests import base_images
from tests.compose.sources import build_arguments
from tests.docker_engine import FOLDER
from tests.ports import free_port
from tests.terminal import ROOT
from tests.waiting import PATIENCE, wait_until

HERE = Path(__file__).resolve().parent
BASE = re.findall(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[0]
INCLUDE = "debconf"  # essential anyway: nothing beyond the base
STAND_INS = {"REDIS_IMAGE": "inferdash-test/redis:1", "POSTGRES_IMAGE": "inferdash-test/postgres:1"}
SERVICES = ("redis", "postgres", "web", "worker", "watcher")
SHELL = "import django; django.setup()\nimport json\nfrom servers.models import *\n"
PLUGINS = ("/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker")


class ComposeError(Exception):
    """docker-compose failed; the text is its own."""


@dataclass(frozen=True, kw_only=True)
class Compose:
    """One project: the repository's docker-compose.yml with a settings file of its own."""

    project: str
    settings: Path
    docker_host: str
    port: int

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*_program(), "--env-file", str(self.settings), "-p", self.project, *words],
            cwd=ROOT,
            # A variable of the shell would win over the settings file.
            env={
                "PATH": f"{os.environ.get('PATH', '')}:/usr/bin",
                "HOME": str(Path.home()),
                "DOCKER_HOST": self.docker_host,
                # Without BuildKit, which is a download of its own where it is no part of Docker.
                "COMPOSE_DOCKER_CLI_BUILD": "0",
                "DOCKER_BUILDKIT": "0",
                **build_arguments(),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stdout + done.stderr)[-6000:]
            raise ComposeError(f"docker-compose {' '.join(words)} failed:\n{said}")
        return done.stdout


@dataclass(frozen=True, kw_only=True)
class ComposeInstallation:
    """Answers to the same names as tests.installation.Installation, for the same walk."""

    url: str
    link: str
    docker: DockerContainers
    compose: Compose

    def ask(self, expression: str) -> object:
        code = f"{SHELL}print(json.dumps({expression}))"
        return json.loads(self.compose("exec", "-T", "web", "python", "-c", code))

    def run(self, code: str) -> str:
        """What it printed."""
        return self.compose("exec", "-T", "web", "python", "-c", SHELL + code)

    def inspect(self, service: str) -> dict[str, Any]:
        """What Docker says of a service's container."""
        labels = {"project": self.compose.project, "service": service}
        container = self._api.containers(
            all=True,
            filters={"label": [f"com.docker.compose.{k}={v}" for k, v in labels.items()]},
        )[0]
        found: dict[str, Any] = self._api.inspect_container(container["Id"])
        return found

    def history(self, service: str) -> list[str]:
        """The commands that a service's image was made by."""
        layers = self._api.history(self.inspect(service)["Image"])  # type: ignore[no-untyped-call]
        return [layer["CreatedBy"] for layer in layers]

    def is_healthy(self, service: str) -> bool:
        state = self.inspect(service)["State"]
        return bool(state.get("Health", {}).get("Status", "healthy") == "healthy")

    def is_up(self) -> bool:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE)
        with closing(connection):
            try:
                connection.request("GET", "/login/")
                return connection.getresponse().status == http.client.OK
            except OSError:
                return False

    @cached_property
    def _api(self) -> APIClient:
        return APIClient(self.compose.docker_host, version="auto")


def build(compose: Compose) -> None:
    """The product's image from its Dockerfile; Docker's cache knows what has not changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "compose.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        base_images.build_base(compose.docker_host, suite="trixie", tag=BASE, include=INCLUDE)
        with closing(APIClient(compose.docker_host, version="auto", timeout=900)) as client:
            for tag in STAND_INS.values():
                folder = HERE / tag.partition("/")[2].partition(":")[0]
                said = list(
                    client.build(
                        path=str(folder),
                        tag=tag,
                        network_mode="host",
                        rm=True,
                        decode=True,
                        buildargs={"BASE": BASE},
                    )
                )
                if "error" in said[-1]:
                    raise ComposeError(f"{tag} could not be built: {said[-3:]}")
            # Stages of older builds; younger ones are the cache of the next.
            recipe = f"{base_images.LABEL}=trixie {INCLUDE}"
            client.prune_images(  # type: ignore[no-untyped-call]
                filters={"dangling": True, "label": [recipe], "until": "24h"}
            )
        compose("build", "web")


@contextmanager
def installation(docker_host: str) -> Iterator[ComposeInstallation]:
    with project(docker_host) as compose:
        compose("up", "-d")
        yield from _installed(compose)


@contextmanager
def project(docker_host: str) -> Iterator[Compose]:
    """One with all that it needs, of which nothing runs yet."""
    with tempfile.TemporaryDirectory(prefix="inferdash-compose-") as folder:
        port = free_port()
        box_root = Path(folder) / "root"
        box_root.mkdir()
        docker_socket = docker_host.removeprefix("unix://")
        variables = {
            "PORT": str(port),
            "INFERDASH_BOX": "rtx8",
            "INFERDASH_HOME": str(Path.home()),
            "DOCKER_SOCKET": docker_socket,
            "DOCKER_GID": str(Path(docker_socket).stat().st_gid),
            "HOST_ROOT": str(box_root),
            "BUILD_NETWORK": "host",
            **STAND_INS,
        }
        settings = Path(folder) / "settings"
        settings.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        compose = Compose(
            project=f"inferdash-test-{port}",
            settings=settings,
            docker_host=docker_host,
            port=port,
        )
        build(compose)
        with _shared(box_root):
            # As much of the box as its worker looks at.
            (box_root / Path.home().relative_to("/")).mkdir(parents=True)
            try:
                yield compose
            except BaseException:
                print(compose("logs", "--no-color", "--tail=60"))
                raise
            finally:
                compose("down", "-v", "-t", "5")


def _installed(compose: Compose) -> Iterator[ComposeInstallation]:
    url = f"http://127.0.0.1:{compose.port}"
    command = ("python", "manage.py", "invite", "--first-admin")
    link = compose("exec", "-T", "web", *command).strip()
    install = compose("exec", "-T", "web", "cat", "/data/install.id").strip()
    client = DockerContainers(install, compose.docker_host)
    made = ComposeInstallation(url=url, link=link, docker=client, compose=compose)
    try:
        wait_until(made.is_up, f"{url}/login/ answers")
        yield made
    finally:
        # Whoever watches them would write down that somebody removed them.
        compose("stop", "-t", "5", "watcher")
        for container in client.list_ours():
            client.remove(container.id)
        client.close()


@contextmanager
def _shared(folder: Path) -> Iterator[None]:
    """A mount that Docker can follow (rslave), as / is on a machine that systemd started."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "inferdash", folder], check=True)
    try:
        subprocess.run(["mount", "--make-shared", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _program() -> list[str]:
    if any(os.access(f"{place}/cli-plugins/docker-compose", os.X_OK) for place in PLUGINS):
        return ["docker", "compose"]
    return [shutil.which("docker-compose") or "docker-compose"]
