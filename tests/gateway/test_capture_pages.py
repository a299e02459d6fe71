"""Capture's pages: who switches it, what everybody is told, what admins find."""

import json
import re
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.contexts import pages
from servers.models import AuditEntry, Capture, CapturedCall, Role, User
from servers.models.gateway.request import CALLS_KEPT
from tests import factories
from tests.access_rows import PUBLIC, ROWS, made
from tests.streamed import whole_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

NOT_HERE = "Requests from the playground are not."
SAID = {"minutes": "240", "only": "", "reason": "<b>wrong</b> answers"}


@pytest.fixture
def ada() -> User:
    return factories.person("ada", Role.ADMIN)


@pytest.fixture
def client(ada: User) -> Client:
    return factories.log_in(ada)


def text_of(client: Client, query: str = "") -> str:
    return client.get(f"/gateway/capture/{query}").content.decode()


def test_an_admin_switches_it_on_for_a_time_and_ends_it(client: Client, ada: User) -> None:
    factories.server(factories.box(settings.BOX), "glm-5")
    assert '<option value="glm-5">' in text_of(client)
    for wrong in ({"minutes": "5"}, {"minutes": "2000"}, {"reason": " "}, {"only": "nobody"}):
        client.post("/gateway/capture/", {**SAID, **wrong})
        assert not Capture.objects.exists(), wrong

    before = timezone.now()
    client.post("/gateway/capture/", {**SAID, "only": "glm-5"})
    found = Capture.objects.get()
    assert (found.by, found.only, found.is_on) == (ada, "glm-5", True)
    assert abs(found.until - before - timedelta(hours=4)) < timedelta(minutes=1)
    noted = AuditEntry.objects.get(action="switch capture on")
    assert (noted.subject, noted.detail["reason"]) == ("glm-5", SAID["reason"])

    said = client.post("/gateway/capture/", SAID, follow=True).content.decode()
    assert "ada has capture on already" in said
    assert Capture.objects.count() == 1

    client.post(f"/gateway/capture/{found.pk}/end/")
    found.refresh_from_db()
    assert (found.is_on, found.ended_by) == (False, ada)
    assert AuditEntry.objects.filter(action="end capture").exists()
    assert "ended by ada" in text_of(client)
    assert "over already" in client.post(
        f"/gateway/capture/{found.pk}/end/", follow=True
    ).content.decode()  # fmt: skip


def test_every_page_tells_everybody_while_it_is_on() -> None:
    things = made()
    until = timezone.now() + timedelta(hours=1)
    factories.capture(User.objects.get(), reason="<b>wrong</b> answers", only="glm-5", until=until)
    client = factories.log_in(factories.person("otto", Role.ADMIN))
    pages = 0
    for row in (row for row in ROWS if row.method == "get" and row.needs is not PUBLIC):
        arguments = [things[key] for key in row.args]
        answer = client.get(reverse(row.name, args=arguments), row.data)
        if answer.streaming or b'<main id="main"' not in answer.content:
            continue
        pages += 1
        said = answer.content.decode()
        assert "prompts of programs to <span hx-ignore>glm-5</span> and their answers" in said, row
        assert (NOT_HERE in said) == reverse(row.name, args=arguments).startswith("/chat/"), row
        assert "ada: &lt;b&gt;wrong&lt;/b&gt; answers" in said, row
    assert pages > 40
    assert "being kept" not in Client().get("/login/").content.decode()


