"""A further box in containers beside tests.compose.installation: a project of its own on the same Engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tests.base_images import ENGINE
from tests.compose.installation import SHELL, Compose, ComposeInstallation
from tests.ports import free_port
from tests.waiting import wait_until

INVITE = (
    "from django.utils import timezone\n"
    "from servers.lifecycle.links.invitations import invite_box\n"
    "print(invite_box(None, now=timezone.now(), address='127.0.0.1')[1].write())"
)
LET_IN = (
    "from servers.lifecycle.links.decisions import let_in\n"
    "let_in(BoxLink.objects.select_waiting().get(), None)"
)
START = f"""
from servers import lifecycle, tasks
from servers.launch.engines.launch import Launch
person = User.objects.create_user("far", role=Role.OPERATOR)
profile = Profile.objects.create(slug="far", name="far", owner=person)
launch = Launch(engine="vllm", image={ENGINE!r}, checkpoint="/model", gpus="none")
profile.save_version(launch, by=person, message="First version")
server = Server.objects.create(slug="far", profile=profile, box=Box.objects.get(slug="milo"))
tasks.nudge(lifecycle.start(server, by=person))
"""
REVOKE = "from servers.lifecycle.links.decisions import revoke\nrevoke(BoxLink.objects.get(), None)"


@dataclass(frozen=True, kw_only=True)
class ComposeBox:
    compose: Compose
    hub: ComposeInstallation

    @property
    def said(self) -> str:
        return self.compose("logs", "--no-color", "box")

    def ask(self, expression: str) -> str:
        """As the box's role: the value, or the name of the error."""
        code = (
            f"{SHELL}try:\n    print({expression})\n"
            "except Exception as error:\n    print(type(error).__name__)"
        )
        return self.compose("exec", "-T", "box", "python", "-c", code)


@contextmanager
def hub_of(place: ComposeInstallation) -> Iterator[None]:
    """The installation as a hub, and then as one box again."""
    settings = place.compose.settings
    before = settings.read_text()
    first = free_port()
    ports = {
        "INFERDASH_HUB_PORT": free_port(), "INFERDASH_HUB_DATABASE_PORT": free_port(),
        "INFERDASH_HUB_REDIS_PORT": free_port(), "INFERDASH_HUB_BULK_PORT": free_port(),
        "INFERDASH_BOX_PORTS": f"{first}-{first}", "COMPOSE_PROFILES": "hub",
    }  # fmt: skip
    settings.write_text(before + "".join(f"{name}={value}\n" for name, value in ports.items()))
    try:
        place.compose("up", "-d")
        wait_until(place.is_up, "the hub answers")
        yield
        place.compose("rm", "-s", "-f", "keeper", "hub-ports")
    finally:
        settings.write_text(before)
        place.compose("up", "-d")
        wait_until(place.is_up, "one box answers again")


@contextmanager
def box_of(place: ComposeInstallation) -> Iterator[ComposeBox]:
    """A box that has asked with a token, and is not let in yet."""
    token = place.run(INVITE).strip()
    hub = place.compose
    kept = [
        line
        for line in hub.settings.read_text().splitlines()
        if not line.startswith(("PORT=", "INFERDASH_BOX=", "INFERDASH_HUB", "COMPOSE_PROFILES"))
    ]
    settings = hub.settings.with_name("box-settings")
    settings.write_text("\n".join([*kept, f"JOIN={token}", "NAME=milo", ""]))
    compose = replace(hub, project=f"{hub.project}-box", settings=settings)
    box = ComposeBox(compose=compose, hub=place)
    try:
        compose("up", "-d", "box")
        yield box
    except BaseException:
        print(box.said[-20000:])
        print(hub("logs", "--no-color", "--tail=40", "keeper", "hub-ports"))
        raise
    finally:
        compose("rm", "-s", "-f", "-v", "box")
        compose("down", "-v")
