"""What the page of a box says of limits that are wider than they need be."""

from pathlib import Path
from typing import Any

import pytest

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.host.files import paths
from servers.judge.runs import limits
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import reboots
from servers.models import Box
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def box(settings: Any, tmp_path: Path) -> Box:
    settings.HOME, settings.MANAGE, settings.BOX = "/home/ada", "inferdash-manage", "rtx8"
    settings.HOST_ROOT = tmp_path
    return factories.box("rtx8", home="/home/ada")


def found(box: Box, text: str, **left_out: str) -> dict[str, dict[str, Any]]:
    told = reboots.find_mount_permissions(box.slug, limits.parse(text), left_out)
    return {each["rule"]: each for each in told}


def test_a_new_boxs_limits_leave_nothing_open(box: Box) -> None:
    assert found(box, limits.default_text("/home/ada")) == {}


def test_an_older_file_is_told_with_who_needs_it_and_the_line_that_tightens_it(box: Box) -> None:
    """It goes on: an upgrade refuses nothing that started before."""
    factories.server(box, name="cluster", network="host")
    factories.server(box, name="whole-home", volumes=("~:/home/ada",))
    factories.server(box, name="tidy", volumes=("~/models/x:/models/x:ro",))
    old = 'mount_roots = ["/home/ada", "/data"]\nhost_network = true\n'

    told = found(box, old)

    assert list(told) == ["home", "host-network"]
    assert told["host-network"]["servers"] == ["cluster"]
    assert told["host-network"]["command"] == "inferdash-manage forbid host_network"
    assert told["home"]["servers"] == ["whole-home"]
    assert told["home"]["command"].endswith("inferdash-manage forbid mount /home/ada")
    assert "inferdash-manage allow mount /home/ada/models " in told["home"]["command"]


def test_what_docker_refuses_is_named(box: Box) -> None:
    told = found(box, "host_network = false", pids="no cgroup controller")

    assert "no cgroup controller" in told["left-out-pids"]["because"]


def test_a_disk_without_nosuid_and_nodev_is_named_with_its_reason(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("data", "models", "mnt"):
        (tmp_path / folder).mkdir()
    options = {"/": "rw", "/models": "rw,nosuid,nodev", "/mnt": "rw,nodev"}
    table = [
        paths.MountPoint(path=path, options=frozenset(text.split(",")), kind="ext4")
        for path, text in options.items()
    ]
    monkeypatch.setattr(paths, "read_mount_table", lambda **_: table)

    roots = 'mount_roots = ["/data", "/models", "/mnt", "/not-there"]\nhost_network = false'
    told = found(box, roots)["mount-options"]

    assert "/data (nosuid and nodev missing), /mnt (nosuid missing)." in told["because"]
    assert "setuid" in told["because"]
    assert told["command"].splitlines()[-1].strip() == "sudo mount -o remount,nosuid,nodev /mnt"
    assert "mount --bind /data /data" in told["command"]


def test_the_kernels_own_table_is_read() -> None:
    own = paths.find_mount("/proc/self", paths.read_mount_table())

    assert own is not None
    assert own.path == "/proc"
    assert own.kind == "proc"


def test_the_page_shows_them(box: Box, worker: DockerContainers, client: Any) -> None:
    box.facts = {
        "limits": {"host_network": True, "pids_limit": 0},
        "manage": "inferdash-manage",
        "openings": list(found(box, "host_network = true").values()),
    }
    box.save()
    factories.server(box, name="cluster", network="host")
    client.force_login(factories.person())

    shown = client.get("/boxes/rtx8/permissions/").content.decode()

    assert "Wider than needed" in shown
    assert "inferdash-manage forbid host_network" in shown
    assert "any number" in shown
    assert f'{len(box.facts["openings"])}<span class="visually-hidden"> wider than needed' in (
        client.get("/boxes/rtx8/").content.decode()
    ), "each page of the box counts them on the tab"


def test_the_preview_says_what_a_start_on_this_box_takes_away(box: Box) -> None:
    launch = Launch(engine="vllm", image="x", checkpoint="m", gpus="none", host_port=8000)

    assert "--cap-drop NET_RAW" in lifecycle.preview(LaunchContext(launch, box)).command
    assert (
        "--security-opt no-new-privileges" in lifecycle.preview(LaunchContext(launch, box)).command
    )
    # A copy with a name or labels of ours would take the place of a run's container.
    assert "--name" not in lifecycle.preview(LaunchContext(launch, box)).command
    assert "--label" not in lifecycle.preview(LaunchContext(launch, box)).command

    box.facts = {"left_out": {"no-new-privileges": "refused"}, "limits": {"pids_limit": 99}}
    command = lifecycle.preview(LaunchContext(launch, box)).command

    assert "no-new-privileges" not in command
    assert "--pids-limit 99" in command
