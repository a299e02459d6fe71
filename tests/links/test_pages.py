from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from servers.contexts import links, pages
from servers.lifecycle.links import decisions
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import (
    AuditEntry,
    Box,
    BoxInvitation,
    BoxLink,
    BoxUpgrade,
    Secret,
    SecretCopy,
    User,
)
from servers.models.links import UpgradeStep
from servers.watcher import box_row
from tests import factories
from tests.links import linked
from tests.people.desk import as_, said


def list_page(person: User) -> str:
    return said(as_(person).get(reverse("settings_boxes")))


def test_adding_to_one_box_says_what_changes_and_gives_one_command(
    hub: User, settings: Any
) -> None:
    settings.WIRE = ""

    page = said(as_(hub).get(reverse("box_add")))

    assert "make up BOXES=1" in page
    for port in ("8471", "8472", "8473"):
        assert port in page
    assert "make up BOXES=1" in said(as_(hub).post(reverse("box_add")))
    settings.IN_CONTAINERS = True
    page = said(as_(hub).get(reverse("box_add")))
    assert "COMPOSE_PROFILES=hub" in page
    assert "make up BOXES=1" not in page
    assert not BoxInvitation.objects.exists()


def test_a_token_is_shown_once_with_its_end_and_can_be_withdrawn(hub: User) -> None:
    client = as_(hub)
    assert "Make a token" in said(client.get(reverse("box_add")))

    page = said(client.post(reverse("box_add")))

    made = BoxInvitation.objects.get()
    assert "make join TOKEN=ifj1_" in page
    assert "JOIN=ifj1_" in page
    assert "in 29 min" in page or "in 30 min" in page
    assert "ifj1_" not in said(client.get(reverse("box_add")))
    client.post(reverse("box_withdraw", args=[made.pk]))
    assert not BoxInvitation.objects.select_open()


def test_a_box_that_asks_appears_by_itself_and_is_let_in(hub: User) -> None:
    link = linked.ask("laurel")
    client = as_(hub)

    live = pages.render({("links", None)}, hub, page="box_add")
    assert link.words in live
    assert "10.0.0.17" in live
    assert pages.render({("links", None)}, hub, page="dashboard").count(link.words) == 0
    assert link.words in said(client.get(reverse("box_let_in", args=[link.pk])))

    client.post(reverse("box_let_in", args=[link.pk]), {"name": "laurel"})

    link.refresh_from_db()
    assert link.is_joined
    assert "laurel" in pages.render({("links", None)}, hub, page="boxes")
    assert link.words not in list_page(hub)


def test_a_name_that_is_taken_is_asked_for_another(hub: User) -> None:
    linked.join("laurel", hub)
    second = linked.ask("laurel")
    client = as_(hub)

    assert "Another box is called laurel" in list_page(hub)
    at = reverse("box_let_in", args=[second.pk])
    assert "Another box is called laurel" in said(client.post(at, {"name": "laurel"}))
    client.post(at, {"name": "laurel-2"})

    assert {each.slug for each in Box.objects.all()} == {"laurel", "laurel-2"}


def test_a_box_is_refused_from_the_page(hub: User) -> None:
    link = linked.ask("laurel")

    answer = as_(hub).post(reverse("box_refuse", args=[link.pk]))

    assert "laurel is refused" in answer.content.decode()
    assert link.words not in list_page(hub)


def test_the_list_tells_each_boxs_state_version_and_clock(hub: User, settings: Any) -> None:
    settings.BOX, settings.VERSION = "rtx8", "1.3.0"
    factories.box("rtx8", gpus=2)
    linked.fall_silent(linked.join("laurel", hub, clock_offset=-3.4), timedelta(minutes=9))
    linked.join("orchid", hub, version="1.3.0")
    decisions.revoke(linked.join("poplar", hub), hub)

    page = list_page(hub)

    for words in ("here", "2 × NVIDIA RTX", "away since", "joined", "revoked since"):
        assert words in page, words
    assert "3.4 s slow" in page
    assert page.count("set it right") == 1
    assert "needs 1.3.0" in page
    assert page.count("Revoke…") == 2


def test_revoking_names_the_secrets_to_change_until_they_are(hub: User) -> None:
    link = linked.join("laurel", hub)
    seen, other = (Secret.seal(name, "value", hub) for name in ("HF_TOKEN", "OTHER"))
    assert link.box is not None
    SecretCopy.objects.create(box=link.box, secret=seen, sealed=b"sealed")
    server = factories.server(link.box)
    factories.run(server)
    client = as_(hub)
    at = reverse("box_revoke", args=[link.pk])

    question = said(client.get(at))
    assert "cut within 5 s" in question
    assert "It has seen HF_TOKEN" in question
    assert server.slug in question
    assert other.name not in question
    client.post(at)
    assert "Change HF_TOKEN" in list_page(hub)
    seen.replace("another", hub)

    assert "Change HF_TOKEN" not in list_page(hub)
    kept = AuditEntry.objects.get(action="revoke box")
    assert kept.detail == {"secrets": ["HF_TOKEN"]}


