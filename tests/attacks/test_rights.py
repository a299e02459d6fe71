"""Ways to more rights than one has, and ways to leave nobody who has them."""

import pytest
from django.test import Client
from django.urls import reverse

from servers.models import AuditEntry, Invite, Key, Role, Secret, User
from servers.views.api import api
from tests.access_rows import PUBLIC, ROWS, Things, made
from tests.api.conftest import with_key
from tests.cases import Cases

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

CHANGES = [
    *(("person_role", {"role": text}) for text in ("1", "2", "3", "0", "5", "-4", "", "4.0", "admin")),
    *(("person_active", {"active": text}) for text in ("", "no", "0", "YES", "yes\0")),
]  # fmt: skip


def person(name: str, role: Role) -> User:
    return User.objects.create(username=name, role=role)


def page_of(whose: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(whose)
    return client


def test_the_last_admin_stays_whatever_they_send() -> None:
    ada, former = person("ada", Role.ADMIN), person("former", Role.ADMIN)
    User.objects.filter(pk=former.pk).update(is_active=False)
    page = page_of(ada)
    with Cases() as cases:
        for view, said in CHANGES:
            with cases.named(f"{view} {said}"):
                assert page.post(reverse(view, args=[ada.pk]), said).status_code == 302
                kept = User.objects.get(pk=ada.pk)
                assert (kept.role, kept.is_active) == (Role.ADMIN, True)
    assert not AuditEntry.objects.filter(action__in=["change role", "disable person"]).exists()


def test_whoever_is_no_admin_any_more_changes_nobody() -> None:
    """Two admins turn on each other: the second is stopped at the door."""
    ada, eva = person("ada", Role.ADMIN), person("eva", Role.ADMIN)
    pages = {each.pk: page_of(each) for each in (ada, eva)}

    pages[ada.pk].post(reverse("person_role", args=[eva.pk]), {"role": "3"})
    for view, said in CHANGES:
        assert pages[eva.pk].post(reverse(view, args=[ada.pk]), said).status_code == 403
    assert (
        pages[eva.pk].post(reverse("person_role", args=[eva.pk]), {"role": "4"}).status_code == 403
    )

    assert User.objects.admins().get() == ada


def test_nobody_raises_themselves() -> None:
    ada = person("ada", Role.ADMIN)
    invite, _token = Invite.make(role=Role.ADMIN, by=ada)
    for role in (Role.CHAT, Role.VIEWER, Role.OPERATOR, Role.EDITOR):
        mallory = person(f"mallory-{role.label}", role)
        page = page_of(mallory)
        for view, args, said in (
            ("person_role", [mallory.pk], {"role": "4"}),
            ("person_reset", [ada.pk], {}),
            ("person_invite", [], {"role": "4"}),
            ("invite_end", [invite.pk], {}),
        ):
            assert page.post(reverse(view, args=args), said).status_code == 403, (role, view)
        # What a form does not ask for is not taken from what is sent with it.
        page.post(reverse("password"), {"role": "4", "is_superuser": "on", "username": "ada2"})
        kept = User.objects.get(pk=mallory.pk)
        assert (kept.role, kept.is_superuser, kept.username) == (role, False, mallory.username)


def test_a_link_raises_nobody_who_is_there() -> None:
    """One for a new password was made when its person was an admin."""
    ada, eva = person("ada", Role.ADMIN), person("eva", Role.ADMIN)
    _invite, token = Invite.make(role=Role.ADMIN, by=ada, person=eva)
    User.objects.change(eva.pk, role=Role.VIEWER)
    words = "a long enough one"

    answer = Client().post(
        reverse("join", args=[token]),
        {"password": words, "again": words, "role": "4", "username": "ada"},
    )

    assert answer.status_code == 302
    eva.refresh_from_db()
    assert (eva.role, eva.username, eva.check_password(words)) == (Role.VIEWER, "eva", True)


def test_no_key_is_above_its_person() -> None:
    """Made, made in somebody else's name, made by a page that was loaded as another role."""
    ada = person("ada", Role.ADMIN)
    hers = Key.make(ada, "hers", Role.ADMIN, expires_at=None)[0]
    said = {"name": "x", "lives": "0"}
    with Cases() as cases:
        for role in (Role.CHAT, Role.VIEWER, Role.OPERATOR, Role.EDITOR):
            mallory = person(f"mallory-{role.label}", Role.ADMIN)
            page = page_of(mallory)
            page.get(reverse("keys"))
            User.objects.change(mallory.pk, role=role)
            for wanted in (*range(role + 1, 6), -1, 10**30, "4 ", "4.0", "４"):
                with cases.named(f"{role.label} asks for {wanted!r}"):
                    page.post(reverse("keys"), {**said, "role": str(wanted)})
                    assert not [k for k in Key.objects.filter(person=mallory) if k.role > role]
            with cases.named(f"{role.label} sends what the form does not ask for"):
                more = {"person": ada.pk, "pk": hers.pk, "id": hers.pk, "only_asks": "",
                        "digest": "0" * 64, "token": "ifd_mine", "key": hers.pk}  # fmt: skip
                page.post(reverse("keys"), {**said, **more, "role": str(role.value)})
                made_one = Key.objects.filter(person=mallory).latest("pk")
                assert (made_one.role, made_one.acts_as) == (role, role)
                assert made_one.only_asks == (role is Role.CHAT)
                assert made_one.digest != "0" * 64
            with cases.named(f"{role.label} ends another's"):
                assert page.post(reverse("key_revoke", args=[hers.pk])).status_code == 404
                assert "hers" not in page.get(reverse("keys")).content.decode()
    hers_now = Key.objects.get(pk=hers.pk)
    assert Key.objects.filter(person=ada).count() == 1
    assert (hers_now.name, hers_now.role, hers_now.revoked_at) == ("hers", Role.ADMIN, None)


@pytest.fixture
def things() -> Things:
    return made()


def test_a_key_opens_no_page_so_that_none_makes_another(things: Things) -> None:
    """Whoever has found an admin's key makes no second one, and no admin, with it."""
    with_it = with_key(person("otto", Role.ADMIN))
    kept = (
        Key.objects.count(),
        User.objects.count(),
        Invite.objects.count(),
        Secret.objects.count(),
    )
    with Cases() as cases:
        for row in (each for each in ROWS if each.needs is not PUBLIC):
            with cases.named(f"{row.method} {row.name}"):
                address = reverse(row.name, args=[things[key] for key in row.args])
                send = with_it.post if row.method == "post" else with_it.get
                answer = send(address, row.data)
                assert answer.status_code == 302
                assert answer.headers["Location"].startswith("/login/")
    assert kept == (
        Key.objects.count(), User.objects.count(), Invite.objects.count(), Secret.objects.count()
    )  # fmt: skip


def test_the_api_has_neither_people_nor_keys() -> None:
    """An operation that makes either needs the cases above, too."""
    for path in api.get_openapi_schema()["paths"]:
        named = set(path.strip("/").split("/"))
        # Under /links are those of boxes, for admins alone (tests/api/rows.py).
        assert not named & {"people", "persons", "users", "keys", "invites", "secrets"}
