"""What systemd is told; whether it works is tried in test_machine.py."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from inferdash.service import layout, units
from inferdash.service.layout import Account
from tests.cases import table

SYSTEM = Account(user="inferdash", group="inferdash", is_ours=True, docker_group="docker")
SERVICES = ("redis", "web", "worker", "watcher")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return units.files(SYSTEM, queue="box.rtx8", own_redis=True)


def settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def of(made: dict[str, str], service: str) -> dict[str, list[str]]:
    return settings(made[f"inferdash-{service}.service"])


@pytest.mark.parametrize("service", SERVICES)
def test_each_is_shut_in_and_started_again(made: dict[str, str], service: str) -> None:
    found = of(made, service)

    assert found["User"] == ["inferdash"]
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["Restart"] == ["always"]
    assert found["PartOf"] == [layout.TARGET]
    assert "INFERDASH_SETTINGS=/etc/inferdash/inferdash.env" in found["Environment"]


def test_only_worker_and_watcher_may_use_docker_and_start_after_it(made: dict[str, str]) -> None:
    for service in SERVICES:
        uses_docker = service in ("worker", "watcher")
        found = of(made, service)
        assert found.get("SupplementaryGroups", []) == ["docker"] * uses_docker
        assert ("docker.service" in found["After"][0]) is uses_docker
    assert "-/run/docker.sock" in of(made, "web")["InaccessiblePaths"][0]
    assert "-/etc/inferdash/box.toml" in of(made, "web")["InaccessiblePaths"][0]


def test_the_watcher_alone_sees_devices_and_other_peoples_processes(made: dict[str, str]) -> None:
    for name in ("PrivateDevices", "ProtectClock", "PrivateIPC", "ProtectProc", "PrivateTmp"):
        assert name in of(made, "web")
        assert name not in of(made, "watcher")
    assert of(made, "watcher")["CapabilityBoundingSet"] == ["CAP_SYSLOG"]
    assert of(made, "worker")["CapabilityBoundingSet"] == [""]


def test_what_is_left_open_is_explained(made: dict[str, str]) -> None:
    for service in ("worker", "watcher"):
        text = made[f"inferdash-{service}.service"]
        for name in {"PrivateTmp", "PrivateUsers"}:
            assert re.search(rf"^# .*{name}=.*", text, flags=re.MULTILINE)


def test_redis_of_ones_own_is_neither_started_nor_waited_for() -> None:
    made = units.files(SYSTEM, queue="box.rtx8", own_redis=False)

    assert "inferdash-redis.service" not in made
    assert not any("inferdash-redis" in text for text in made.values())


def test_a_persons_models_can_be_downloaded_into_their_home() -> None:
    person = Account(user="root", group="root", is_ours=False, docker_group="")

    made = units.files(person, queue="box.rtx8", own_redis=True)

    assert "-/root/.cache/huggingface" in of(made, "watcher")["ReadWritePaths"]
    assert "SupplementaryGroups" not in of(made, "worker")


def test_a_hub_has_a_database_a_redis_for_boxes_and_a_keeper_that_is_root() -> None:
    hub = units.files(SYSTEM, queue="box.rtx8", own_redis=False, part="hub")

    names = {name.removeprefix("inferdash-").removesuffix(".service") for name in hub}
    assert names == {*SERVICES, "postgres", "keeper", layout.TARGET}
    # A User= line, also of root, would take from sshd what it changes to the links' account by.
    assert "User" not in of(hub, "keeper")
    assert of(hub, "keeper")["NoNewPrivileges"] == ["yes"]
    rights = " ".join(of(hub, "keeper")["CapabilityBoundingSet"]).split()
    assert "CAP_SETUID" in rights
    assert not {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_MODULE"} & set(rights)
    for service in ("postgres", "redis", "web", "worker", "watcher"):
        assert of(hub, service)["User"] == ["inferdash"]
    for service in ("postgres", "redis"):
        assert of(hub, service)["IPAddressDeny"] == ["any"]
    for service in ("web", "worker", "watcher", "keeper"):
        assert "inferdash-postgres.service" in of(hub, service)["After"][0]
    assert "INFERDASH_HUB_OWNER=inferdash" in of(hub, "web")["Environment"]


def test_a_box_is_one_service_that_sees_what_its_watcher_has_to_see() -> None:
    box = units.files(SYSTEM, queue="", own_redis=False, part="box")

    assert set(box) == {"inferdash-box.service", layout.TARGET}
    found = of(box, "box")
    assert found["ExecStart"] == [f"{units.PYTHON} -m inferdash.up"]
    assert found["CapabilityBoundingSet"] == ["CAP_SYSLOG"]
    assert found["SupplementaryGroups"] == ["docker"]
    assert found["TimeoutStopSec"][-1] == "45"


@table("part", ["", "hub", "box"])
def test_systemd_itself_finds_no_fault_with_them(part: str, tmp_path: Path) -> None:
    made = units.files(SYSTEM, queue="box.rtx8", own_redis=not part, part=part)
    program = shutil.which("systemd-analyze")
    assert program, "apt-get install systemd"
    for name, text in made.items():
        # What is not installed on this machine it would call missing.
        (tmp_path / name).write_text(
            text.replace(str(units.PYTHON), "/bin/true").replace("=inferdash\n", "=root\n")
        )

    files = [str(tmp_path / name) for name in made]
    done = subprocess.run([program, "verify", *files], capture_output=True, text=True, check=False)

    ours = [line for line in done.stderr.splitlines() if "inferdash" in line]
    assert (done.returncode, ours) == (0, [])


def manage(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """inferdash-manage as it is installed, with a runuser that says what it was asked."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    runuser = programs / "runuser"
    runuser.write_text(
        f'#!/bin/sh\necho "$@" >>{folder}/asked\ncase "$*" in\n'
        "*/bad*) echo refused >&2; exit 1;;\n*--as-text*) echo 'host_network = true';;\nesac\n"
    )
    script = folder / "inferdash-manage"
    account = Account(user="root", group="root", is_ours=True, docker_group="docker")
    script.write_text(units.manage_script(account))
    for program in (runuser, script):
        program.chmod(0o755)
    path = f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"
    return subprocess.run(
        [str(script), *words], env={"PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="the script is root's")
def test_root_writes_what_the_services_say_of_box_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The services themselves cannot: it is root's, and they only read it."""
    file = tmp_path / "box.toml"
    monkeypatch.setattr(layout, "BOX_FILE", file)
    file.write_text("host_network = false\n")

    done = manage(tmp_path, "allow", "host_network")
    assert done.returncode == 0, done.stderr
    assert file.read_text() == "host_network = true\n"
    assert file.stat().st_mode & 0o777 == 0o640
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.rpartition("host_network ")[2] for line in asked] == ["--as-text", "--note-only"]

    assert "says so already" in manage(tmp_path, "allow", "host_network").stdout
    refused = manage(tmp_path, "allow", "mount", "/bad")
    assert refused.returncode == 1
    assert file.read_text() == "host_network = true\n"
    assert not list(tmp_path.glob("box.toml.*"))
    assert manage(tmp_path, "backup", "x y").returncode == 0
