import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.forms import conversation as form
from servers.models import ChatMessage, Conversation, Role, User
from servers.models.gateway.conversation import text_of, title_of
from tests import factories

KEY = "mabc0123"
ASKED = {"role": "user", "content": "Why is the sky blue?"}
SAID = {"role": "assistant", "content": "Rayleigh scattering.", "usage": {"completion_tokens": 4}}


@pytest.fixture
def ada(db: None) -> Client:
    return client_of("ada")


def client_of(name: str, role: Role = Role.OPERATOR) -> Client:
    return factories.log_in(User.objects.create(username=name, role=role))


def body(*messages: dict[str, Any], was: str = "", revision: str = "first0", **more: Any) -> str:
    said = {
        "was": was.split(), "revision": revision, "name": "", "server": "tiny", "params": {},
        "tools": None, "schema": None, "count": len(messages),
        "messages": {str(at): each for at, each in enumerate(messages)},
    }  # fmt: skip
    return json.dumps(said | more)


def keep(client: Client, text: str, key: str = KEY) -> Any:
    return client.post(
        reverse("conversation", args=[key]), data=text, content_type="application/json"
    )


def whole(client: Client, key: str = KEY) -> Any:
    return client.get(reverse("conversation", args=[key])).json()


def listed(client: Client, **query: str) -> list[str]:
    found = client.get(reverse("conversations"), query).json()
    return [each["title"] for each in found["conversations"]]


def test_what_was_kept_comes_back_as_it_was(ada: Client) -> None:
    parts = [
        {"type": "text", "text": "And this?"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]
    messages: list[dict[str, Any]] = [ASKED, SAID, {"role": "user", "content": parts}]

    answer = keep(ada, body(*messages, params={"temperature": "0.3"}, tools=[{"name": "f"}]))

    assert answer.status_code == 200
    found = whole(ada)
    assert found["messages"] == messages
    assert found["params"] == {"temperature": "0.3"}
    assert found["tools"] == [{"name": "f"}]
    assert found["title"] == "Why is the sky blue?"
    assert found["revision"] == "first0"


def test_only_what_has_changed_is_sent(ada: Client) -> None:
    keep(ada, body(ASKED, SAID))
    longer = SAID | {"content": "Rayleigh scattering of sunlight."}

    keep(ada, body(was="first0", revision="second", count=2, messages={"1": longer}))

    assert whole(ada)["messages"] == [ASKED, longer]


def test_a_shorter_conversation_loses_its_end_alone(ada: Client) -> None:
    keep(ada, body(ASKED, SAID, ASKED))

    keep(ada, body(was="first0", revision="second", count=1, messages={}))

    assert whole(ada)["messages"] == [ASKED]


def test_a_tab_that_has_not_seen_the_last_change_overwrites_nothing(ada: Client) -> None:
    keep(ada, body(ASKED, SAID))
    keep(ada, body(was="first0", revision="second", count=2, messages={"1": ASKED}))

    answer = keep(ada, body(was="first0", revision="third0", count=1, messages={}))

    assert answer.status_code == 409
    assert whole(ada)["messages"] == [ASKED, ASKED]


def test_a_save_whose_answer_was_lost_may_come_again(ada: Client) -> None:
    first = body(ASKED)
    keep(ada, first)

    assert keep(ada, first).status_code == 200
    unsure = body(ASKED, SAID, was="first0 lost00", revision="second")
    assert keep(ada, unsure).status_code == 200
    assert len(whole(ada)["messages"]) == 2


def test_the_end_of_what_was_deleted_is_not_kept_as_a_whole(ada: Client) -> None:
    answer = keep(ada, body(was="first0", revision="second", count=2, messages={"1": SAID}))

    assert answer.status_code == 409
    assert not Conversation.objects.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"params": NaN}', "not JSON"),
        ("[]", "no conversation"),
        (body(ASKED, revision="NO SUCH KEY"), "no conversation"),
        (body(count=2001), "2000 is the limit"),
        (body(count=1, messages={"1": ASKED}), "no place"),
        (body(count=1, messages={"0": "words"}), "no object"),
        (body(params={"system": "x" * 300_000}), "larger than 256 KiB"),
    ],
)
def test_what_cannot_be_kept_is_said(ada: Client, text: str, said: str) -> None:
    answer = keep(ada, text)

    assert answer.status_code == 400
    assert said in answer.json()["message"]
    assert not Conversation.objects.exists()


