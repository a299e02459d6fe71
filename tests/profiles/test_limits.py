"""What a box refuses, whatever a profile says and whoever saved it."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from servers.judge.runs import limits, open_limits
from servers.judge.runs.limits import Limits, OwnLimits
from servers.launch.engines.placement import VolumeError, parse
from servers.launch.spec import Mount, Port, Spec
from tests.cases import table


def refused(box: Path, allowed: Limits, *sources: str, own: tuple[str, ...] = ()) -> str:
    mounts = tuple(Mount(source=source, target="/x") for source in sources)
    return " ".join(limits.refusals(Spec(image="x", mounts=mounts), allowed, root=box, own=own))


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A box's "/", whose /data may be mounted."""
    for folder in ("data/models", "etc", "run", "home/ada/inferdash/var", "home/ada/models"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


DATA = Limits(mount_roots=("/data",))


@table(
    "source",
    [
        "/",
        "//",
        "/etc",
        "/proc",
        "/root",
        "/data/../etc",
        "/data/..",
        "/database",
        "//etc",
        "/data2",
    ],
    shared=("box",),
)
def test_folders_beside_the_allowed_ones_are_refused(source: str, box: Path) -> None:
    assert "lies outside the folders" in refused(box, DATA, source)


@pytest.mark.parametrize("source", ["/data", "//data", "/data/models/..", "/data/not-there-yet"])
def test_the_allowed_ones_are_not(source: str, box: Path) -> None:
    assert not refused(box, DATA, source)


@pytest.mark.parametrize(
    "target", ["/etc", "//etc", "../etc", "../../../../etc", "models/../../etc"]
)
def test_a_link_is_followed_to_its_end(target: str, box: Path) -> None:
    (box / "data" / "link").symlink_to(target)

    assert "leads to /etc" in refused(box, DATA, "/data/link")
    assert "leads to /etc/x" in refused(box, DATA, "/data/link/x")


@table(
    "source",
    [
        "/home/ada/inferdash/var",
        "/home/ada/inferdash/var/secrets.key",
        "/home/ada/inferdash",
        "/home/ada",
        "/home/ada/models/../inferdash/var",
        "/home",
        "/",
        "/run/docker.sock",
        "/run",
    ],
    shared=("box",),
)
def test_keys_and_dockers_socket_are_refused_even_where_everything_is_allowed(
    source: str, box: Path
) -> None:
    own = ("/home/ada/inferdash/var", "/run/docker.sock")

    assert "would give the container control of this box" in refused(
        box, Limits(mount_roots=("/",)), source, own=own
    )
    assert not refused(box, Limits(mount_roots=("/",)), "/home/ada/models", own=own)


@pytest.mark.parametrize(
    "device",
    [
        "/dev/sda",
        "/dev/infiniband/../sda",
        "/dev/infiniband/../../dev/sda:/dev/x:rwm",
        "//dev/sda",
        "/dev/infiniband-not",
        "/dev/infiniband/link",
        "infiniband",
        "vendor.com/device=all",
        "",
    ],
)
def test_a_device_that_only_begins_like_an_allowed_one_is_refused(device: str, box: Path) -> None:
    (box / "dev" / "infiniband").mkdir(parents=True)
    (box / "dev" / "infiniband" / "link").symlink_to("../sda")

    found = limits.refusals(Spec(image="x", devices=(device,)), Limits(), root=box)

    assert "does not allow the device" in " ".join(found)


def test_an_allowed_device_is_given(box: Path) -> None:
    spec = Spec(image="x", devices=("/dev/infiniband", "/dev/infiniband/uverbs0:/dev/x"))

    assert limits.refusals(spec, Limits(), root=box) == []


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "::1", "192.168.1.4", ""])
def test_only_loopback_is_loopback(address: str, box: Path) -> None:
    spec = Spec(image="x", ports=(Port(container_port=1, host_port=2, host_ip=address),))

    found = limits.refusals(spec, Limits(open_ports=False), root=box)

    assert ("other machines can reach" in " ".join(found)) is (address != "::1")


@table(
    "text",
    [
        "relative/path:/x",
        "../etc:/x",
        "./x:/x",
        "~root/x:/x",
        "$PWD/x:/x",
        "/data/$(id):/x",
        "/a:b",
        "a b:/x",
        "-v:/x",
        ".:/x",
        "/a:/x:rw,shared",
        "/a:/x:bind-propagation=shared",
        "/a:/x:ro:rw",
        ":/x",
        "/a:",
    ],
)
def test_odd_volumes_are_not_understood(text: str) -> None:
    with pytest.raises(VolumeError):
        parse(text, home="/home/ada")


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("/data/../etc:/x/../..//y", "/etc", "/y"),
        ("//etc//x:/x", "/etc/x", "/x"),
        ("~/../bob:/x", "/home/bob", "/x"),
        ("${HOME}/m://x", "/home/ada/m", "/x"),
    ],
)
def test_a_volume_is_read_as_docker_would(text: str, source: str, target: str) -> None:
    volume = parse(text, home="/home/ada")

    assert (volume.kind, volume.source, volume.target) == ("bind", source, target)


