"""A hub as services of systemd, whose sshd answers; that a box joins it is tried by hand alone."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.service.machine import PACKAGES, SUITE, ServiceMachine, machine
from tests.service.test_machine import UP

pytestmark = [pytest.mark.docker, pytest.mark.service, pytest.mark.takes(200)]

IMAGE = f"inferdash-test/systemd-hub:{SUITE}"
MORE = f"{PACKAGES},postgresql,openssh-server,openssh-client"
SSH = "ssh -p 8471 -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
SERVICES = ("redis", "postgres", "web", "worker", "watcher", "keeper")


@pytest.fixture(scope="module")
def machines(docker_host: str, bundle: Path) -> Iterator[list[ServiceMachine]]:
    """With the bundle unpacked in /root/inferdash."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(machine(docker_host, image=IMAGE, packages=MORE)) for _ in range(1)
        ]
        for each in made:
            each.takes(bundle, "/root/bundle.tar.gz")
            each.run(
                "mkdir /root/inferdash && cd /root && tar xf bundle.tar.gz --strip 1 -C inferdash"
            )
        yield made


def test_a_hub_is_services(machines: list[ServiceMachine]) -> None:
    [hub] = machines

    said = hub.run("cd /root/inferdash && ./install.sh --boxes")

    assert "further boxes can join now" in said
    for service in SERVICES:
        assert hub.run(f"systemctl is-active inferdash-{service}").strip() == "active"
    hub.waits_until(UP)
    # It has got as far as keys: sshd can shut a connection in before it has logged in.
    assert "Permission denied (publickey)" in hub.run(f"{SSH} nobody@127.0.0.1", fails=True)
    # Nobody but the links has that account, and it has nothing.
    for command in ("test -r /var/lib/inferdash/secrets.key", "test -w /run/docker.sock"):
        hub.run(f"runuser -u inferdash-wire -- {command}", fails=True)
