from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.utils import timezone

from servers import events
from servers.host.links import keys
from servers.host.links.files import WireFiles
from servers.host.links.sshd import read_host_line
from servers.judge.links.token import JoinToken, read_token
from servers.judge.links.words import WORDS, make_words
from servers.lifecycle.links import decisions
from servers.lifecycle.links.invitations import (
    LinkError,
    invite_box,
    withdraw,
)
from servers.models import AuditEntry, Box, BoxInvitation, BoxLink, User
from servers.models.links import INVITED_FOR
from servers.state import store
from tests.cases import table
from tests.links import linked
from tests.waiting import PATIENCE

TOKEN = JoinToken("fd00::17", 8471, bytes(range(32)), "a1b2c3", bytes(range(32, 64)))


def test_a_token_is_read_as_it_was_written() -> None:
    text = TOKEN.write()

    assert text.startswith("ifj1_")
    assert read_token(text) == TOKEN
    assert read_token(f" {text[:40]}\n{text[40:]} ") == TOKEN, "as terminals wrap it"


@table(
    ("text", "says"),
    [
        ("", "no token"),
        ("ifd_abcdef", "no token"),
        (TOKEN.write()[:-1], "not whole"),
        (TOKEN.write()[:9], "not whole"),
        (TOKEN.write()[:30] + "A" + TOKEN.write()[31:], "not whole"),
        ("ifj2_" + TOKEN.write()[5:], "another version"),
    ],
)
def test_what_is_no_whole_token_is_told_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_token(text)


def test_six_words_speak_of_all_parts_and_of_where_each_begins() -> None:
    assert len(set(WORDS)) == 256
    words = make_words(b"hub", b"box")

    assert len(words.split()) == 6
    assert words == make_words(b"hub", b"box")
    assert words != make_words(b"hubb", b"ox")
    assert words != make_words(b"box", b"hub")


def test_an_invitation_names_the_hub_and_keeps_no_seed(hub: User, settings: Any) -> None:
    now = timezone.now()

    made, token = invite_box(hub, now=now)

    assert (token.address, token.port, token.ident) == ("milo@10.0.0.1", 8471, made.ident)
    assert token.host_key == keys.hash_key(read_host_line(WireFiles(settings.DATA)))
    assert made.public_key == keys.write_public_line(keys.make_key(token.seed))
    load_ssh_public_key(made.public_key.encode())  # raises for what is none
    assert made.expires_at == now + INVITED_FOR
    assert list(BoxInvitation.objects.select_open()) == [made]

    assert withdraw(made, hub)
    assert not withdraw(made, hub), "once is enough"
    assert not BoxInvitation.objects.select_open()
    assert AuditEntry.objects.filter(action__in=["invite box", "withdraw invitation"]).count() == 2


def test_an_inferdash_of_one_box_says_what_to_do_first(hub: User, settings: Any) -> None:
    WireFiles(settings.DATA).host_key.write_text("no key")
    with pytest.raises(LinkError, match="no key that can be read"):
        invite_box(hub, now=timezone.now())

    settings.WIRE = ""
    with pytest.raises(LinkError, match="make up BOXES=1"):
        invite_box(hub, now=timezone.now())


def test_a_box_is_let_in_once_with_all_that_its_way_needs(hub: User, settings: Any) -> None:
    asked = linked.ask()
    assert list(BoxLink.objects.select_waiting()) == [asked]

    link = decisions.let_in(asked, hub)

    assert link.box == Box.objects.get(slug="laurel")
    assert link.port == settings.BOX_PORTS[0]
    assert link.reveal_password() != link.reveal_relay_secret()
    assert list(BoxLink.objects.select_joined()) == [link]
    with pytest.raises(LinkError, match="let in already"):
        decisions.let_in(asked, hub)
    with pytest.raises(LinkError, match="Revoke it instead"):
        decisions.refuse(asked, hub)
    assert decisions.let_in(linked.ask("orchid"), hub).port == settings.BOX_PORTS[1]


def test_a_second_box_of_a_name_is_asked_for_another(hub: User, settings: Any) -> None:
    decisions.let_in(linked.ask(), hub)
    second = linked.ask()

    with pytest.raises(LinkError, match="Another box is called laurel"):
        decisions.let_in(second, hub)
    with pytest.raises(LinkError, match="cannot be a box's name"):
        decisions.let_in(second, hub, name="Laurel 2")
    with pytest.raises(LinkError, match="Another box"):
        decisions.let_in(second, hub, name=settings.BOX)
    assert decisions.let_in(second, hub, name="laurel-2").name == "laurel-2"


def test_refused_and_revoked_boxes_are_out(hub: User) -> None:
    asked = linked.ask()
    decisions.refuse(asked, hub)
    with pytest.raises(LinkError, match="refused"):
        decisions.let_in(asked, hub)

    first = decisions.let_in(linked.ask(), hub)
    decisions.revoke(first, hub)

    assert not BoxLink.objects.select_joined()
    assert not BoxLink.objects.select_waiting()
    again = decisions.let_in(linked.ask(), hub)
    assert again.box == Box.objects.get(), "its servers and history go on under its name"
    actions = AuditEntry.objects.values_list("action", flat=True)
    assert {"let in box", "refuse box", "revoke box"} <= set(actions)


def test_the_keeper_is_woken_by_each_decision(
    hub: User, own_redis: Any, django_capture_on_commit_callbacks: Any
) -> None:
    with store.client.pubsub() as heard:  # type: ignore[no-untyped-call]
        heard.subscribe(events.KEEPER_CHANNEL)
        heard.get_message(timeout=PATIENCE)
        with django_capture_on_commit_callbacks(execute=True):
            invite_box(hub, now=timezone.now())
        with django_capture_on_commit_callbacks(execute=True):
            link = decisions.let_in(linked.ask(), hub)
        with django_capture_on_commit_callbacks(execute=True):
            decisions.revoke(link, hub)
        said = [heard.get_message(timeout=PATIENCE) for _ in range(3)]

    assert [message and message["type"] for message in said] == ["message"] * 3
