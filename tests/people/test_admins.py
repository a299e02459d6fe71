import csv
import io
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from servers import tasks
from servers.contexts import activity
from servers.launch.engines.placement import Place
from servers.lifecycle.profiles import path_reports
from servers.models import AuditEntry, Box, Invite, Role, Secret, User
from servers.state import store
from tests import factories
from tests.people.desk import as_, join, log_in, said

# What admins do with people


def test_settings_shows_everybody_themselves_and_admins_the_rest(ada: User, grace: User) -> None:
    theirs, all_of_it = said(as_(grace).get("/settings/")), said(as_(ada).get("/settings/"))

    assert "grace editor Password Change password" in theirs
    pages = "People Secrets Boxes Registries Notifications About"
    assert f"You {pages}" in all_of_it
    assert "You About" in theirs
    assert "Last login" in said(as_(ada).get("/settings/people/"))
    assert as_(grace).get("/settings/people/").status_code == 403
    assert "Installation" not in said(as_(grace).get("/settings/about/"))


def test_an_admin_invites_with_a_role_and_sees_the_link_once(ada: User) -> None:
    client = as_(ada)

    page = client.post(reverse("person_invite"), {"role": Role.OPERATOR.value})

    link = re.search(r"http://testserver/join/[\w-]+/", page.content.decode())
    assert link is not None
    assert "A link for a new operator" in said(page)
    assert link[0] not in client.get("/settings/people/").content.decode()
    join(Client(), link[0].removeprefix("http://testserver"), username="lin")
    assert User.objects.get(username="lin").role == Role.OPERATOR


def test_an_admin_ends_a_link(ada: User) -> None:
    invite, token = Invite.make(role=Role.ADMIN, by=ada)

    response = as_(ada).post(reverse("invite_end", args=[invite.pk]), follow=True)

    assert "The link for a new admin has ended" in said(response)
    assert Client().get(reverse("join", args=[token])).status_code == 410


def test_a_role_counts_at_once(ada: User, grace: User) -> None:
    client = as_(grace)
    assert client.get("/profiles/new/").status_code == 200

    response = as_(ada).post(
        reverse("person_role", args=[grace.pk]), {"role": Role.VIEWER.value}, follow=True
    )

    assert "grace is now a viewer" in said(response)
    assert client.get("/profiles/new/").status_code == 403


def test_a_disabled_person_is_out_at_once_and_in_again_when_enabled(ada: User, grace: User) -> None:
    client = as_(grace)
    address = reverse("person_active", args=[grace.pk])

    page = as_(ada).post(address, follow=True).content.decode()
    assert client.get("/").status_code == 302
    assert "do not match" in said(log_in(Client(), "grace"))

    as_(ada).post(address, {"active": "yes"})
    assert log_in(Client(), "grace").status_code == 302

    # The toast's Undo does the same.
    as_(ada).post(address)
    undo = re.search(rf'<form method="post" action="({address}[^"]*)">[^/]*<button>Undo', page)
    assert undo
    as_(ada).post(undo[1])
    assert log_in(Client(), "grace").status_code == 302


def test_disabling_twice_does_not_enable(ada: User, grace: User) -> None:
    for _click in range(2):
        as_(ada).post(reverse("person_active", args=[grace.pk]))

    assert not User.objects.get(pk=grace.pk).is_active


@pytest.mark.parametrize("change", ["person_role", "person_active"])
def test_the_last_active_admin_stays(change: str, ada: User) -> None:
    User.objects.create(username="old", role=Role.ADMIN, is_active=False)

    response = as_(ada).post(
        reverse(change, args=[ada.pk]), {"role": Role.EDITOR.value}, follow=True
    )

    assert "ada is the last active admin, so nothing was changed" in said(response)
    assert User.objects.admins().get() == ada