def test_the_file_that_a_new_box_gets_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    file.write_text(limits.default_text("/home/ada"))

    found = limits.read(file)
    assert found.volumes == ()
    assert not found.privileged
    assert not found.host_network
    assert found.pids_limit == 32768
    assert found == Limits(mount_roots=limits.default_roots("/home/ada"))


def test_a_new_box_lets_nobody_mount_the_home_or_what_lies_beside_the_models(box: Path) -> None:
    """An editor's container that writes to ~/.ssh/authorized_keys or ~/.bashrc has the account."""
    allowed = limits.parse(limits.default_text("/home/ada"))
    own = OwnLimits(account=tuple(f"/home/ada/{each}" for each in limits.OF_ACCOUNT))

    for source in ("/home/ada", "/home", "/home/ada/.ssh", "/home/ada/.cache", "/root"):
        found = limits.refusals(
            Spec(image="x", mounts=(Mount(source=source, target="/h"),)), allowed, root=box, own=own
        )
        assert found, source
    assert not refused(box, allowed, "/home/ada/models/x", "/home/ada/.cache/huggingface")


@table(
    "source",
    [
        "/home/ada/.ssh",
        "/home/ada/.ssh/authorized_keys",
        "/home/ada/.bashrc",
        "/home/ada/dotfiles/bashrc",
        "/home/ada/.local/share/uv/python",
        "/home/ada/link",
        "/opt/python/lib/python3.12/site-packages",
    ],
    shared=("box",),
)
def test_keys_and_programs_of_the_account_are_mounted_by_nobody(source: str, box: Path) -> None:
    home = box / "home/ada"
    (home / "dotfiles").mkdir(exist_ok=True)
    for link, target in ((".bashrc", "dotfiles/bashrc"), ("link", ".ssh")):
        if not (home / link).is_symlink():
            (home / link).symlink_to(target)
    own = OwnLimits(account=(*(f"/home/ada/{each}" for each in limits.OF_ACCOUNT), "/opt/python"))

    for roots in (("/",), ("/home/ada", "/opt"), (source,)):
        mounts = (Mount(source=source, target="/x"),)
        allowed = Limits(mount_roots=roots)
        found = " ".join(
            limits.refusals(Spec(image="x", mounts=mounts), allowed, root=box, own=own)
        )
        assert "programs of an account" in found, roots


def test_a_home_that_an_older_file_names_is_still_mounted(box: Path) -> None:
    own = OwnLimits(box=("/run/docker.sock",), account=("/home/ada/.ssh",))
    spec = Spec(image="x", mounts=(Mount(source="/home/ada", target="/home/ada"),))

    assert limits.refusals(spec, Limits(mount_roots=("/home/ada",)), root=box, own=own) == []


def test_a_file_that_does_not_speak_of_the_hosts_network_means_what_it_meant() -> None:
    assert limits.parse('mount_roots = ["/data"]').host_network
    assert not limits.parse("host_network = false").host_network


@table(
    ("text", "says"),
    [
        ("pids_limit = -1", "a whole number"),
        ("pids_limit = true", "a whole number"),
        ('pids_limit = "9"', "a whole number"),
        ("host_network = 1", "true or false"),
        ("mount_roots = 3", "a list of texts"),
        ("pids_limits = 3", "is not a limit"),
    ],
)
def test_a_limit_of_the_wrong_kind_is_said(text: str, says: str) -> None:
    with pytest.raises(limits.LimitsError, match=says):
        limits.parse(text)


@table(
    ("values", "line"),
    [
        ({"network": "host"}, "allow host_network"),
        ({"ipc": "host"}, "allow host_ipc"),
        ({"pid": "host"}, "allow host_pid"),
        ({"privileged": True}, "allow privileged"),
        ({"cap_add": ("NET_ADMIN",)}, "allow capability NET_ADMIN"),
        ({"security_opt": ("seccomp=unconfined",)}, "allow security_opt seccomp=unconfined"),
        ({"devices": ("/dev/kvm:/dev/kvm",)}, "allow device /dev/kvm"),
        ({"mounts": (Mount(source="/my models", target="/x"),)}, "allow mount '/my models'"),
        ({"ports": (Port(container_port=1, host_port=2, host_ip="::"),)}, "allow open_ports"),
    ],
    shared=("box",),
)
def test_a_refusal_says_the_line_that_allows_it(
    values: dict[str, Any], line: str, box: Path
) -> None:
    """The very line, which then does: it is read back as a shell would."""
    closed = 'host_network = false\nhost_ipc = false\nopen_ports = false\nmount_roots = ["/data"]\n'
    spec = Spec(image="x", **values)

    [found] = limits.refusals(spec, limits.parse(closed), root=box, manage="inferdash-manage")

    assert f"`inferdash-manage {line}`" in found
    what, *rest = shlex.split(line)[1:]
    assert (
        limits.refusals(spec, limits.parse(open_limits.allow_in_file(closed, what, rest)), root=box)
        == []
    )


def test_what_everything_gets_anyway_is_refused_to_nobody(box: Path) -> None:
    spec = Spec(image="x", security_opt=("no-new-privileges:true",))

    assert limits.refusals(spec, Limits(), root=box) == []
