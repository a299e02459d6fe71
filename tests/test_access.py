"""Every address and every socket, as everybody. A new one without a row fails."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from servers.consumers.guard import FAULT
from servers.models import Permission, Role, Run, User
from servers.routing import websocket_urlpatterns
from servers.views.access import allow
from tests import access_rows, factories
from tests.access_rows import PUBLIC, ROWS, SOCKETS, AccessRow, Things, made
from tests.cases import Cases, table
from tests.websocket import Socket, session_of

# ROWS, SOCKETS and what they name stand in tests/access_rows.py: add yours there.
EVERYBODY: list[Role | None] = [None, *Role]


def patterns(within: URLResolver) -> Iterator[URLPattern]:
    for each in within.url_patterns:
        if isinstance(each, URLResolver):
            # Keys open those, and tests/api says which.
            yield from patterns(each) if each.namespace != "api" else ()
        else:
            yield each


def by_name(name: str) -> URLPattern:
    return next(each for each in patterns(get_resolver()) if each.name == name)


def word(role: Role | None) -> str:
    return role.label if role is not None else "nobody"


def row_id(row: AccessRow) -> str:
    return f"{row.method}-{row.name}"


@pytest.fixture
def things(db: None, own_redis: object) -> Things:
    return made()


@pytest.fixture
def kept_things(transactional_db: None, own_redis: object) -> Things:
    """Committed, so that the threads of sockets see them."""
    return made()


def person_of(role: Role) -> User:
    return User.objects.create_user(f"a-{role.label}", role=role)


def logged_in(person: User | None) -> Client:
    client = Client(raise_request_exception=False)
    if person is not None:
        client.force_login(person)
    return client


def address(row: AccessRow, things: Things) -> str:
    return reverse(row.name, args=[things[key] for key in row.args])


def ask(client: Client, row: AccessRow, things: Things) -> HttpResponseBase:
    """Nothing of what it does stays, nor what it does to the client: the next row finds all there."""
    cookies = copy.deepcopy(client.cookies)
    send = client.post if row.method == "post" else client.get
    with transaction.atomic():
        response: HttpResponseBase = send(address(row, things), row.data)
        transaction.set_rollback(True)
    client.cookies = cookies
    return response


def test_every_address_has_a_row() -> None:
    missing = {str(each.name) for each in patterns(get_resolver())} - {row.name for row in ROWS}

    assert not missing, (
        f"There are addresses that no row of ROWS in {access_rows.__file__} names: {sorted(missing)}. "
        "Add a Row for each, with its method and the permission that it needs."
    )


def test_every_view_says_who_may_use_it() -> None:
    silent = []
    for each in patterns(get_resolver()):
        is_public = getattr(each.callback, "login_required", True) is False
        if not is_public and not hasattr(each.callback, "permission"):
            silent.append(str(each.name))

    assert not silent, (
        f"These views say nothing about who may use them: {silent}. Serve each with @get, @post or "
        "@get_or_post of servers.views.access, which take a permission."
    )


@table("row", ROWS, ids=row_id)
def test_a_view_has_the_role_of_its_row(row: AccessRow) -> None:
    callback = by_name(row.name).callback
    is_public = getattr(callback, "login_required", True) is False

    said = PUBLIC if is_public else getattr(callback, "permission", "no permission at all")

    assert said == row.needs, (
        f"The view of {row.name} is for {said!r}, its row in {access_rows.__file__} says {row.needs!r}. "
        "Change the one that is wrong."
    )


def test_nobody_gets_no_more_than_security_md_says() -> None:
    """Whoever adds one tells of it there, in the row "nobody" of the roles."""
    public = {row.name for row in ROWS if row.needs is PUBLIC and not row.wants_key}

    assert public == {"login", "join", "terminal", "authority"}


@pytest.mark.parametrize("who", EVERYBODY, ids=word)
@pytest.mark.takes(30)
def test_every_address_lets_in_whom_it_should(who: Role | None, things: Things) -> None:
    client = logged_in(person_of(who) if who is not None else None)

    answers = [(row, ask(client, row, things)) for row in ROWS]

    wrong = [what_is_wrong(response, row, who) for row, response in answers]
    assert not any(wrong), "\n".join(filter(None, wrong))
    for row, response in answers if who is Role.ADMIN else ():
        # No cache keeps it, and no page takes up what is not from here.
        assert "no-store" in response.headers["Cache-Control"], row.name
        assert "default-src 'self'" in response.headers["Content-Security-Policy"], row.name


def what_is_wrong(response: HttpResponseBase, row: AccessRow, who: Role | None) -> str | None:
    status, location = response.status_code, response.headers.get("Location", "")
    is_sent_to_log_in = status == 302 and location.startswith("/login/")
    if row.wants_key:
        is_right = status == 401
    elif row.needs is PUBLIC or (who is not None and row.needs in who.permissions):
        is_right = status < 500 and status not in (401, 403)
        is_right = is_right and (row.name == "logout" or not is_sent_to_log_in)
    elif who is None:
        is_right = is_sent_to_log_in
    else:
        is_right = status == 403
    if is_right:
        return None
    return f"{row.method} {row.name} answers {word(who)} with {status} {location}"


@pytest.mark.parametrize("who", EVERYBODY, ids=word)
def test_an_address_without_a_form_takes_none(who: Role | None, things: Things) -> None:
    """What a view does with a POST that no row tells of, nobody has looked at."""
    client = logged_in(person_of(who) if who is not None else None)
    with_form = {row.name for row in ROWS if row.method == "post"}
    rows = {row.name: row for row in ROWS if row.name not in with_form}

    wrong = []
    for row in rows.values():
        response = ask(client, replace(row, method="post"), things)
        status, location = response.status_code, response.headers.get("Location", "")
        is_sent_to_log_in = status == 302 and location.startswith("/login/")
        if status != 405 and not (who is None and is_sent_to_log_in):
            wrong.append(f"post {row.name} answers {word(who)} with {status} {location}")

    assert not wrong, "\n".join(wrong)


CHANGES = [row for row in ROWS if row.method == "post"]


def test_a_change_needs_the_pages_token(things: Things) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create(username="grace", role=Role.ADMIN))
    before = list(User.objects.values_list("role", "is_active", "password"))

    for row in CHANGES:
        response = client.post(address(row, things), row.data)

        assert response.status_code == 403, row.name
        assert list(User.objects.values_list("role", "is_active", "password")) == before


def test_reading_changes_nothing(things: Things) -> None:
    client = logged_in(person_of(Role.ADMIN))
    with_form = {row.name for row in ROWS if row.method == "get"}

    for row in CHANGES:
        response = client.get(address(row, things))

        assert row.name in with_form or response.status_code == 405, row.name
        assert Run.objects.get().wanted == "running", row.name


def test_every_socket_has_a_row() -> None:
    missing = {str(each.pattern) for each in websocket_urlpatterns} - set(SOCKETS)

    assert not missing, (
        f"routing.py has sockets that SOCKETS in {access_rows.__file__} does not name: {sorted(missing)}. "
        "Add each with a path that it matches and the permission that listening needs."
    )


async def socket_of(path: str, who: Role) -> Socket:
    return Socket(path, session=await session_of(await _make(who)))


async def _make(who: Role) -> User:
    return await User.objects.acreate(username=f"b-{who.label}", role=who)


@pytest.mark.asyncio
async def test_a_socket_lets_in_whom_it_should(kept_things: Things) -> None:
    sessions = {who: await session_of(await _make(who)) for who in Role}

    with Cases() as cases:
        for (path, least), who in itertools.product(SOCKETS.values(), EVERYBODY):
            with cases.named(f"{path} {word(who)}"):
                session = sessions[who] if who is not None else ""
                socket = Socket(path.format(**kept_things), session=session)
                # Accepted even when it is refused: a browser takes a refused handshake for a
                # lost connection, and comes back for ever.
                assert await socket.open()
                if who is None or least not in who.permissions:
                    assert await socket.hear_close() == (4401 if who is None else 4403)
                else:
                    assert (await socket.hear())["type"] == "websocket.send"
                    await socket.leave()


@pytest.mark.asyncio
@pytest.mark.parametrize("pattern", SOCKETS)
async def test_a_socket_closes_at_once_when_its_person_is_disabled(
    pattern: str, kept_things: Things
) -> None:
    path, _least = SOCKETS[pattern]
    socket = await socket_of(path.format(**kept_things), Role.VIEWER)
    assert await socket.open()
    assert (await socket.hear())["type"] == "websocket.send"
    person = await User.objects.aget(username="b-viewer")

    await sync_to_async(disable)(person.pk)

    assert await socket.hear_close() == 4401
    await socket.leave()


@pytest.mark.asyncio
@pytest.mark.parametrize("pattern", SOCKETS)
async def test_a_socket_ends_when_its_person_gets_another_role(
    pattern: str, kept_things: Things
) -> None:
    path, _least = SOCKETS[pattern]
    socket = await socket_of(path.format(**kept_things), Role.EDITOR)
    assert await socket.open()
    assert (await socket.hear())["type"] == "websocket.send"
    person = await User.objects.aget(username="b-editor")

    await sync_to_async(demote)(person.pk)

    assert await socket.hear_close() == FAULT
    await socket.leave()


def demote(pk: int) -> None:
    client = factories.log_in(User.objects.get(username="ada"))
    client.post(reverse("person_role", args=[pk]), {"role": str(Role.VIEWER.value)})


def disable(pk: int) -> None:
    client = factories.log_in(User.objects.get(username="ada"))
    client.post(reverse("person_active", args=[pk]))


def test_allow_answers_a_role_below_with_what_is_missing(things: Things) -> None:
    response = logged_in(person_of(Role.VIEWER)).get(reverse("activity"))

    assert b"This needs the role admin; you are viewer." in response.content
    assert allow(Permission.EDIT)(lambda request: None).permission == Permission.EDIT  # type: ignore[attr-defined]
