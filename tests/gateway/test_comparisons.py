"""Conversations that are the columns of one comparison."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from servers.forms import conversation as form
from servers.models import Conversation, Role
from tests.gateway.test_conversations import ASKED, SAID, body, client_of, keep, listed, whole

ADDRESS = "mcompare1"


@pytest.fixture
def ada(db: None) -> Client:
    return client_of("ada")


def compare(client: Client, *answers: str, key: str = ADDRESS) -> list[str]:
    """Keep a comparison whose columns have said this; the columns' keys."""
    keys = [f"{key}x{at}" for at in range(len(answers))]
    for at, text in reversed(list(enumerate(answers))):  # in whichever order they arrive
        said = {"role": "assistant", "content": text}
        answer = keep(client, body(ASKED, said, comparison=key, column=at), key=keys[at])
        assert answer.status_code == 200
    return keys


def columns(page: Any) -> list[str]:
    return list(page.context["columns"])


def test_a_comparison_opens_with_its_columns_in_order(ada: Client) -> None:
    keys = compare(ada, "Blue.", "Green.", "Red.")

    assert columns(ada.get(reverse("comparison", args=[ADDRESS]))) == keys
    assert whole(ada, keys[1])["comparison"] == ADDRESS
    assert whole(ada, keys[1])["column"] == 1
    moved = ada.get(reverse("chat_conversation", args=[keys[2]]))
    assert moved.headers["Location"] == reverse("comparison", args=[ADDRESS])


def test_the_list_has_one_line_for_all_columns(ada: Client) -> None:
    compare(ada, "Blue.", "Green.")
    keep(ada, body({"role": "user", "content": "Alone"}))

    found = ada.get(reverse("conversations")).json()["conversations"]

    assert [(each["title"], each["comparison"]) for each in found] == [
        ("Alone", ""),
        (ASKED["content"], ADDRESS),
    ]


@pytest.mark.parametrize("word", ["Blue", "Green"])
def test_a_search_looks_into_every_column(ada: Client, word: str) -> None:
    compare(ada, "Blue.", "Green.")
    keep(ada, body({"role": "user", "content": "Alone"}))

    assert listed(ada, q=word) == [ASKED["content"]]


def test_columns_are_deleted_and_taken_back_together(ada: Client) -> None:
    keys = compare(ada, "Blue.", "Green.")
    keep(ada, body(ASKED, SAID))

    ada.post(reverse("conversation_delete", args=[keys[1]]))

    assert Conversation.objects.filter(deleted_at=None).count() == 1
    assert ada.get(reverse("comparison", args=[ADDRESS])).status_code == 404
    ada.post(reverse("conversation_restore", args=[keys[0]]))
    assert columns(ada.get(reverse("comparison", args=[ADDRESS]))) == keys


def test_a_link_to_one_column_shows_all(ada: Client) -> None:
    keys = compare(ada, "Blue.", "Green.")

    link = ada.post(reverse("conversation_share", args=[keys[0]])).json()["link"]

    page = client_of("vera", Role.VIEWER).get(link).content.decode()
    assert "Blue." in page
    assert "Green." in page


def test_a_comparison_is_there_for_its_person_alone(ada: Client) -> None:
    compare(ada, "Blue.", "Green.")
    lin = client_of("lin", Role.ADMIN)
    compare(lin, "Mine.", "Mine, too.")
    lin.post(reverse("conversation_delete", args=[f"{ADDRESS}x0"]))

    assert lin.get(reverse("comparison", args=[ADDRESS])).status_code == 404
    assert len(columns(ada.get(reverse("comparison", args=[ADDRESS])))) == 2


def test_a_column_that_became_a_conversation_of_its_own_leaves_the_others(ada: Client) -> None:
    first, second = compare(ada, "Blue.", "Green.")
    keep(ada, body(was="first0", revision="second", count=2, messages={}, comparison=""), key=first)

    assert columns(ada.get(reverse("comparison", args=[ADDRESS]))) == [second]
    assert len(listed(ada)) == 2


@pytest.mark.parametrize(
    "more", [{"comparison": "../x"}, {"comparison": 1}, {"column": 4}, {"column": "1"}]
)
def test_what_is_no_column_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(form.KeepError, match="no conversation"):
        form.read(body(ASKED, **more).encode())