def test_a_message_that_is_too_large_is_said_with_its_size(
    ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "MESSAGE_LIMIT", 2**20)

    answer = keep(ada, body(ASKED, {"role": "user", "content": "x" * 2 * 2**20}))

    assert answer.status_code == 400
    assert "Message 2 is 2.0 MiB large, and 1 MiB is the limit" in answer.json()["message"]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_nobody_else_finds_a_conversation(ada: Client, role: Role) -> None:
    keep(ada, body(ASKED))
    eve = client_of("eve", role)

    assert eve.get(reverse("conversation", args=[KEY])).status_code == 404
    assert eve.get(reverse("chat_conversation", args=[KEY])).status_code == 404
    for verb in ("share", "unshare", "restore"):
        assert eve.post(reverse(f"conversation_{verb}", args=[KEY])).status_code == 404
    eve.post(reverse("conversation_delete", args=[KEY]))
    keep(eve, body(SAID))
    assert listed(eve, q="sky") == []
    assert whole(ada)["messages"] == [ASKED]
    assert ada.get(reverse("chat_conversation", args=[KEY])).status_code == 200


def test_the_newest_come_first_a_page_at_a_time(ada: Client) -> None:
    person, now = User.objects.get(), timezone.now()
    Conversation.objects.bulk_create(
        Conversation(
            person=person, key=f"key{at:03}", name=f"talk {at:03}",
            updated_at=now - timedelta(seconds=at // 2),  # two of each moment
        )
        for at in range(120)
    )  # fmt: skip
    found, before = [], ""
    for _page in range(3):
        answer = ada.get(reverse("conversations"), {"before": before}).json()
        found += [each["title"] for each in answer["conversations"]]
        before = answer["before"]

    assert len(found) == len(set(found)) == 120
    assert {found[0], found[1]} == {"talk 000", "talk 001"}
    assert before == ""


def test_the_list_costs_as_many_queries_for_many_as_for_one(
    ada: Client, django_assert_max_num_queries: Any
) -> None:
    for at in range(30):
        keep(ada, body(ASKED, SAID), key=f"conversation{at}")

    with django_assert_max_num_queries(4):
        assert len(listed(ada)) == 30


def test_a_search_finds_names_and_what_was_said(ada: Client) -> None:
    keep(ada, body(ASKED, SAID), key="weather")
    keep(ada, body({"role": "user", "content": "Hello"}, name="Small talk"), key="smalltalk")

    assert listed(ada, q="RAYLEIGH sky") == ["Why is the sky blue?"]
    assert listed(ada, q="small") == ["Small talk"]
    assert listed(ada, q="small sky") == []


def test_a_deleted_one_comes_back_for_a_day(ada: Client) -> None:
    keep(ada, body(ASKED))
    ada.post(reverse("conversation_delete", args=[KEY]))
    assert listed(ada) == []
    assert keep(ada, body(ASKED, SAID, was="first0", revision="second")).status_code == 409

    assert ada.post(reverse("conversation_restore", args=[KEY])).status_code == 204
    assert whole(ada)["messages"] == [ASKED]

    ada.post(reverse("conversation_delete", args=[KEY]))
    Conversation.objects.update(deleted_at=timezone.now() - timedelta(days=2))
    ada.post(reverse("conversation_delete", args=["another0"]))
    assert not ChatMessage.objects.exists()


def test_a_conversation_of_the_browsers_keeps_its_age(ada: Client) -> None:
    keep(ada, body(ASKED, updated=1_700_000_000_000))
    assert Conversation.objects.get().updated_at.year == 2023

    keep(ada, body(was="first0", revision="second", count=1, messages={}, updated=9e15))
    assert Conversation.objects.get().updated_at <= timezone.now()


def test_the_title_follows_the_first_question(ada: Client) -> None:
    keep(ada, body(ASKED))

    keep(ada, body({"role": "user", "content": "Changed"}, was="first0", revision="second"))

    assert listed(ada) == ["Changed"]


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("  \n", ""),
        ("One\nTwo", "One"),
        ("x" * 100, f"{'x' * 59}…"),
        ("x" * 60, "x" * 60),
        (f"Why does {'vLLM ' * 9}need so much memory?", f"Why does {'vLLM ' * 9}need…"),
        ([{"type": "image_url"}, {"type": "text", "text": "What is this?"}], "What is this?"),
        (None, ""),
        ({"text": "?"}, ""),
    ],
)
def test_a_title_is_the_first_line_in_words(content: Any, title: str) -> None:
    assert title_of({"content": content}) == title


