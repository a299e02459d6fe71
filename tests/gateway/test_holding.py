"""A request for a model that is not running: it starts it, waits, and is answered."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI

from servers.gateway import routes
from tests.gateway.conftest import Address
from tests.gateway.test_gateway import CHAT, ask
from tests.scripted_engine import MODEL
from tests.waiting import PATIENCE, wait_until

HOLD = 600  # seconds: nobody is to be let go before what he waits for has come
SLEEPER = """
from servers.launch.engines.launch import Launch
launch = Launch(
    engine="vllm", image="i", checkpoint="org/{slug}", gpus="none", start_on_request=True,
    hold_requests={hold}, aliases=("{slug}-alias",),
)
profile = Profile.objects.create(slug="{slug}", name="{slug}", owner=User.objects.get())
profile.save_version(launch, by=User.objects.get())
Server.objects.create(slug="{slug}", profile=profile, box=Box.objects.get())
"""
STARTED = """
from tests.waiting import wait_until
run = wait_until(
    lambda: Run.objects.filter(server__slug="{slug}").first(), "a request has started it"
)
print(run.pk, run.on_request, run.state)
"""
READY = """
from servers import events
Run.objects.filter(server__slug="{slug}").update(
    state=RunState.READY, ready_at=timezone.now(), address="127.0.0.1", port={port},
    served_name="tiny-qwen",
)
events.publish_change('server', Server.objects.get(slug="{slug}").pk)
"""


SLUGS = "import json; print(json.dumps(list(Server.objects.values_list('slug', flat=True))))"
GONE = """
made = Server.objects.exclude(slug__in={kept})
Run.objects.filter(server__in=made).delete()
profiles = list(made.values_list("profile", flat=True))
made.delete()
Profile.objects.filter(pk__in=profiles).delete()
"""


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Other modules of this process look at all that the gateway lists."""
    if "address" not in request.fixturenames:
        yield
        return
    address: Address = request.getfixturevalue("address")
    kept = json.loads(address.stack.shell(SLUGS))
    before = listed(address)
    yield
    address.stack.shell(GONE.format(kept=kept))
    wait_until(lambda: listed(address) == before, "the gateway has forgotten them")


def listed(address: Address) -> set[str]:
    answer = httpx.get(
        f"{address.url}/v1/models", headers={"x-api-key": address.token}, timeout=PATIENCE
    )
    return {each["id"] for each in answer.json()["data"]}


