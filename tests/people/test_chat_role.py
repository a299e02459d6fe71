"""What who may only chat has, and what stays shut to them."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.contexts import pages as page_contexts
from servers.models import Key, Permission, Role, User
from servers.models.gateway.request import Request
from servers.models.people.user import PERMISSIONS, name_roles
from servers.models.runs.run import RunState
from tests import factories
from tests.cases import Cases
from tests.people.desk import as_, join

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

EVERYTHING: set[tuple[str, int | None]] = {("everything", None)}


@pytest.fixture
def carl() -> User:
    return factories.person("carl", Role.CHAT)


def test_every_role_stands_in_the_table() -> None:
    assert set(PERMISSIONS) == set(Role)
    assert PERMISSIONS[Role.CHAT] == {Permission.ACCOUNT, Permission.CHAT}
    assert Permission.CHAT not in PERMISSIONS[Role.VIEWER]
    assert [name_roles(each) for each in Permission] == [
        "chat or viewer", "chat or operator", "viewer", "operator", "editor", "admin",
    ]  # fmt: skip


def test_the_first_page_is_the_playground(carl: User) -> None:
    page = as_(carl).get("/", follow=True)

    assert page.redirect_chain == [("/chat/", 302)]
    said = page.content.decode()
    assert 'href="/gateway/"' in said
    shut_ones = ("/profiles/", "/models/", "/settings/people/", "/alerts/", "/boxes/", "/activity/")
    for shut in shut_ones:
        assert f'"{shut}' not in said, shut
    assert "data-palette" not in said
    assert 'id="palette"' not in said


def test_an_invited_person_chats(ada: User) -> None:
    page = as_(ada).post(reverse("person_invite"), {"role": str(Role.CHAT.value)})
    link = page.context["new_link"]["address"].removeprefix("http://testserver")

    join(Client(), link, username="lin")

    assert User.objects.get(username="lin").role == Role.CHAT


def test_nothing_of_the_box_is_on_their_pages(carl: User) -> None:
    """Of a server that runs, and of one whose start has failed with a line of its log."""
    box = factories.box("rtx8")
    runs = [
        factories.run(factories.server(box, "up"), RunState.READY),
        factories.run(factories.server(box, "down"), RunState.FAILED),
    ]
    for run in runs:
        run.failure = "CUDA error in /opt/secret/start.py"
        run.save(update_fields=["failure"])
    client = as_(carl)
    said = [
        client.get(address).content.decode()
        for address in ("/chat/", "/chat/compare/", "/gateway/")
    ]
    pages = (
        "dashboard",
        "chat",
        "gateway",
        "server",
        "box",
        "alerts",
        "channels",
        "capture",
        "models",
        "found",
    )
    said += [
        page_contexts.render(EVERYTHING, carl, page=page, pk=pk)
        for page in pages
        for pk in (box.pk, runs[0].server_id)
    ]

    with Cases() as cases:
        for number, page in enumerate(said):
            text = re.sub(r"/static/[^\"]+", "", page)
            with cases.named(str(number)):
                for shut in (
                    "/opt/secret",
                    "/servers/",
                    "/runs/",
                    "/profiles/",
                    "/boxes/",
                    "GiB",
                    "/alerts/",
                ):
                    assert shut not in text, shut
    assert 'data-slug="up"' in page_contexts.render(EVERYTHING, carl, page="chat")


def test_they_see_their_own_requests_alone(ada: User, carl: User) -> None:
    for person, model in ((ada, "of-ada"), (carl, "of-carl")):
        Request.objects.create(
            person=person,
            at=timezone.now(),
            model=model,
            server="up",
            path="/v1/chat/completions",
            status=200,
            duration=1.0,
        )

    for said in (
        as_(carl).get("/gateway/").content.decode(),
        as_(carl).get("/gateway/requests/?q=of").content.decode(),
        page_contexts.render(EVERYTHING, carl, page="gateway"),
        page_contexts.render(EVERYTHING, carl, page="requests"),
    ):
        assert "of-carl" in said
        assert "of-ada" not in said


def test_their_keys_ask_models_and_nothing_else(carl: User) -> None:
    page = as_(carl).get(reverse("key_new"))
    assert page.context["form"].fields["role"].choices == [(0, "use models only")]

    as_(carl).post(reverse("keys"), {"name": "x", "role": "0", "lives": "0"})
    made = Key.objects.get()
    forged = as_(carl).post(reverse("keys"), {"name": "y", "role": "2", "lives": "0"})

    assert forged.context["form"].errors
    assert (Key.objects.get(), made.only_asks, made.scope) == (made, True, "use models only")
    assert made.may(Permission.CHAT)


def test_a_key_has_what_both_it_and_its_person_may() -> None:
    cases = [
        (Role.VIEWER, Role.VIEWER, Role.CHAT, set()),
        (Role.OPERATOR, Role.OPERATOR, Role.CHAT, {Permission.CHAT}),
        (Role.ADMIN, Role.ADMIN, Role.CHAT, {Permission.CHAT}),
        (Role.CHAT, Role.CHAT, Role.VIEWER, set()),
        (Role.CHAT, Role.CHAT, Role.ADMIN, {Permission.CHAT}),
        (Role.EDITOR, Role.VIEWER, Role.EDITOR, {Permission.VIEW}),
    ]
    for number, (was, role, then, may) in enumerate(cases):
        person = factories.person(f"p{number}", was)
        key, _token = Key.make(person, "x", role, expires_at=None)
        User.objects.filter(pk=person.pk).update(role=then)
        key = Key.objects.select_related("person").get(pk=key.pk)

        assert {each for each in Permission if key.may(each)} == may | {Permission.ACCOUNT}


def test_an_error_that_is_not_shown_is_not_searched(ada: User, carl: User) -> None:
    Request.objects.create(
        person=carl, at=timezone.now(), model="of-carl", server="up", path="/v1/chat/completions",
        status=503, duration=1.0, error="RuntimeError: hidden",
    )  # fmt: skip

    assert "of-carl" in as_(ada).get("/gateway/requests/?q=hidden").content.decode()
    assert "of-carl" not in as_(carl).get("/gateway/requests/?q=hidden").content.decode()


def test_a_key_from_before_opens_no_metrics() -> None:
    olga = factories.person("olga", Role.OPERATOR)
    headers = {"Authorization": f"Bearer {Key.make(olga, 'x', Role.OPERATOR, expires_at=None)[1]}"}
    assert Client(headers=headers).get("/metrics").status_code == 200

    User.objects.filter(pk=olga.pk).update(role=Role.CHAT)

    assert Client(headers=headers).get("/metrics").status_code == 404
    Key.make(factories.person("vera", Role.VIEWER), "y", Role.VIEWER, expires_at=None)
    assert Client(headers=headers).get("/metrics").status_code == 401
