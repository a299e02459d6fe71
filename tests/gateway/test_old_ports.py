"""Ports that programs knew before: opened, asked without a key, closed."""

import html
import json
import re
import socket
from collections.abc import Iterator

import httpx
import pytest
from django.conf import settings
from django.test import Client

from servers.gateway.callers import LegacyPortListener
from servers.models import AuditEntry, Box, LegacyPort, Role, User
from servers.models.runs.run import RunState
from tests import factories
from tests.external.monitoring import rows
from tests.gateway.conftest import Address
from tests.gateway.test_gateway import CHAT, ask
from tests.ports import free_port
from tests.scripted_engine import MODEL
from tests.waiting import PATIENCE, wait_until

OPEN = """
from servers import events
LegacyPort.objects.create(
    box=Box.objects.get(), port={port}, model={model!r}, sources={sources!r},
    made_by=User.objects.get(username="ada"),
)
events.publish_change('ports')
"""


def opened(address: Address, *, model: str = "", sources: tuple[str, ...] = ("127.0.0.1",)) -> str:
    port = free_port()
    address.stack.shell(OPEN.format(port=port, model=model, sources=list(sources)))
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: is_open(url), "the port is opened")
    return url


def is_open(url: str) -> bool:
    try:
        httpx.get(url, timeout=PATIENCE)
    except httpx.TransportError:
        return False
    return True


@pytest.fixture(autouse=True)
def _closed(address: Address) -> Iterator[None]:
    yield
    address.stack.shell(
        "from servers import events\nLegacyPort.objects.all().delete()\nevents.publish_change('ports')"
    )


def test_a_program_goes_on_without_a_key_by_the_name_that_it_knows(address: Address) -> None:
    url = opened(address, model=MODEL)

    answer = httpx.post(f"{url}{CHAT}", json=ask("hello", model="gpt-4o-of-old"))

    assert answer.status_code == 200
    assert "data: [DONE]" in answer.text
    assert address.engines[0].requests[-1]["model"] == MODEL
    address.write()
    said = address.stack.shell(
        "import json\nlast = Request.objects.latest('pk')\n"
        "print(json.dumps([last.source, last.key_id, last.person.username, last.model]))"
    )
    assert json.loads(said) == ["127.0.0.1", None, "ada", "gpt-4o-of-old"]
    assert httpx.get(f"{url}/v1/models").json()["data"]


def test_a_known_name_is_not_answered_by_another_model(address: Address) -> None:
    url = opened(address, model=MODEL)

    httpx.post(f"{url}{CHAT}", json=ask("hello", model="twin-1"))

    assert address.requests()[0]["server"] == "twin-1"


def test_from_elsewhere_a_key_is_needed(address: Address) -> None:
    url = opened(address, sources=("192.0.2.0/24",))

    refused = httpx.post(f"{url}{CHAT}", json=ask("hello"))
    headers = {"Authorization": f"Bearer {address.token}"}

    assert refused.json()["error"]["code"] == "no_key"
    assert httpx.post(f"{url}{CHAT}", json=ask("hello"), headers=headers).status_code == 200


def test_the_page_of_a_browser_is_refused_wherever_it_is(address: Address) -> None:
    url = opened(address)

    refused = httpx.post(f"{url}{CHAT}", json=ask("x"), headers={"Origin": "http://evil.example"})

    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "browser_refused"


def test_the_page_of_a_browser_may_ask_with_a_key(address: Address) -> None:
    url = opened(address)
    headers = {"Origin": "http://chat.example", "Authorization": f"Bearer {address.token}"}

    assert httpx.post(f"{url}{CHAT}", json=ask("x"), headers=headers).status_code == 200
    address.write()
    said = address.stack.shell(
        "last = Request.objects.latest('pk')\nprint(last.source, last.key_id is None)"
    )
    assert said.strip() == "None False"


def test_a_key_that_is_none_of_ours_is_none(address: Address) -> None:
    url = opened(address)

    answer = httpx.get(f"{url}/v1/models", headers={"Authorization": "Bearer EMPTY"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["192.168.1.5:8000", "[fd00::5]:8000", "rtx8", "rtx8:8000", "rtx8.lan", "host.docker.internal"],
)
def test_the_box_is_asked_by_whatever_is_surely_its_name(address: Address, host: str) -> None:
    url = opened(address)
    assert httpx.get(f"{url}/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com.:8000", "lan.example.com"])
def test_a_name_that_anybody_could_own_needs_a_key(address: Address, host: str) -> None:
    url = opened(address)

    refused = httpx.get(f"{url}/v1/models", headers={"Host": host})
    key = {"Host": host, "Authorization": f"Bearer {address.token}"}

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "host_unknown")
    assert "INFERDASH_ALLOWED_HOSTS" in refused.json()["error"]["message"]
    assert httpx.get(f"{url}/v1/models", headers=key).status_code == 200


