"""A hub and a box of it, each as services of a systemd of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.service.machine import PACKAGES, SUITE, ServiceMachine, machine
from tests.service.test_machine import UP, ask

pytestmark = [pytest.mark.docker, pytest.mark.service, pytest.mark.takes(200)]

IMAGE = f"inferdash-test/systemd-hub:{SUITE}"
MORE = f"{PACKAGES},postgresql,openssh-server,openssh-client"
SERVICES = ("redis", "postgres", "web", "worker", "watcher", "keeper")
TOKEN = """
from django.utils import timezone
from servers.lifecycle.links.invitations import invite_box
print(invite_box(None, now=timezone.now(), address="{address}")[1].write())
"""
LET_IN = """
from servers.lifecycle.links.decisions import let_in
let_in(BoxLink.objects.select_waiting().get(), None)
"""


@pytest.fixture(scope="module")
def machines(docker_host: str, bundle: Path) -> Iterator[list[ServiceMachine]]:
    """Two, with the bundle unpacked in /root/inferdash."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(machine(docker_host, image=IMAGE, packages=MORE)) for _ in range(2)
        ]
        for each in made:
            each.takes(bundle, "/root/bundle.tar.gz")
            each.run(
                "mkdir /root/inferdash && cd /root && tar xf bundle.tar.gz --strip 1 -C inferdash"
            )
        yield made


def test_a_hub_and_a_box_are_services(machines: list[ServiceMachine]) -> None:
    hub, box = machines
    address = hub.run("hostname -I").split()[0]

    said = hub.run("cd /root/inferdash && ./install.sh --boxes")

    assert "further boxes can join now" in said
    for service in SERVICES:
        assert hub.run(f"systemctl is-active inferdash-{service}").strip() == "active"
    hub.waits_until(UP)
    # Nobody but the links has that account, and it has nothing.
    for command in ("test -r /var/lib/inferdash/secrets.key", "test -w /run/docker.sock"):
        hub.run(f"runuser -u inferdash-wire -- {command}", fails=True)

    token = ask(hub, TOKEN.format(address=address)).strip().splitlines()[-1]
    box.run(
        f"cd /root/inferdash && export TOKEN={token} NAME=milo && "
        "{ setsid ./install.sh --join; echo ended; } >/root/join.log 2>&1 </dev/null &"
    )
    box.waits_until("grep -q 'waiting to be let in\\|^ended' /root/join.log")
    joining = box.run("cat /root/join.log")
    assert "ended" not in joining, joining + hub.run(
        "journalctl -u inferdash-keeper --no-pager | tail -20"
    )
    words = ask(hub, "print(BoxLink.objects.get().words)").strip()
    assert words in joining
    ask(hub, LET_IN)

    box.waits_until("systemctl is-active inferdash-box")
    box.waits_until("journalctl -u inferdash-box --no-pager | grep -q 'Watching milo'")
    assert ask(hub, "print(BoxLink.objects.get().is_told)").strip() == "True"
    # An sshd of root's gives each link the account that owns nothing.
    accounts = hub.run("ps -eo user:20,args | grep '[s]shd.*inferdash-wire'")
    assert "inferdash-wire" in accounts

    # The same command installs it anew, and it stays what it is.
    again = hub.run("cd /root/inferdash && ./install.sh")
    assert "ready at" in again
    assert hub.run("systemctl is-active inferdash-keeper").strip() == "active"
    box.restarts()
    box.waits_until("journalctl -b -u inferdash-box --no-pager | grep -q 'Watching milo'")