@pytest.fixture
def program(address: Address) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {address.token}"}
    with httpx.Client(base_url=address.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def test_it_is_started_by_its_alias_and_the_request_is_answered_once_it_is_ready(
    program: httpx.Client, address: Address
) -> None:
    made(address, "sleeper", HOLD)
    models = {each["id"]: each for each in program.get("/v1/models").json()["data"]}
    assert models["sleeper-alias"]["ready"] is False
    assert models["sleeper-alias"]["why"] == "sleeper is not running; a request starts it."
    assert "why" not in models[MODEL]
    answers: list[httpx.Response] = []

    waits = [
        threading.Thread(
            target=lambda: answers.append(program.post(CHAT, json=ask("hello", "sleeper-alias")))
        )
        for _ in range(3)
    ]
    for each in waits:
        each.start()
    assert address.stack.shell(STARTED.format(slug="sleeper")).split()[1:] == ["True", "queued"]
    assert not answers

    def why() -> str:
        return str(program.get("/v1/models/sleeper").json()["why"])

    wait_until(lambda: why() == "sleeper is queued.", why)
    address.stack.shell(READY.format(slug="sleeper", port=address.engines[0].port))
    for each in waits:
        each.join(PATIENCE)

    assert [each.status_code for each in answers] == [200, 200, 200]
    assert runs_of(address, "sleeper") == 1
    assert address.engines[0].requests[-1]["model"] == MODEL
    assert {each["server"] for each in address.requests()[:3]} == {"sleeper"}


def test_the_openai_package_waits_for_it_too(address: Address) -> None:
    made(address, "waiter", HOLD)
    said: list[str | None] = []

    def talk() -> None:
        with OpenAI(base_url=f"{address.url}/v1", api_key=address.token, max_retries=0) as client:
            answer = client.chat.completions.create(
                model="org/waiter", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            said.extend(each.choices[0].delta.content for each in answer if each.choices)

    talking = threading.Thread(target=talk)
    talking.start()
    address.stack.shell(STARTED.format(slug="waiter"))
    address.stack.shell(READY.format(slug="waiter", port=address.engines[0].port))
    talking.join(PATIENCE)

    assert "".join(each or "" for each in said) == "You said: hi "


ASLEEP = """
server = Server.objects.get(slug="{slug}")
server.run = Run.objects.create(
    server=server, version=server.profile.current, state=RunState.READY, address="127.0.0.1",
    port={port}, served_name="tiny-qwen", on_request=True, sleep="asleep",
    ready_at=timezone.now(), health__sleep_info={{"level": 1, "woke_in": 3.0}},
)
server.save()
"""
WOKEN = """
from servers import events
from tests.waiting import wait_until
wanted = Run.objects.filter(server__slug="{slug}", wake_wanted_at__isnull=False)
wait_until(wanted.exists, "somebody wants it awake")
Run.objects.filter(server__slug="{slug}").update(sleep="", wake_wanted_at=None)
events.publish_change('server', Server.objects.get(slug="{slug}").pk)
"""


def test_one_that_sleeps_is_woken_and_who_is_not_held_is_told_how_it_is(
    program: httpx.Client, address: Address
) -> None:
    for slug, hold in (("dozer", HOLD), ("hasty", 0)):
        made(address, slug, hold)
        address.stack.shell(ASLEEP.format(slug=slug, port=address.engines[0].port))
    answers: list[httpx.Response] = []

    waits = threading.Thread(
        target=lambda: answers.append(program.post(CHAT, json=ask("hello", "dozer")))
    )
    waits.start()
    address.stack.shell(WOKEN.format(slug="dozer"))
    waits.join(PATIENCE)
    assert [each.status_code for each in answers] == [200]

    status, error = refused(program.post(CHAT, json=ask("hello", "hasty")))
    assert (status, error["code"]) == (503, "model_not_ready")
    assert error["message"].startswith("hasty is asleep: ")
    assert "wakes in about 3.0 s. A request wakes it." in error["message"]


def made(address: Address, slug: str, hold: int) -> None:
    """A server that requests start, once the gateway knows of it."""
    address.stack.shell(SLEEPER.format(slug=slug, hold=hold))
    headers = {"x-api-key": address.token}
    where = f"{address.url}/v1/models/{slug}"
    wait_until(
        lambda: httpx.get(where, headers=headers, timeout=PATIENCE).status_code == 200,
        "the gateway lists it",
    )


def runs_of(address: Address, slug: str) -> int:
    return int(address.stack.shell(f"print(Run.objects.filter(server__slug='{slug}').count())"))


def refused(answer: httpx.Response) -> tuple[int, dict[str, Any]]:
    return answer.status_code, json.loads(answer.text)["error"]


def test_who_may_not_be_held_is_told_when_to_ask_again(
    program: httpx.Client, address: Address
) -> None:
    made(address, "slow", 0)

    answer = program.post(CHAT, json=ask("hello", "slow"))

    status, error = refused(answer)
    assert (status, error["code"]) == (503, "model_not_ready")
    assert error["message"].startswith("slow is queued")
    assert int(answer.headers["retry-after"]) >= 10


def test_a_key_for_other_models_starts_nothing(address: Address) -> None:
    made(address, "forbidden", 0)
    headers = {"x-api-key": address.narrow}

    answer = httpx.post(f"{address.url}{CHAT}", json=ask("hello", "forbidden"), headers=headers)

    assert refused(answer)[0] == 403
    assert runs_of(address, "forbidden") == 0


def test_who_is_stopped_by_hand_meanwhile_is_refused_with_the_name(
    program: httpx.Client, address: Address
) -> None:
    made(address, "halted", HOLD)
    answers: list[httpx.Response] = []
    waits = threading.Thread(
        target=lambda: answers.append(program.post(CHAT, json=ask("hello", "halted")))
    )
    waits.start()
    address.stack.shell(STARTED.format(slug="halted"))

    address.stack.shell(
        "from servers import lifecycle\n"
        "run = Run.objects.get(server__slug='halted')\n"
        "lifecycle.stop(run, by=User.objects.get())\n"
        "Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)\n"
    )
    waits.join(PATIENCE)

    status, error = refused(answers[0])
    assert (status, error["code"]) == (503, "model_not_started")
    assert "ada has stopped halted" in error["message"]


CARL = """
carl = User.objects.create(username="carl", role=Role.CHAT)
print(Key.make(carl, "carl's", Role.CHAT, expires_at=None)[1])
"""
FAILED = """
server = Server.objects.get(slug="{slug}")
for _try in range(max(1, server.profile.launch.restart_tries)):
    server.run = Run.objects.create(
        server=server, version=server.profile.current, state=RunState.FAILED, on_request=True,
        failure="RuntimeError in /opt/hidden/start.py",
    )
server.save()
"""


@pytest.fixture
def carl(address: Address) -> Iterator[httpx.Client]:
    """Who may chat and nothing else."""
    made(address, "broken", HOLD)
    made(address, "lent", HOLD)
    address.stack.shell(FAILED.format(slug="broken"))
    token = address.stack.shell(CARL).strip()
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=address.url, headers=headers, timeout=PATIENCE) as client:
        yield client
    address.stack.shell("User.objects.filter(username='carl').delete()")


def test_who_may_only_chat_starts_one_and_reads_no_log(
    carl: httpx.Client, program: httpx.Client, address: Address
) -> None:
    answers: list[httpx.Response] = []
    waits = threading.Thread(
        target=lambda: answers.append(carl.post(CHAT, json=ask("hello", "lent")))
    )
    waits.start()
    address.stack.shell(STARTED.format(slug="lent"))
    address.stack.shell(READY.format(slug="lent", port=address.engines[0].port))
    waits.join(PATIENCE)
    assert [each.status_code for each in answers] == [200]

    status, error = refused(program.post(CHAT, json=ask("hello", "broken")))
    assert (status, error["code"]) == (503, "model_not_started")
    assert "/opt/hidden" in error["message"]
    assert "/opt/hidden" in program.get("/v1/models/broken").json()["why"]

    status, error = refused(carl.post(CHAT, json=ask("hello", "broken")))
    assert (status, error["code"]) == (503, "model_not_started")
    assert error["message"].startswith("broken cannot be started now. Ask an operator")
    assert carl.get("/v1/models/broken").json()["why"] == error["message"]
    assert "/opt/hidden" in str(address.requests()[0]["error"])


@pytest.mark.asyncio
async def test_a_hundred_that_wait_look_together(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look() -> tuple[list[Any], list[Any]]:
        looks.append(1)
        return [], []

    monkeypatch.setattr(routes, "look", look)
    known = routes.Routes()

    await asyncio.gather(*(known.look(anew=True) for _ in range(100)))

    # The first one's, and one that began when all the others had asked: it sees what is newer.
    assert len(looks) == 2
    await known.look()
    assert len(looks) == 2
