"""The whole of inferdash as `make up` runs it, with the tests' Docker Engine and stand-in GPUs."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.host.docker.containers import DockerContainers
from tests import migrated
from tests.nvml import SimulatedMachine, StandIn
from tests.ports import free_port
from tests.shell import Shell
from tests.terminal import TerminalProgram


@dataclass(frozen=True, kw_only=True)
class Installation:
    url: str
    link: str  # makes the first admin
    environment: dict[str, str]
    up: TerminalProgram
    docker: DockerContainers  # with this installation's label
    gpus: StandIn
    data: Path
    shell: Shell

    def ask(self, expression: str) -> object:
        """The value of a Python expression over its models, as JSON can carry it."""
        return json.loads(self.shell.run(f"print(json.dumps({expression}))"))

    def run(self, code: str) -> None:
        self.shell.run(code)


@contextmanager
def installation(
    docker_host: str, machine: SimulatedMachine, **variables: str
) -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="inferdash-") as folder:
        port = free_port()
        gpus = StandIn(Path(folder))
        gpus.show(machine)
        data = Path(folder) / "var"
        environment = gpus.env | {
            "INFERDASH_DATA": str(data),
            "INFERDASH_HOME": str(Path(folder) / "home"),
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "PORT": str(port),
            "HOST": "127.0.0.1",
            "REDIS_URL": "",
            "DATABASE_URL": "",
            "INFERDASH_BOX": "rtx8",
            "DOCKER_HOST": docker_host,
            "INFERDASH_HUB": "off",
            "SSH_CONNECTION": "",
            "NO_COLOR": "1",
            **variables,
        }
        (Path(folder) / "home").mkdir()
        migrated.put_into(data)
        shell = Shell(os.environ | environment)
        up = TerminalProgram([sys.executable, "-m", "inferdash.up"], environment)
        try:
            up.waits_for("ready at")
            link = up.waits_for(r"opens this link.*(http://\S+)")[1]
            docker = DockerContainers((data / "install.id").read_text().strip(), docker_host)
            yield Installation(
                url=f"http://127.0.0.1:{port}",
                link=link,
                environment=environment,
                up=up,
                docker=docker,
                gpus=gpus,
                data=data,
                shell=shell,
            )
            for container in docker.list_ours():
                docker.remove(container.id)
            docker.close()
        finally:
            shell.close()
            up.press_ctrl_c()
            up.ends()
            print(up.said)  # pytest shows it where a test failed