def test_a_revoked_box_is_removed_with_what_was_known_of_it(hub: User) -> None:
    link = linked.join("laurel", hub)
    assert link.box is not None
    factories.run(factories.server(link.box))
    at = reverse("box_remove", args=[link.pk])
    client = as_(hub)

    assert "Revoke it first" in said(client.post(at, follow=True))
    decisions.revoke(link, hub)
    assert "1 server, 1 run" in said(client.get(at))
    client.post(at)

    assert not Box.objects.exists()
    assert not BoxLink.objects.exists()


def test_eight_boxes_cost_as_many_queries_as_one(
    hub: User, django_assert_max_num_queries: Any
) -> None:

    for number in range(8):
        linked.join(f"laurel-{number}", hub)
    with django_assert_max_num_queries(5):
        assert len(links.list_linked()) == 8


def test_two_machines_with_one_key_are_named_and_held(hub: User) -> None:
    box = factories.box("laurel", gpus=1)
    server = factories.server(box)

    assert box_row.find_twins(box) == [], "nothing is known of who wrote before"
    box.facts |= {"watcher": box_row._ME}
    box.save()
    assert box_row.find_twins(box) == []
    Box.objects.filter(pk=box.pk).update(facts=box.facts | {"watcher": {"id": "1", "host": "zz"}})
    twins = box_row.find_twins(box)
    assert twins == sorted([box_row._ME["host"], "zz"])
    [problem] = box_row.describe_twins(box, twins)
    assert problem["what"].startswith("Two machines run as laurel: ")

    Box.objects.filter(pk=box.pk).update(facts=box.facts | {"twins": ["aa", "zz"]})
    assert "Two machines run as laurel: aa and zz." in list_page(hub)
    server.box.refresh_from_db()
    [refusal] = preflight.list_refusals(LaunchContext.of_server(server))
    assert "aa and zz" in refusal


def test_twins_are_both_cut_off_until_an_admin_lets_one_in(hub: User) -> None:
    link, other = linked.join("laurel", hub), linked.join("orchid", hub)
    watcher = {"id": "1", "host": "aa"}
    Box.objects.filter(slug="orchid").update(facts={"twins": [], "watcher": watcher})
    facts = {"twins": ["aa", "zz"], "watcher": watcher, "driver": "570"}
    Box.objects.filter(slug="laurel").update(facts=facts)

    for _look in range(2):
        decisions.hold_twins()

    assert list(BoxLink.objects.select_let_in()) == [other]
    [entry] = AuditEntry.objects.filter(action="hold box")
    assert entry.detail == {"hosts": ["aa", "zz"]}
    page = list_page(hub)
    assert "held since" in page
    assert "Let in again" in page

    as_(hub).post(reverse("box_release", args=[link.pk]))

    decisions.hold_twins()
    assert set(BoxLink.objects.select_let_in()) == {link, other}
    assert Box.objects.get(slug="laurel").facts == {"driver": "570"}
    assert "held since" not in list_page(hub)


def test_a_box_that_lacks_the_hubs_version_is_brought_up_one_at_a_time(
    hub: User, settings: Any
) -> None:
    settings.VERSION = "1.3.0"
    link, other = (linked.join(name, hub, told_at=timezone.now()) for name in ("laurel", "orchid"))
    # Its watcher waits for the hub's version, while its link is well.
    linked.fall_silent(link, timedelta(hours=1))
    client = as_(hub)
    page = list_page(hub)
    assert page.count("Bring it up…") == 2
    assert "away since" not in page
    at = reverse("box_bring_up", args=[link.pk])
    assert "It has 1.2.3" in said(client.get(at))

    client.post(at)

    assert "waits for the box" in list_page(hub)
    refused = said(client.post(reverse("box_bring_up", args=[other.pk]), follow=True))
    assert "laurel is being brought up now. One box at a time." in refused
    made = BoxUpgrade.objects.get()
    BoxUpgrade.objects.filter(pk=made.pk).update(step=UpgradeStep.FETCHING, percent=40)
    assert "fetching 40 %" in pages.render({("links", None)}, hub, page="boxes")
    BoxUpgrade.objects.filter(pk=made.pk).update(step=UpgradeStep.SWITCHING)
    assert "restarts right now" in said(client.post(reverse("box_stay", args=[made.pk])))
    BoxUpgrade.objects.filter(pk=made.pk).update(
        step=UpgradeStep.FAILED, is_open=None, said="It ended by itself."
    )
    page = list_page(hub)
    assert "laurel was not brought up." in page
    assert "It ended by itself." in page

    client.post(at)
    client.post(reverse("box_stay", args=[BoxUpgrade.objects.get(is_open=True).pk]))
    assert not BoxUpgrade.objects.filter(is_open=True)
    assert "waits for the box" not in list_page(hub)