def test_what_is_searched_holds_no_nul() -> None:
    assert text_of({"content": "a\0b"}) == "ab"


def test_nul_is_kept_as_the_sign_for_what_cannot_be(ada: Client) -> None:
    keep(ada, body({"role": "user", "content": "a\0b"}))

    assert whole(ada)["messages"][0]["content"] == "a\ufffdb"


@pytest.mark.parametrize("text", [r"\u0000", r"\\u0000", "\\\\\\u0000 in C"])
def test_who_writes_of_nul_reads_what_was_written(ada: Client, text: str) -> None:
    keep(ada, body({"role": "user", "content": text}))

    assert whole(ada)["messages"][0]["content"] == text


def test_half_a_character_is_kept_as_a_sign(ada: Client) -> None:
    assert keep(ada, body({"role": "user", "content": "a\ud83d"})).status_code == 200
    assert whole(ada)["messages"][0]["content"] == "a?"


def test_a_link_opens_it_for_whoever_may_log_in_until_it_is_taken_back(ada: Client) -> None:
    keep(ada, body(ASKED, SAID))
    viewer = client_of("vera", Role.VIEWER)

    link = ada.post(reverse("conversation_share", args=[KEY])).json()["link"]
    again = ada.post(reverse("conversation_share", args=[KEY])).json()["link"]

    assert link == again
    page = viewer.get(link)
    assert page.status_code == 200
    assert "Rayleigh" in page.content.decode()
    assert "ada" in page.content.decode()
    assert Client().get(link).status_code == 302
    ada.post(reverse("conversation_unshare", args=[KEY]))
    assert viewer.get(link).status_code == 404


def test_a_shared_one_that_is_deleted_is_not_there(ada: Client) -> None:
    keep(ada, body(ASKED))
    link = ada.post(reverse("conversation_share", args=[KEY])).json()["link"]

    ada.post(reverse("conversation_delete", args=[KEY]))

    assert ada.get(link).status_code == 404


def test_the_page_of_a_shared_one_obeys_nothing_of_it(ada: Client) -> None:
    hostile = "</script><script>window.hacked=1</script><img src=x hx-get=/x/ hx-trigger=load>"
    keep(ada, body({"role": "user", "content": hostile}, name=hostile[:80]))
    link = ada.post(reverse("conversation_share", args=[KEY])).json()["link"]

    page = ada.get(link).content.decode()

    assert "<script>window" not in page
    assert "<img" not in page


def test_the_path_that_is_shown_is_kept_and_shared_and_names_it(ada: Client) -> None:
    other = {"role": "user", "content": "Why is grass green?", "parent": -1}
    said = SAID | {"content": "Chlorophyll."}
    keep(ada, body(ASKED, SAID, other, said, leaf=3))
    assert listed(ada) == ["Why is grass green?"]

    keep(ada, body(was="first0", revision="second", count=4, messages={}, leaf=1))

    found = whole(ada)
    assert found["leaf"] == 1
    assert found["messages"] == [ASKED, SAID, other, said]
    assert listed(ada) == ["Why is the sky blue?"]
    link = ada.post(reverse("conversation_share", args=[KEY])).json()["link"]
    page = ada.get(link).content.decode()
    assert "Rayleigh" in page
    assert "Chlorophyll" not in page


@pytest.mark.parametrize("parent", [1, 7, -2, True, "0"])
def test_a_message_follows_one_that_is_before_it(ada: Client, parent: object) -> None:
    answer = keep(ada, body(ASKED, SAID | {"parent": parent}))

    assert answer.status_code == 400
    assert "follows none" in answer.json()["message"]


def test_conversations_from_before_there_were_versions_are_shown_whole(ada: Client) -> None:
    row = Conversation.objects.create(key=KEY, person=User.objects.get(), title="old")
    messages: list[dict[str, Any]] = [ASKED, SAID, ASKED]
    for place, message in enumerate(messages):
        ChatMessage.objects.create(conversation=row, place=place, body=message)

    assert [each.place for each in row.list_messages()] == [0, 1, 2]
    assert whole(ada)["leaf"] is None