def test_whoever_is_shown_out_keeps_no_link_to_come_back_by(ada: User, grace: User) -> None:
    User.objects.change(grace.pk, role=Role.ADMIN)
    tokens = [
        Invite.make(role=Role.ADMIN, by=grace)[1],
        Invite.make(role=Role.ADMIN, by=ada, person=grace)[1],
    ]

    as_(ada).post(reverse("person_active", args=[grace.pk]))

    for token in tokens:
        assert Client().get(reverse("join", args=[token])).status_code == 410


def test_what_admins_do_is_noted(ada: User, grace: User) -> None:
    client = as_(ada)
    client.post(reverse("person_invite"), {"role": "2"})
    client.post(reverse("person_role", args=[grace.pk]), {"role": "1"})
    client.post(reverse("person_reset", args=[grace.pk]))
    client.post(reverse("person_active", args=[grace.pk]))
    client.post(reverse("secret_add"), {"name": "HF_TOKEN", "value": "hf_abcdefgh"})

    noted = [(entry.by, entry.action, entry.subject) for entry in AuditEntry.objects.reverse()]

    assert noted == [
        (ada, "invite", "a new operator"),
        (ada, "change role", "grace"),
        (ada, "reset link", "grace"),
        (ada, "disable person", "grace"),
        (ada, "add secret", "HF_TOKEN"),
    ]
    assert "hf_abcdefgh" not in str(list(AuditEntry.objects.values()))


def test_a_boxs_settings_are_saved_and_its_facts_left_to_the_watcher(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = factories.box("rtx8")
    monkeypatch.setattr(tasks, "mount_refusal", lambda _box, _path: "")
    token = Secret.seal("HF_TOKEN", "hf_one_value", ada)
    typed = {"rtx8-home": "/home/ada", "rtx8-hf_cache": "~/hf", "rtx8-hf_token": str(token.pk)}

    response = as_(ada).post(reverse("box_settings", args=["rtx8"]), typed, follow=True)

    assert "rtx8 is changed" in said(response)
    after = Box.objects.get()
    assert (after.hf_cache, after.hf_token, after.facts) == ("~/hf", token, box.facts)


def test_a_cache_that_engines_may_not_have_is_refused(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = factories.box("rtx8", hf_cache="/mnt/hub")
    asked: list[str] = []

    def worker(of: Box, wanted: Sequence[Place]) -> None:
        asked.extend(each.path for each in wanted)
        refused = [
            {"path": asked[0], "lies": "refused", "refusal": "It lies outside.", "elsewhere": []}
        ]
        store.give(path_reports.question(of, wanted), refused)

    monkeypatch.setattr(tasks, "ask_for_paths", worker)
    typed = {"rtx8-home": "/home/ada", "rtx8-hf_cache": "~/elsewhere"}

    response = as_(ada).post(reverse("box_settings", args=["rtx8"]), typed)

    assert "It lies outside." in said(response)
    assert asked == ["/home/ada/elsewhere"]
    box.refresh_from_db()
    assert box.hf_cache == "/mnt/hub"


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("home", "~", "must be an absolute path"),
        ("home", "ada", "must be an absolute path"),
        ("hf_cache", "$DATA/hf", "only $HOME is known"),
    ],
)
def test_a_boxs_folders_must_be_paths(field: str, text: str, words: str, ada: User) -> None:
    factories.box("rtx8")
    typed = {"rtx8-home": "/home/ada", "rtx8-hf_cache": "", f"rtx8-{field}": text}

    response = as_(ada).post(reverse("box_settings", args=["rtx8"]), typed)

    assert words in said(response)
    assert Box.objects.get().home == "/home/ada"


def test_settings_shows_what_the_worker_allows(ada: User) -> None:
    factories.box("rtx8")

    page = said(as_(ada).get("/settings/boxes/rtx8/"))

    assert "mount_roots /home/ada, /mnt, /data privileged no" in page


# Activity


