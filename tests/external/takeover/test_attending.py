"""A unit that runs `docker` for a container would bring it back, though its cgroup is Docker's."""

import os
from pathlib import Path

import pytest

from servers.host.docker.facts import Container
from servers.host.external.containers import ExternalContainer
from servers.host.kernel.proc import Kernel
from servers.judge.external.engines import Origin
from servers.watcher.external.other_workloads import NOBODY, SystemdOwner, SystemdOwners
from tests import proc
from tests.cases import table

UNIT = "0::/system.slice/vllm.service"


def other(name: str, **labels: str) -> ExternalContainer:
    inspected = {
        "Id": name * 8,
        "Name": f"/{name}",
        "Image": "sha256:1",
        "State": {
            "Status": "running", "Pid": 7, "ExitCode": 0, "OOMKilled": False, "Error": "",
            "StartedAt": "2026-11-22T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z",
        },
        "Config": {"Labels": labels, "Env": [], "Image": "vllm/vllm-openai"},
        "HostConfig": {},
    }  # fmt: skip
    return ExternalContainer(container=Container.from_docker(inspected), inspected=inspected)


@table(
    ("words", "cgroup", "unit"),
    [
        (("/usr/bin/docker", "run", "--rm", "--name", "llm", "vllm/x"), UNIT, "vllm.service"),
        (("docker", "run", "--name=llm", "vllm/x"), UNIT, "vllm.service"),
        (("docker", "start", "-a", "llm"), UNIT, "vllm.service"),
        (("docker", "container", "start", "-a", "llm"), UNIT, "vllm.service"),
        (("docker", "run", "--name", "llm-2", "vllm/x"), UNIT, ""),
        (("docker", "logs", "-f", "llm"), UNIT, ""),
        (("docker", "run", "--name", "llm", "x"), "0::/user.slice/session-3.scope", ""),
        (("python", "llm"), UNIT, ""),
    ],
)
def test_the_client_of_a_unit_names_its_container(
    words: tuple[str, ...], cgroup: str, unit: str, tmp_path: Path
) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 4711, name=words[0][-15:], cmdline=words, cgroup=cgroup)

    found = SystemdOwners(Kernel(root=root)).units([other("llm")])

    assert found.get("llm" * 8, NOBODY).unit == unit


SPEECH = {
    "com.docker.compose.project": "speech",
    "com.docker.compose.service": "llm",
    "com.docker.compose.project.working_dir": "/srv/speech",
    "com.docker.compose.project.config_files": "/srv/speech/compose.yaml",
}


@table(
    ("says", "is_its"),
    [
        ("WorkingDirectory=/srv/speech\nExecStart=/usr/bin/docker compose up -d", True),
        ("WorkingDirectory=/srv/other\nExecStart=/usr/bin/docker compose up -d", False),
        ("ExecStart=-/usr/bin/docker compose -f /srv/speech/compose.yaml up -d --wait", True),
        ("WorkingDirectory=/srv\nExecStart=docker-compose -f speech/compose.yaml up", True),
        ("ExecStart=docker compose -f /srv/speech/prod.yaml up", False),
        ("ExecStart=docker compose --project-directory=/srv/speech \\\n  up -d llm", True),
        ("ExecStart=docker compose --project-directory /srv/speech up -d asr", False),
        ("ExecStart=docker compose -p speech start", True),
        ("ExecStart=docker compose -p speech pull", False),
        ("ExecStart=/bin/bash -c 'cd /srv/speech && docker compose up -d'", True),
        ("ExecStart=/usr/bin/docker run --rm --name %N vllm/x serve m", True),
        ("ExecStart=/usr/bin/docker run --rm --name other vllm/x serve m", False),
        ("#ExecStart=docker compose -p speech up", False),
    ],
)
def test_the_file_of_a_unit_names_its_container(says: str, is_its: bool, tmp_path: Path) -> None:
    folder = tmp_path / "etc/systemd/system"
    (folder / "multi-user.target.wants").mkdir(parents=True)
    (folder / "llm.service").write_text(f"[Service]\nType=oneshot\n{says}\n")
    (folder / "multi-user.target.wants/llm.service").symlink_to("../llm.service")

    found = SystemdOwners(Kernel(root=tmp_path)).units([other("llm", **SPEECH)])

    assert found == ({"llm" * 8: SystemdOwner("llm.service")} if is_its else {})


@pytest.mark.parametrize(
    "says",
    [
        "ExecStart=/bin/bash /opt/nul\0.sh",
        "ExecStart=/bin/sh -c . /etc/profile",
        "ExecStart=/opt/",
        "ExecStart=/bin/bash 'unbalanced",
        "Environment='A=b",
        "WorkingDirectory=\0\nExecStart=/bin/bash start.sh",
    ],
)
def test_a_unit_that_nobody_can_read_hides_no_other(says: str, tmp_path: Path) -> None:
    """Anybody may write one of their own."""
    system, own = tmp_path / "etc/systemd/system", tmp_path / "home/ada/.config/systemd/user"
    for folder in (system, own):
        (folder / "default.target.wants").mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    (own / "a-folder.service").mkdir()
    (own / "odd.service").write_text(f"[Service]\n{says}\n")
    (system / "llm.service").write_text("[Service]\nExecStart=docker start -a llm\n")
    for folder, name in ((own, "odd"), (own, "a-folder"), (system, "llm")):
        link = folder / f"default.target.wants/{name}.service"
        link.symlink_to(f"../{name}.service")

    found = SystemdOwners(Kernel(root=tmp_path)).units([other("llm")])

    assert found == {"llm" * 8: SystemdOwner("llm.service")}


