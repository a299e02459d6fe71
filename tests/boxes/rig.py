"""A hub and a further box on this machine, each with a data folder of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from servers.host.docker.containers import DockerContainers
from servers.host.links.files import WireFiles
from tests.nvml import StandIn, profiles
from tests.ports import free_port
from tests.shell import Shell
from tests.terminal import ROOT, TerminalProgram
from tests.waiting import PATIENCE, wait_until

UP = [sys.executable, "-m", "inferdash.up"]
JOIN = [sys.executable, "-m", "inferdash.wire.join"]
# Seconds, which only failure reaches: a hub makes its database anew, beside whatever else runs.
PATIENT = 900.0
TOKEN = """
from servers.lifecycle.links.invitations import invite_box
print(invite_box(None, now=timezone.now(), address="127.0.0.1")[1].write())
"""
LET_IN = """
from servers.lifecycle.links.decisions import let_in
let_in(BoxLink.objects.select_waiting().get(), None)
"""


@dataclass(kw_only=True)
class LinkedMachine:
    """A data folder, and what runs on it."""

    data: Path
    environment: dict[str, str]
    up: TerminalProgram
    root: Path = ROOT  # of its inferdash

    @property
    def files(self) -> WireFiles:
        return WireFiles(self.data)

    def start(self) -> None:
        self.up = TerminalProgram(UP, self.environment, patience=PATIENT, folder=self.root)

    def end(self) -> None:
        self.up.press_ctrl_c()
        self.up.ends()

    def list_programs(self, word: str) -> list[psutil.Process]:
        """Its children whose command holds the word."""
        found = []
        for each in psutil.Process(self.up.process.pid).children(recursive=True):
            try:
                if word in " ".join(each.cmdline()):
                    found.append(each)
            except psutil.NoSuchProcess:
                continue
        return found


@dataclass(kw_only=True)
class TwoBoxes:
    hub: LinkedMachine
    box: LinkedMachine  # milo
    shell: Shell  # on the hub
    url: str
    port: int  # of the hub's sshd
    docker: DockerContainers  # with the box's label
    words: str  # that the box has shown

    def ask(self, expression: str) -> object:
        """The value of a Python expression over the hub's models, as JSON can carry it."""
        return json.loads(self.shell.run(f"print(json.dumps({expression}))"))

    def try_ssh(self, *options: str, command: str = "") -> "subprocess.CompletedProcess[str]":
        """With the box's own key, as who has taken over the box would."""
        whole = [*self._make_ssh(options), *([command] if command else [])]
        return subprocess.run(whole, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def begin_ssh(self, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(self._make_ssh(options), stderr=subprocess.PIPE, text=True)

    def _make_ssh(self, options: tuple[str, ...]) -> list[str]:
        files = self.box.files
        base = ["ssh", "-F", "/dev/null", "-i", str(files.key), "-p", str(self.port)]
        settings = ["BatchMode=yes", "IdentitiesOnly=yes", "ExitOnForwardFailure=yes"]
        settings += [f"UserKnownHostsFile={files.known_hosts}", "StreamLocalBindUnlink=yes"]
        base += [word for each in settings for word in ("-o", each)]
        return [*base, *options, "nobody@127.0.0.1"]


@contextmanager
def two_boxes(docker_host: str, folder: Path, *, box_root: Path = ROOT) -> Iterator[TwoBoxes]:
    """A hub, and a box that has joined it and is let in.

    `box_root`: where its inferdash is, which may be one of another version.
    """
    gpus = StandIn(folder)
    gpus.show(profiles.rtx_pro_6000())
    port, ssh = free_port(), free_port()
    link = free_port()
    shared = gpus.env | {
        "DJANGO_SETTINGS_MODULE": "inferdash.settings", "HOST": "127.0.0.1", "REDIS_URL": "",
        "DATABASE_URL": "", "DOCKER_HOST": docker_host, "INFERDASH_HUB": "off",
        "SSH_CONNECTION": "", "NO_COLOR": "1",
    }  # fmt: skip
    on_hub = shared | {
        "INFERDASH_DATA": str(folder / "hub"), "INFERDASH_BOX": "rtx8", "PORT": str(port),
        "INFERDASH_HUB_PORT": str(ssh), "INFERDASH_HUB_DATABASE_PORT": str(free_port()),
        "INFERDASH_HUB_REDIS_PORT": str(free_port()), "INFERDASH_HUB_BULK_PORT": str(free_port()),
        "INFERDASH_BOX_PORTS": f"{link}-{link + 1}",
        "INFERDASH_HUB_ACCOUNT": "nobody",
    }  # fmt: skip
    on_box = shared | {"INFERDASH_DATA": str(folder / "milo"), "INFERDASH_BOX": ""}
    hub = LinkedMachine(
        data=folder / "hub",
        environment=on_hub,
        up=TerminalProgram(UP, on_hub | {"BOXES": "1"}, patience=PATIENT),
    )
    shell: Shell | None = None
    box: LinkedMachine | None = None
    try:
        hub.up.waits_for("ready at")
        shell = Shell(os.environ | on_hub)
        token = shell.run(TOKEN).strip()
        joining = TerminalProgram(
            JOIN, on_box | {"TOKEN": token, "NAME": "milo"}, patience=PATIENT, folder=box_root
        )
        box = LinkedMachine(data=folder / "milo", environment=on_box, up=joining, root=box_root)
        joining.waits_for("these words must be the same")
        words = joining.waits_for(r"inferdash:\s+((?:[a-z]+ ){5}[a-z]+)")[1]
        shell.run(LET_IN)
        joining.waits_for("let in as milo")
        joining.waits_for("Watching milo|The hub is newer")
        install = (box.data / "install.id").read_text().strip()
        docker = DockerContainers(install, docker_host)
        yield TwoBoxes(
            hub=hub, box=box, shell=shell, url=f"http://127.0.0.1:{port}", port=ssh,
            docker=docker, words=words,
        )  # fmt: skip
        for container in docker.list_ours():
            docker.remove(container.id)
        docker.close()
    finally:
        if shell is not None:
            shell.close()
        for machine in (box, hub):
            if machine is not None:
                machine.end()
                print(machine.up.said)  # pytest shows it where a test failed
        remove_database(hub.data)


def remove_database(data: Path) -> None:
    """PostgreSQL's files lie elsewhere where its account may not come to ours."""
    place = WireFiles(data).postgres
    if place.is_symlink():
        shutil.rmtree(place.resolve())


def wait_for_state(boxes: TwoBoxes, state: str) -> None:
    expression = 'str(Run.objects.order_by("-pk").values_list("state", flat=True).first())'
    wait_until(
        lambda: boxes.ask(expression) == state,
        lambda: f"the run on the box is {state}, while it says {boxes.box.up.said[-4000:]}",
        patience=PATIENT,
    )
