"""What a box refuses, whatever a profile says and whoever saved it."""

from pathlib import Path

import pytest

from servers.engines.volumes import VolumeError, parse
from servers.host.spec import Mount, Port, Spec
from servers.judge import limits
from servers.judge.limits import Limits


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


@pytest.mark.parametrize(
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

    assert "in truth /etc" in refused(box, DATA, "/data/link")
    assert "in truth /etc/x" in refused(box, DATA, "/data/link/x")


@pytest.mark.parametrize(
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
)
def test_keys_and_dockers_socket_are_refused_even_where_everything_is_allowed(
    source: str, box: Path
) -> None:
    own = ("/home/ada/inferdash/var", "/run/docker.sock")

    assert "would give the container this box" in refused(
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


@pytest.mark.parametrize(
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

    assert limits.read(file).volumes == ()
    assert not limits.read(file).privileged
