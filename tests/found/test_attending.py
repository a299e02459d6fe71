"""A unit that runs `docker` for a container would bring it back, though its cgroup is Docker's."""

from pathlib import Path

import pytest

from servers.host.docker_facts import Container
from servers.host.foreign import Other
from servers.host.kernel import Kernel
from servers.watcher.attending import Attending
from tests import proc

UNIT = "0::/system.slice/vllm.service"


def other(name: str, **labels: str) -> Other:
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
    return Other(container=Container.of(inspected), inspected=inspected)


@pytest.mark.parametrize(
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

    found = Attending(Kernel(root=root)).units([other("llm")])

    assert found.get("llm" * 8, "") == unit


SPEECH = {
    "com.docker.compose.project": "speech",
    "com.docker.compose.service": "llm",
    "com.docker.compose.project.working_dir": "/srv/speech",
    "com.docker.compose.project.config_files": "/srv/speech/compose.yaml",
}


@pytest.mark.parametrize(
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

    found = Attending(Kernel(root=tmp_path)).units([other("llm", **SPEECH)])

    assert found == ({"llm" * 8: "llm.service"} if is_its else {})


def test_a_unit_that_is_off_brings_nothing_back(tmp_path: Path) -> None:
    folder = tmp_path / "home/ada/.config/systemd/user"
    folder.mkdir(parents=True)
    (folder / "llm.service").write_text("[Service]\nExecStart=docker start -a llm\n")
    assert Attending(Kernel(root=tmp_path)).units([other("llm")]) == {}

    active = tmp_path / "run/user/1000/systemd/units"
    active.mkdir(parents=True)
    (active / "invocation:llm.service").symlink_to("0123")

    told = Attending(Kernel(root=tmp_path)).units([other("llm")])
    assert told == {"llm" * 8: "user: llm.service"}