def test_open_pages_are_told_and_it_ends_by_the_clock(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    vera = factories.person("vera", Role.VIEWER)
    switched = factories.capture(ada)
    for page in ("dashboard", "chat", "gateway", "found", "models", "server"):
        for kind in ("capture", "boxes", "everything"):
            said = pages.render({(kind, None)}, vera, page=page)
            assert "wrong answers" in said
            assert (NOT_HERE in said) == (page == "chat")
    said = pages.render({("capture", None)}, vera)
    assert "/gateway/capture/" not in said
    assert "/gateway/capture/" in pages.render({("capture", None)}, ada)

    monkeypatch.setattr(timezone, "now", lambda: switched.until)
    said = pages.render({("boxes", None)}, vera, page="alerts")
    assert "wrong answers" not in said
    assert 'id="capture" class="capture" role="status" hidden' in said


def mark(person: User, *, page: str = "capture") -> str:
    said = pages.render({("boxes", None)}, person, page=page)
    found = re.search(r'data-captures="([^"]*)"', said)
    return found[1] if found else "none"


def test_its_own_page_is_told_when_anything_on_it_has_changed(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a mark: what stands on the page only admins may read, and a form is typed in."""
    marks = [mark(ada)]
    said = text_of(client)
    assert "/ws/live/?page=capture" in said
    assert f'data-captures="{marks[0]}"' in said
    assert mark(factories.person("vera", Role.VIEWER)) == "none"
    assert mark(ada, page="gateway") == "none"

    switched = factories.capture(ada)
    marks.append(mark(ada))
    Capture.objects.add(switched, 1, 2048)
    marks.append(mark(ada))
    factories.exchange(ada, switched)
    marks.append(mark(ada))
    assert mark(ada) == marks[-1]
    assert '<h2 id="switch-title">Capture is on</h2>' in text_of(client)
    with monkeypatch.context() as clock:
        clock.setattr(timezone, "now", lambda: switched.until)
        marks.append(mark(ada))
        assert '<h2 id="switch-title">Switch capture on</h2>' in text_of(client)
    assert len(set(marks)) == len(marks)
    CapturedCall.objects.all().delete()
    assert mark(ada) != marks[-2]


def test_what_is_kept_is_found_read_downloaded_and_deleted(client: Client, ada: User) -> None:
    assert "No requests are kept." in text_of(client)
    moon = factories.exchange(ada)
    factories.exchange(
        ada, moon.capture, asked="<script>x</script>", answered="", asked_left_out=5 << 20
    )

    said = text_of(client)
    assert "How far is the moon?" in said
    assert "&lt;script&gt;" in said
    assert "<script>x" not in said
    assert "How far" not in text_of(client, "?q=nothing")
    assert "&lt;script" not in text_of(client, "?q=384,000+coder")
    one = client.get(f"/gateway/captured/{moon.pk}/").content.decode()
    assert "Some 384,000 km." in one
    assert "wrong answers (ada)" in one
    other = CapturedCall.objects.exclude(pk=moon.pk).get()
    assert (
        "5.0 MiB more are not kept" in client.get(f"/gateway/captured/{other.pk}/").content.decode()
    )

    answer = client.get("/gateway/captured.jsonl?q=moon")
    assert answer.headers["Content-Disposition"].endswith('.jsonl"')
    (line,) = map(json.loads, async_to_sync(whole_of)(answer).splitlines())
    assert (line["person"], line["server"]) == ("ada", "coder-1")
    assert line["answered"] == "Some 384,000 km."
    assert AuditEntry.objects.get(action="download captured").subject == "moon"

    client.post("/gateway/captured/delete/")
    assert not CapturedCall.objects.exists()
    assert AuditEntry.objects.get(action="delete captured").subject == "2 requests"


def test_after_a_week_it_is_not_shown_and_then_gone(client: Client, ada: User) -> None:
    young = factories.exchange(ada, at=timezone.now() - CALLS_KEPT + timedelta(hours=1))
    old = factories.exchange(ada, young.capture, at=timezone.now() - CALLS_KEPT)
    assert client.get(f"/gateway/captured/{young.pk}/").status_code == 200
    assert client.get(f"/gateway/captured/{old.pk}/").status_code == 404

    CapturedCall.objects.forget_old()
    assert list(CapturedCall.objects.all()) == [young]


@pytest.mark.parametrize(
    ("asked", "gist"),
    [
        ('{"messages": [{"content": "a"}, {"content": [{"type": "image_url"}, {"text": "b"}]}]}', "b"),
        ('{"messages": [{"content": "question"}, {"content": null}]}', "question"),
        ('{"prompt": "Once  upon"}', "Once upon"),
        ('{"input": ["one", "two"]}', "two"),
        ('{"input": [[1, 2]]}', '{"input": [[1, 2]]}'),
        ('{"messages": [{"content": "cut', '{"messages": [{"content": "cut'),
        ("[" * 3000, "[" * 10),
        ('{"prompt": "' + "月" * 200 + '"}', "月" * 100),
        ("[]", "[]"),
        ("", "no text"),
    ],
)  # fmt: skip
def test_a_list_says_what_was_asked_last(asked: str, gist: str) -> None:
    assert CapturedCall(asked=asked).gist.startswith(gist)