def test_a_unit_that_is_off_brings_nothing_back(tmp_path: Path) -> None:
    folder = tmp_path / "home/ada/.config/systemd/user"
    folder.mkdir(parents=True)
    (folder / "llm.service").write_text("[Service]\nExecStart=docker start -a llm\n")
    assert SystemdOwners(Kernel(root=tmp_path)).units([other("llm")]) == {}

    active = tmp_path / "run/user/1000/systemd/units"
    active.mkdir(parents=True)
    (active / "invocation:llm.service").symlink_to("0123")

    told = SystemdOwners(Kernel(root=tmp_path)).units([other("llm")])
    assert told == {"llm" * 8: SystemdOwner("user: llm.service")}


def enabled(root: Path, says: str) -> Path:
    """The folder of a unit llm.service that is on, and says so."""
    folder = root / "etc/systemd/system"
    (folder / "multi-user.target.wants").mkdir(parents=True)
    (folder / "llm.service").write_text(f"[Service]\n{says}\n")
    (folder / "multi-user.target.wants/llm.service").symlink_to("../llm.service")
    return folder


def attended(root: Path) -> SystemdOwner | None:
    return SystemdOwners(Kernel(root=root)).units([other("llm", **SPEECH)]).get("llm" * 8)


@pytest.mark.parametrize(
    ("says", "drop_in", "is_its"),
    [
        ("ExecStart=docker start -a old", "ExecStart=\nExecStart=docker start -a llm", True),
        ("ExecStart=docker start -a llm", "ExecStart=\nExecStart=docker start -a new", False),
        ("ExecStart=docker start -a llm", "ExecStart=", False),
        ("ExecStart=docker start -a ${NAME}", 'Environment="NAME=llm" GPUS=all', True),
        ("Environment=NAME=llm\nExecStart=docker start $NAME", "Environment=NAME=new", False),
        ("ExecStart=docker compose up", "WorkingDirectory=/srv/speech", True),
    ],
)
def test_a_drop_in_of_a_unit_has_the_last_word(
    says: str, drop_in: str, is_its: bool, tmp_path: Path
) -> None:
    folder = enabled(tmp_path, says)
    (folder / "llm.service.d").mkdir()
    (folder / "llm.service.d/override.conf").write_text(f"[Service]\n{drop_in}\n")
    # The administrator's own hides what a package brings under the same name.
    packaged = tmp_path / "usr/lib/systemd/system/llm.service.d"
    packaged.mkdir(parents=True)
    (packaged / "override.conf").write_text("[Service]\nExecStart=\nExecStart=docker start x\n")

    told = attended(tmp_path)

    via = "/etc/systemd/system/llm.service.d/override.conf"
    assert told == (SystemdOwner("llm.service", via) if is_its else None)


RUNS = """#!/usr/bin/env bash
set -euo pipefail
NAME=llm
docker rm -f "$NAME" || true
exec docker run --rm --name "$NAME" \\
  --gpus all vllm/vllm-openai --model a/b
"""


@table(
    ("start", "script", "is_its"),
    [
        ("/opt/start.sh", RUNS, True),
        ("/bin/bash -e /opt/start.sh", RUNS.partition("\n")[2], True),
        ("/opt/start.sh", RUNS.replace("NAME=llm", "NAME=new"), False),
        ("/opt/start.sh", "#!/bin/sh\ncd /srv/speech && docker compose up -d\n", True),
        ("/opt/start.sh", "#!/bin/sh\ncd /srv/other\ndocker compose up -d\n", False),
        ("/opt/start.sh", f"#!/usr/bin/python3\n{RUNS}", False),
        ("/opt/start.sh", "#!/bin/sh\n# docker start llm\n", False),
        ("/opt/start.sh", "#!/bin/sh\n" + "#" * 300_000 + "\ndocker start llm\n", False),
    ],
)
def test_the_script_of_a_unit_names_its_container(
    start: str, script: str, is_its: bool, tmp_path: Path
) -> None:
    enabled(tmp_path, f"ExecStart={start}")
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/start.sh").write_text(script)

    told = attended(tmp_path)

    assert told == (SystemdOwner("llm.service", "/opt/start.sh") if is_its else None)


def test_a_script_that_is_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    enabled(tmp_path, "ExecStart=/opt/start.sh")
    (tmp_path / "opt").mkdir()
    os.mkfifo(tmp_path / "opt/start.sh")

    assert attended(tmp_path) is None


def test_the_page_says_what_was_read() -> None:
    origin = Origin.from_labels({}, "", unit="llm.service", via="/opt/start.sh")

    assert origin.started_by == "systemd unit llm.service, as /opt/start.sh says"
