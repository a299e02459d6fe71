import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.forms import conversation as form
from servers.forms.conversation import KeepError
from servers.launch.engines.launch import Launch
from servers.models import PromptRun, PromptSet, Role, Run, Server
from servers.models.runs.run import RunState
from tests import factories
from tests.gateway.test_conversations import client_of

PROMPTS = ["Why is the sky blue?", "Write a haiku."]
ANSWER = {"role": "assistant", "content": "Rayleigh scattering.", "usage": {"completion_tokens": 4}}


@pytest.fixture
def ada(db: None) -> Client:
    return client_of("ada")


@pytest.fixture
def server(db: None, settings: Any) -> Server:
    settings.BOX = "rtx8"
    return factories.server(factories.box("rtx8"))


def run_of(server: Server, **fields: Any) -> Run:
    if server.run is not None:
        Run.objects.filter(pk=server.run.pk).update(state=RunState.STOPPED, ended_at=timezone.now())
    return factories.run(server, RunState.READY, **fields)


def made(client: Client, name: str = "Five", prompts: list[str] | None = None) -> PromptSet:
    said = {"name": name, "prompt": PROMPTS if prompts is None else prompts}
    answer = client.post(reverse("prompt_set_new"), said)
    assert answer.status_code == 302, answer.content
    return PromptSet.objects.get(name=name)


def seen(found: PromptSet) -> str:
    found.refresh_from_db()
    return found.saved_at.isoformat()


def begin(client: Client, found: PromptSet, run: Run, **params: str) -> PromptRun:
    answer = client.post(
        reverse("round_begin", args=[found.pk]),
        json.dumps({"run": run.pk, "params": params}),
        content_type="application/json",
    )
    assert answer.status_code == 200, answer.content
    return PromptRun.objects.latest("pk")


def keep(client: Client, begun: PromptRun, place: int, **more: Any) -> Any:
    address = reverse("round_answer", args=[begun.pk, place])
    return client.post(address, json.dumps(ANSWER | more), content_type="application/json")


def page(client: Client, found: PromptSet, *rounds: PromptRun) -> Any:
    query = {"round": [each.pk for each in rounds]}
    return client.get(reverse("prompt_set", args=[found.pk]), query)


def test_a_set_has_the_prompts_that_were_written(ada: Client) -> None:
    found = made(ada, prompts=["  Why?  ", "", "Write\na haiku.", " "])

    assert found.prompts == ["Why?", "Write\na haiku."]
    assert found.by is not None
    edited = {"name": "Two", "prompt": ["Why?", "And now?"], "seen": seen(found)}
    assert ada.post(reverse("prompt_set_edit", args=[found.pk]), edited).status_code == 302
    found.refresh_from_db()
    assert (found.name, found.prompts) == ("Two", ["Why?", "And now?"])


@pytest.mark.parametrize(
    ("name", "prompts", "said"),
    [
        ("", ["Why?"], "This field is required"),
        ("Five", [""], "Write at least one prompt."),
        ("Five", [f"{at}?" for at in range(21)], "These are 21 prompts, and 20 is the limit."),
        ("Five", ["x" * 20_001], "Prompt 1 has 20001 characters"),
        ("Five", ["Why?", "And?", "Why?"], "Prompt 3 is the same as prompt 1."),
        ("Taken", ["Why?"], "already exists"),
    ],
)
def test_what_is_no_set_is_said_and_nothing_typed_is_lost(
    ada: Client, name: str, prompts: list[str], said: str
) -> None:
    PromptSet.objects.create(name="Taken", prompts=["?"])

    answer = ada.post(reverse("prompt_set_new"), {"name": name, "prompt": prompts})

    assert said in answer.content.decode()
    assert answer.context["form"].rows[0] == prompts[0]
    assert PromptSet.objects.count() == 1


def test_the_second_of_two_who_edit_at_once_is_told_and_overwrites_nothing(ada: Client) -> None:
    found = made(ada)
    both, address = seen(found), reverse("prompt_set_edit", args=[found.pk])
    lin = client_of("lin")
    lin.post(address, {"name": "Five", "prompt": ["Lin’s?"], "seen": both})

    answer = ada.post(address, {"name": "Five", "prompt": ["Mine?"], "seen": both})

    assert "lin has saved this set since you opened it" in answer.content.decode()
    assert "Mine?" in answer.content.decode()
    found.refresh_from_db()
    assert found.prompts == ["Lin’s?"]
    again = {"name": "Five", "prompt": ["Mine?"], "seen": answer.context["form"].seen}
    assert ada.post(address, again).status_code == 302


def test_answers_are_kept_with_the_run_that_gave_them(ada: Client, server: Server) -> None:
    found, run = made(ada), run_of(server)
    begun = begin(ada, found, run, temperature="0.3")

    assert keep(ada, begun, 1).status_code == 204
    assert keep(ada, begun, 1, content="Again").status_code == 204

    assert PromptRun.objects.get(run=run) == begun
    shown = ada.get(reverse("server", args=[server.slug])).content.decode()
    assert f'href="{reverse("prompt_set", args=[found.pk])}?round={begun.pk}"' in shown
    (told,) = page(ada, found).context["told"]
    assert told["answers"] == {1: ANSWER | {"content": "Again"}}
    assert told["params"] == {"temperature": "0.3"}
    assert (told["isMine"], told["isUp"]) == (True, True)