def test_activity_is_filtered_by_who_and_what(ada: User, grace: User) -> None:
    AuditEntry.note(ada, "start server", "qwen3-8b")
    AuditEntry.note(grace, "stop server", "glm-5", after=3)
    AuditEntry.note(None, "invite", "a new admin")

    assert "glm-5" in said(as_(ada).get("/activity/", {"q": "grace stop"}))
    assert "qwen3-8b" not in said(as_(ada).get("/activity/", {"q": "grace stopped"}))
    assert "Nothing that matches" in said(as_(ada).get("/activity/", {"q": "grace start"}))


def test_activity_is_chosen_by_kind_and_person_and_grouped_by_day(ada: User, grace: User) -> None:
    factories.server(factories.box("rtx8"), "glm-5")
    noted = (
        (ada, "start", "glm-5"), (grace, "change box", "rtx8"), (None, "invite", "a new admin"),
        (grace, "make key", "laptop"), (grace, "stop", "gone-1"),
    )  # fmt: skip
    for by, action, subject in noted:
        AuditEntry.note(by, action, subject)
    old = AuditEntry.note(ada, "restart", "long-ago")
    AuditEntry.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=1))
    subjects = [*(subject for _by, _action, subject in noted), "long-ago"]

    def seen(**asked: str) -> set[str]:
        page = as_(ada).get("/activity/", asked).content.decode()
        entries = page.split('<div id="entries">')[1]
        return {each for each in subjects if each in entries}

    assert seen() == set(subjects)
    assert seen(kind="starts") == {"glm-5", "gone-1", "long-ago"}
    assert seen(kind="changes") == {"rtx8"}
    assert seen(kind="people") == {"a new admin"}
    assert seen(kind="keys") == {"laptop"}
    assert seen(who="inferdash") == {"a new admin"}
    assert seen(who="grace", kind="starts") == {"gone-1"}

    page = as_(ada).get("/activity/").content.decode()
    assert page.index(">Today<") < page.index("glm-5") < page.index(">Yesterday<")
    assert page.index(">Yesterday<") < page.index("long-ago")
    assert '<a href="/servers/glm-5/">' in page
    assert "/servers/gone-1/" not in page
    for words in ("started", "changed the settings of the box", "invited", "made key"):
        assert f">{words}</span>" in page


def test_what_people_did_is_told_in_sentences() -> None:
    actions = {
        "stop": "stopped",
        "save prompt set": "saved prompt set",
        "pull image": "began to pull",
        "pull image done": "pulled",
        "kill refused": "could not end",
        "delete cancelled": "no longer wanted to delete",
        "benchmark done": "finished a check-up of",
    }
    assert {each: activity.describe_action(each) for each in actions} == actions
    details: list[tuple[str, dict[str, Any], str]] = [
        ("stop", {"run": 4, "when": "Stopped"}, "run 4"),
        ("stop", {"run": 4, "when": "Drained", "why": "Idle."}, "run 4, after its requests, Idle."),
        ("change role", {"old": "viewer", "new": "editor"}, "before: viewer, now: editor"),
        ("make key", {"may": "models", "expires": None, "private": True}, "scope: models, private"),
        ("change box", {"roots": ["/mnt", "/srv"], "kept": False}, "roots: /mnt, /srv, not kept"),
    ]
    for action, detail, words in details:
        assert activity.describe_detail(action, detail) == words


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_activity_comes_as_csv_that_no_spreadsheet_runs(own_redis: object) -> None:
    ada = await User.objects.acreate(username="ada", role=Role.ADMIN)
    evil = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1+1", 'a "quoted", one', "two\nlines"]
    for subject in evil:
        await AuditEntry.objects.acreate(by=ada, action="start server", subject=subject)
    client = AsyncClient()
    await client.aforce_login(ada)

    response: Any = await client.get("/activity.csv")
    text = b"".join([part async for part in response.streaming_content]).decode()

    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["when", "who", "what", "to what", "more"]
    cells = [row[3] for row in reversed(rows[1:])]
    assert cells == [f"'{each}" for each in evil[:7]] + evil[7:]
    assert response.headers["Content-Disposition"].startswith("attachment")
