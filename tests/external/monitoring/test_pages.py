"""Pages show what others have started, and offer nothing that would touch it."""

import pytest
from django.test import Client

from servers.contexts import pages
from servers.judge.external.engines import Origin
from servers.models import Box, Job, Role
from servers.models.runs.run import RunState
from tests import factories, samples
from tests.external.monitoring import rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def client(role: Role = Role.ADMIN) -> Client:
    return factories.log_in(factories.person(f"a-{role.label}", role))


def page(path: str, role: Role = Role.ADMIN) -> str:
    return client(role).get(path).content.decode()


def test_a_box_tells_what_runs_there_and_who_would_bring_it_back(box: Box) -> None:
    rows.sighted(box)
    held = samples.process(4001, rows.CONTAINER)
    factories.tell(box, samples.sample([samples.card(0, [(4001, 61.2)])], [held]))

    told = page("/boxes/rtx8/")

    assert "Not started by inferdash" in told
    for words in (
        "speech-llm-1",
        "vllm/vllm-openai:v0.20.2",
        "vLLM 0.20.2",
        "Qwen/Qwen3-Coder-30B-A3B",
        "127.0.0.1:8000",
        "61.2",
        "compose project speech (service llm, in /srv/speech)",
        "Docker starts it again whenever it ends",
    ):
        assert words in told


def test_a_bare_process_is_told_and_may_be_watched(box: Box) -> None:
    origin = Origin(unit="vllm.service", user="svc")
    rows.sighted(
        box,
        rows.found(
            container="pid-4711-99",
            name="process 4711",
            image="",
            answer="unasked",
            version="",
            address="",
            origin=origin,
            pid=4711,
            pids=(4711, 4712),
            command="/opt/venv/bin/vllm serve a/b --api-key •••",
        ),
    )
    held = samples.process(4712, None)
    factories.tell(box, samples.sample([samples.card(0, [(4712, 33.5)])], [held]))

    told = page("/boxes/rtx8/")

    for words in (
        "process 4711",
        "a process, not a container",
        "systemd unit vllm.service",
        "33.5",
    ):
        assert words in told
    assert "/opt/venv/bin/vllm serve a/b --api-key •••" in told
    asked = client().get("/boxes/rtx8/others/pid-4711-99/ask/").content.decode()
    assert "inferdash never signals, stops or restarts it" in asked
    assert client().post("/boxes/rtx8/others/pid-4711-99/watch/").status_code == 204
    assert "on its way" in page("/boxes/rtx8/")


def test_the_dashboard_leads_to_what_nobody_watches(box: Box) -> None:
    rows.sighted(box, rows.found(), rows.found(container="d" * 64, name="another"))
    assert "2 engines not started by inferdash" in page("/")

    rows.watched(box)

    assert "1 engine not started by inferdash" in page("/")


def test_memory_is_accounted_to_what_is_watched(box: Box) -> None:
    rows.watched(box)
    held = samples.process(4001, rows.CONTAINER)
    factories.tell(box, samples.sample([samples.card(0, [(4001, 61.2)])], [held]))

    (gpu,) = pages.panel(box).gpus

    assert gpu.ledger is not None
    assert [part.name for part in gpu.ledger.parts if part.kind == "server"] == ["speech-llm"]


def test_an_editor_may_watch_and_an_operator_may_not(box: Box) -> None:
    rows.sighted(box)
    ask = f"/boxes/rtx8/others/{rows.CONTAINER[:12]}/ask/"

    assert ask in page("/boxes/rtx8/", Role.EDITOR)
    assert ask not in page("/boxes/rtx8/", Role.OPERATOR)
    assert "Its container is not touched" in page(ask, Role.EDITOR)
    assert "It is not there any more" in page("/boxes/rtx8/others/badbadbadbad/ask/", Role.EDITOR)


def test_watch_is_a_wish_that_the_boxs_watcher_obeys(box: Box) -> None:
    rows.sighted(box)
    address = f"/boxes/rtx8/others/{rows.CONTAINER[:12]}/watch/"

    assert client().post(address).status_code == 204

    wish = Job.objects.get()
    assert (wish.kind, wish.params) == ("watch", {"container": rows.CONTAINER})
    assert client().post(address).status_code == 409, "once is enough"
    assert "on its way" in page("/boxes/rtx8/")
    gone = client().post("/boxes/rtx8/others/badbadbadbad/watch/")
    assert gone.status_code == 409


def test_one_that_is_watched_leads_to_its_server(box: Box) -> None:
    rows.sighted(box)
    rows.watched(box)

    told = page("/boxes/rtx8/")

    assert 'monitored as <a href="/servers/speech-llm/">' in told
    assert "/ask/" not in told


@pytest.mark.parametrize(
    "state", [RunState.READY, RunState.STARTING, RunState.FAILED, RunState.STOPPED]
)
def test_no_page_offers_to_touch_it(box: Box, state: RunState) -> None:
    run = rows.watched(box, state=state, failure="It died." if state == "failed" else "")
    told = [page("/"), page("/servers/speech-llm/"), page("/profiles/speech-llm/")]

    for verb in ("start", "stop", "restart", "remove", f"runs/{run.pk}/start"):
        assert not any(f"/servers/speech-llm/{verb}/" in text for text in told)
    assert "/servers/speech-llm/unwatch/" in told[0]
    assert "/servers/speech-llm/unwatch/" not in page("/", Role.OPERATOR)


def test_its_page_says_where_it_comes_from_and_what_a_profile_would_do(box: Box) -> None:
    rows.watched(box)

    told = page("/servers/speech-llm/")

    assert "compose project speech (service llm, in /srv/speech)" in told
    assert "What its profile would start" in told
    assert "--memory 64g: a profile has no place for it." in told
    assert "Monitored since" in told
    assert "Requested" not in told


def test_a_card_says_that_it_is_watched(box: Box) -> None:
    run = rows.watched(box)

    html = pages.render({("server", run.server_id)}, factories.person())

    assert 'class="badge watched"' in html
    assert "monitored, up" in html


def test_a_server_of_ours_cannot_be_unwatched(box: Box) -> None:
    factories.run(factories.server(box))

    answer = client().post("/servers/qwen3-8b/unwatch/")

    assert answer.status_code == 409


def test_its_profile_may_be_placed_where_it_is_watched(box: Box) -> None:
    rows.watched(box)
    assert "Place it there" in page("/profiles/speech-llm/")

    client().post("/profiles/speech-llm/place/", {"box": "rtx8"})

    assert [each.is_watched for each in box.servers.order_by("pk")] == [True, False]
