"""A hub, and boxes that have joined it from network namespaces, each with a Docker Engine of its own."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from docker import APIClient

from servers.host.docker.containers import DockerContainers
from tests import base_images
from tests.boxes.cable import CabledNetwork, cabled_network
from tests.boxes.rig import JOIN, LET_IN, PATIENT, UP, LinkedMachine, remove_database
from tests.docker_engine import FOLDER, PrivateDockerEngine
from tests.nvml import StandIn, profiles
from tests.ports import free_port
from tests.shell import Shell
from tests.terminal import TerminalProgram

BOXES = 8  # at most
TOKEN = """
from servers.lifecycle.links.invitations import invite_box
print(invite_box(None, now=timezone.now(), address={address!r})[1].write())
"""


class ContainerEvents(threading.Thread):
    """What a Docker Engine does, counted: by action and run."""

    def __init__(self, host: str) -> None:
        super().__init__(daemon=True, name="container-events")
        self.counts: Counter[tuple[str, str]] = Counter()
        # Longer than any test: nothing may happen for a while.
        self._client = APIClient(host, version="auto", timeout=86_400)
        self._events = self._client.events(decode=True, filters={"type": "container"})
        self.start()

    def run(self) -> None:
        for event in self._events:
            run = event["Actor"]["Attributes"].get("inferdash.run")
            if run is not None:
                self.counts[event["Action"], run] += 1

    def close(self) -> None:
        self._events.close()
        self.join()
        self._client.close()


@dataclass(kw_only=True)
class LanBox:
    name: str
    network: CabledNetwork
    machine: LinkedMachine
    docker: DockerContainers  # with the box's label
    events: ContainerEvents

    def start(self) -> None:
        self.machine.up = TerminalProgram(
            [*self.network.namespace.prefix, *UP], self.machine.environment, patience=PATIENT
        )


@dataclass(kw_only=True)
class BoxLan:
    hub: LinkedMachine
    shell: Shell  # on the hub
    url: str
    boxes: list[LanBox] = field(default_factory=list)

    def ask(self, expression: str) -> object:
        """The value of a Python expression over the hub's models, as JSON can carry it."""
        return json.loads(self.shell.run(f"print(json.dumps({expression}))"))


@contextmanager
def lan_hub(docker_host: str, folder: Path) -> Iterator[BoxLan]:
    """A hub without boxes yet: where the tests are."""
    gpus = _make_gpus(folder / "hub-gpus")
    port, links = free_port(), [free_port() for _each in range(BOXES)]
    environment = gpus.env | _settings(docker_host) | {
        "INFERDASH_DATA": str(folder / "hub"), "INFERDASH_BOX": "rtx8", "PORT": str(port),
        "INFERDASH_HUB_PORT": str(free_port()), "INFERDASH_HUB_DATABASE_PORT": str(free_port()),
        "INFERDASH_HUB_REDIS_PORT": str(free_port()), "INFERDASH_HUB_BULK_PORT": str(free_port()),
        "INFERDASH_HUB_ACCOUNT": "nobody",
        "INFERDASH_BOX_PORTS": f"{min(links)}-{max(links)}",
    }  # fmt: skip
    hub = LinkedMachine(
        data=folder / "hub",
        environment=environment,
        up=TerminalProgram(UP, environment | {"BOXES": "1"}, patience=PATIENT),
    )
    shell = Shell(os.environ | environment)
    try:
        hub.up.waits_for("ready at")
        yield BoxLan(hub=hub, shell=shell, url=f"http://127.0.0.1:{port}")
    finally:
        shell.close()
        hub.end()
        print(hub.up.said)  # pytest shows it where a test failed
        remove_database(hub.data)


@contextmanager
def lan_box(
    lan: BoxLan, name: str, docker_host: str, folder: Path, *, has_engine: bool = True
) -> Iterator[LanBox]:
    """A box that has joined the hub, with a Docker Engine of its own unless it starts nothing."""
    with ExitStack() as stack:
        network = stack.enter_context(cabled_network())
        if has_engine:
            docker_host = stack.enter_context(box_engine(network, docker_host)).host
        environment = make_environment(folder, name, docker_host)
        joining = begin_join(lan, network, environment, name)
        machine = LinkedMachine(data=folder / name, environment=environment, up=joining)
        stack.callback(_end, machine)
        joining.waits_for("these words must be the same")
        lan.shell.run(LET_IN)
        joining.waits_for(f"Watching {name}")
        install = (machine.data / "install.id").read_text().strip()
        box = LanBox(
            name=name,
            network=network,
            machine=machine,
            docker=DockerContainers(install, docker_host),
            events=ContainerEvents(docker_host),
        )
        stack.callback(box.docker.close)
        stack.callback(box.events.close)
        lan.boxes.append(box)
        yield box


def make_environment(folder: Path, name: str, docker_host: str) -> dict[str, str]:
    """Of a box's programs."""
    own = {"INFERDASH_DATA": str(folder / name), "INFERDASH_BOX": ""}
    return _make_gpus(folder / f"{name}-gpus").env | _settings(docker_host) | own


def begin_join(
    lan: BoxLan, network: CabledNetwork, environment: dict[str, str], name: str, *before: str
) -> TerminalProgram:
    """`before`: words before its command."""
    token = lan.shell.run(TOKEN.format(address=network.hub)).strip()
    return TerminalProgram(
        [*network.namespace.prefix, *before, *JOIN],
        environment | {"TOKEN": token, "NAME": name},
        patience=PATIENT,
    )


@contextmanager
def box_engine(network: CabledNetwork, docker_host: str) -> Iterator[PrivateDockerEngine]:
    """A Docker Engine inside, with the image of the test engine; images stay for the next time."""
    engine = PrivateDockerEngine(
        folder=FOLDER / f"docker-box-{network.number}",
        bridge="ifdt0",
        address="172.29.241.1/24",
        prefix=tuple(network.namespace.prefix),
    )
    engine.up()
    try:
        base_images.copy_engine(docker_host, engine.host)
        yield engine
    finally:
        engine.down()


def list_containers(host: str) -> list[dict[str, str]]:
    with closing(APIClient(host, version="auto")) as client:
        found: list[dict[str, str]] = client.containers(all=True)
        return found


def _make_gpus(folder: Path) -> StandIn:
    folder.mkdir()
    gpus = StandIn(folder)
    gpus.show(profiles.rtx_pro_6000())
    return gpus


def _end(machine: LinkedMachine) -> None:
    machine.end()
    print(machine.up.said)


def _settings(docker_host: str) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "inferdash.settings", "HOST": "127.0.0.1", "REDIS_URL": "",
        "DATABASE_URL": "", "DOCKER_HOST": docker_host, "INFERDASH_HUB": "off",
        "SSH_CONNECTION": "", "NO_COLOR": "1",
    }  # fmt: skip