def test_pages_are_not_there(address: Address) -> None:
    url = opened(address)

    for path in ("/login/", "/api/v1/servers", "/"):
        answer = httpx.get(f"{url}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_such_path")


def test_a_closed_port_is_closed_and_may_be_opened_again(address: Address) -> None:
    url = opened(address)
    address.stack.shell(
        "from servers import events\nLegacyPort.objects.all().delete()\nevents.publish_change('ports')"
    )
    wait_until(lambda: not is_open(url), "the port is closed")
    port = url.rpartition(":")[2]
    with socket.create_server(("127.0.0.1", int(port))):
        pass  # it is free for whoever wants it now


def test_a_port_that_somebody_has_is_said_with_who(address: Address) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        address.stack.shell(OPEN.format(port=port, model="", sources=[]))
        said = address.stack.shell(
            "from tests.waiting import wait_until\n"
            f"print(wait_until(lambda: LegacyPort.objects.get(port={port}).problem, 'it is told'))"
        )

    assert said.startswith(f"port {port} is taken by ")


# The page


@pytest.fixture
def client(own_redis: object) -> Client:
    made = Client()
    factories.box(settings.BOX)
    made.force_login(User.objects.create(username="root", role=Role.ADMIN))
    return made


@pytest.mark.django_db
def test_an_admin_opens_and_closes_one_and_it_is_in_the_activity(client: Client) -> None:
    sent = {"port": "8000", "model": "coder", "sources": "192.0.2.7, 198.51.100.0/24"}

    assert client.post("/gateway/ports/", sent).status_code == 302

    made = LegacyPort.objects.get()
    assert made.sources == ["192.0.2.7/32", "198.51.100.0/24"]
    assert AuditEntry.objects.get(action="open legacy port").detail["sources"] == made.sources
    said = client.get("/gateway/ports/").content.decode()
    assert "198.51.100.0/24" in said
    assert "nobody" in said
    told = client.post(f"/gateway/ports/{made.pk}/close/", follow=True).content.decode()
    assert not LegacyPort.objects.exists()
    assert AuditEntry.objects.filter(action="close legacy port").exists()

    undo = re.search(r'action="(/gateway/ports/\?[^"]+)".*?Undo', told)
    assert undo is not None
    client.post(html.unescape(undo.group(1)))

    again = LegacyPort.objects.get()
    assert (again.port, again.model, again.sources) == (made.port, made.model, made.sources)


@pytest.mark.django_db
def test_a_port_that_an_engine_has_is_kept_and_its_holder_is_named(client: Client) -> None:
    box = Box.objects.get()
    run = factories.run(factories.server(box, "coder", model="qwen3-8b"), RunState.READY)
    rows.sighted(box, rows.found(port=8123))

    mine = client.post("/gateway/ports/", {"port": str(run.port)}, follow=True).content.decode()
    theirs = client.post("/gateway/ports/", {"port": "8123"}, follow=True).content.decode()

    assert f"Port {run.port} is kept, and opens once it is free: the server coder has it" in mine
    assert "opens once it is free: the container speech-llm-1 has it" in theirs


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"port": "80"}, "greater than or equal to 1024"),
        ({"port": "8000", "sources": "0.0.0.0/0"}, "is everybody"),
        ({"port": "8000", "sources": "192.0.2.7/24"}, "has host bits set"),
        ({"port": "8000", "sources": "myhost"}, "is no address or network"),
    ],
)
def test_what_makes_no_sense_is_refused(client: Client, sent: dict[str, str], says: str) -> None:
    answer = client.post("/gateway/ports/", sent)

    assert says in answer.content.decode()
    assert not LegacyPort.objects.exists()


@pytest.mark.django_db
def test_nobody_is_let_in_for_somebody_who_may_not_chat_any_more() -> None:
    ada = User.objects.create(username="ada", role=Role.ADMIN)
    made = LegacyPort.objects.create(
        box=factories.box(), port=8000, sources=["192.0.2.0/24"], made_by=ada
    )
    scope = {"client": ("192.0.2.9", 1234), "headers": []}
    assert LegacyPortListener.from_row(made).caller(scope) is not None
    assert (
        LegacyPortListener.from_row(made).caller({"client": ("::ffff:192.0.2.9", 1), "headers": []})
        is not None
    )
    assert (
        LegacyPortListener.from_row(made).caller({"client": ("198.51.100.1", 1), "headers": []})
        is None
    )

    ada.role = Role.VIEWER
    assert LegacyPortListener.from_row(made).caller(scope) is None
    ada.role, ada.is_active = Role.ADMIN, False
    assert LegacyPortListener.from_row(made).caller(scope) is None