def test_what_failed_is_no_answer(ada: Client, server: Server) -> None:
    found = made(ada)
    begun = begin(ada, found, run_of(server))
    keep(ada, begun, 0, error=None)
    assert "1</span> of 2 answered" in page(ada, found).content.decode()
    keep(ada, begun, 1, error={"message": "HTTP 500", "detail": ""})
    begin(ada, found, begun.run)

    _newest, told = page(ada, found).context["rounds"]

    assert (told.answered, told.failed) == (1, 1)
    shown = page(ada, found).content.decode()
    assert "1</span> of 2 answered<span data-failed>, 1 failed</span>" in shown
    assert "1 of 2 answered, 1 failed" in shown


def test_a_round_keeps_its_prompts_when_the_set_is_edited(ada: Client, server: Server) -> None:
    found = made(ada)
    begun = begin(ada, found, run_of(server))
    ada.post(
        reverse("prompt_set_edit", args=[found.pk]),
        {"name": "Five", "prompt": ["Other?"], "seen": seen(found)},
    )

    assert page(ada, found).context["told"][0]["prompts"] == PROMPTS
    assert keep(ada, begun, 1).status_code == 204
    assert "no such prompt" in keep(ada, begun, 2).json()["message"]


def test_the_newest_two_stand_side_by_side_and_others_can_be_chosen(
    ada: Client, server: Server
) -> None:
    found, run = made(ada), run_of(server)
    first, second, third = (begin(ada, found, run) for _each in range(3))

    assert [each["id"] for each in page(ada, found).context["told"]] == [third.pk, second.pk]
    chosen = page(ada, found, first, third).context["told"]
    assert [each["id"] for each in chosen] == [third.pk, first.pk]


def test_what_changed_between_two_runs_is_said_and_linked(ada: Client, server: Server) -> None:
    found = made(ada)
    first = begin(ada, found, run_of(server, engine_version="0.32.0"))
    profile = server.profile
    version = profile.save_version(
        Launch(engine="vllm", image="vllm/vllm-openai:v0.33.0", checkpoint="c"), by=None
    )
    again = run_of(Server.objects.get(pk=server.pk), engine_version="0.33.0")
    begin(ada, found, again, temperature="0.3")

    shown = page(ada, found)

    (change,) = shown.context["changes"]
    before = first.run.version.number
    address = reverse("profile_version", args=[profile.slug, version.number])
    assert change["link"] == f"{address}?against={before}"
    assert change["said"] == [
        "engine version 0.32.0 before, 0.33.0 now",
        "temperature default before, 0.3 now",
    ]
    assert change["link"] in shown.content.decode().replace("&amp;", "&")
    # The earlier run is over: nobody goes on with it.
    assert [each["isUp"] for each in shown.context["told"]] == [True, False]


def test_nothing_is_begun_on_a_server_that_is_not_ready(ada: Client, server: Server) -> None:
    found, run = made(ada), factories.run(server, RunState.STARTING)

    answer = ada.post(
        reverse("round_begin", args=[found.pk]),
        json.dumps({"run": run.pk, "params": {}}),
        content_type="application/json",
    )

    assert "not ready any more" in answer.json()["message"]
    assert not PromptRun.objects.exists()


def test_nobody_writes_into_the_round_of_somebody_else(ada: Client, server: Server) -> None:
    found = made(ada)
    begun = begin(ada, found, run_of(server))
    lin = client_of("lin", Role.ADMIN)

    assert keep(lin, begun, 0).status_code == 404
    (told,) = page(lin, found).context["told"]
    assert told["isMine"] is False


def test_the_profile_of_somebody_else_stays_private(ada: Client, server: Server) -> None:
    found = made(ada)
    begin(ada, found, run_of(server))
    server.profile.is_private = True
    server.profile.save()

    said = page(client_of("lin"), found).content.decode()

    assert "a private profile" in said
    assert reverse("profile_version", args=[server.profile.slug, 1]) not in said


def test_a_round_and_a_set_can_be_deleted(ada: Client, server: Server) -> None:
    found, run = made(ada), run_of(server)
    first, second = begin(ada, found, run), begin(ada, found, run)
    keep(ada, second, 0)

    ada.post(reverse("round_delete", args=[first.pk]))
    assert list(found.prompt_runs.all()) == [second]
    ada.post(reverse("prompt_set_delete", args=[found.pk]))
    assert not PromptRun.objects.exists()
    assert Run.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"run": None, "params": {}}, "No server is chosen"),
        ({"run": True, "params": {}}, "No server is chosen"),
        ([], "No server is chosen"),
        ({"run": 1, "params": {"seed": 7}}, "no parameters"),
        ({"run": 1, "params": {"system": "x" * (form.PARAMS_LIMIT + 1)}}, "larger than 64 KiB"),
    ],
)
def test_what_begins_no_round_is_said(said: Any, problem: str) -> None:
    with pytest.raises(KeepError, match=problem):
        form.read_round(json.dumps(said).encode())
