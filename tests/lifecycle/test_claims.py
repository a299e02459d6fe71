"""Claims of GPUs and servers: who is asked, what leaves them alone, and how they end."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.lifecycle import gateway
from servers.lifecycle.gateway import NotStartedError
from servers.lifecycle.people import claims
from servers.lifecycle.people.claims import ClaimError
from servers.models import AuditEntry, Box, Claim, Role, Run, User
from servers.models.runs.run import DesiredState, ManagedServer, RunState
from tests import factories, samples
from tests.profiles.test_checks import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def box(own_redis: None) -> Box:
    return factories.box(gpus=4)


@pytest.fixture
def ben() -> User:
    return factories.person("ben", Role.OPERATOR)


def claimed(
    box: Box, by: User, *gpus: int, server: ManagedServer | None = None, **values: Any
) -> Claim:
    until = timezone.now() + values.pop("lasts", timedelta(hours=2))
    return claims.claim(box, by=by, until=until, gpus=gpus, server=server, **values)


def page(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_a_start_on_claimed_gpus_asks_and_names_the_claim(box: Box, ben: User) -> None:
    server = factories.server(box, "coder", model="qwen3-8b", gpus="1")
    claim = claimed(box, ben, 0, 1, note="evaluation of GLM")
    ada = browser(Role.OPERATOR)

    said = ada.post("/servers/coder/start/")

    words = " ".join(said.content.decode().split())
    assert said["HX-Retarget"] == "#dialog"
    assert "Start coder despite a claim?" in words
    assert "<strong>ben</strong> has claimed GPUs 0, 1 until" in words
    assert "evaluation of GLM" in words
    assert not Run.objects.exists()
    assert ada.post("/servers/coder/start/", {"claim": claim.pk}).status_code == 204
    assert Run.objects.get().server == server


def test_nobody_is_asked_about_what_is_not_claimed(box: Box, ben: User) -> None:
    on_others = factories.server(box, "coder", model="qwen3-8b", gpus="3")
    own = factories.server(box, "mine", model="qwen3-8b", gpus="1")
    over = factories.server(box, "later", model="qwen3-8b", gpus="2")
    claimed(box, ben, 0, 1)
    ended = claimed(box, ben, 2)
    Claim.objects.filter(pk=ended.pk).update(until=timezone.now())
    bens = factories.log_in(ben)

    for client, server in ((browser(Role.OPERATOR), on_others), (bens, own), (bens, over)):
        assert client.post(f"/servers/{server.slug}/start/").status_code == 204, server


def test_the_claim_stands_where_people_look(box: Box, ben: User) -> None:
    factories.tell(box, samples.sample([samples.card(at, []) for at in range(4)], []))
    server = factories.server(box, "coder", model="qwen3-8b", gpus="1")
    factories.run(server, RunState.READY, gpus="1")
    claimed(box, ben, 0, 1, note="evaluation")
    ada = browser(Role.OPERATOR)

    missing = [
        address
        for address in ("/", "/servers/coder/", f"/boxes/{box.slug}/", "/servers/coder/stop/ask/")
        if "has claimed GPUs 0, 1 until" not in " ".join(page(ada, address).split())
    ]

    assert missing == []
    assert page(ada, f"/boxes/{box.slug}/").count("data-claim=") == 2, "at both GPUs"


def test_no_idleness_and_no_request_touches_what_is_claimed(box: Box, ben: User) -> None:
    hour = timezone.now() - timedelta(hours=1)
    on_request: dict[str, Any] = {"model": "qwen3-8b", "start_on_request": True, "stop_idle": 600}
    idle = factories.server(box, "idle", gpus="0", **on_request)
    other = factories.server(box, "other", gpus="0", **on_request)
    run = factories.run(
        idle, RunState.READY, gpus="0", on_request=True, ready_at=hour, last_request_at=hour
    )
    claim = claimed(box, ben, 0)

    gateway.stop_idle(box)
    with pytest.raises(NotStartedError, match="ben has claimed GPU 0 until"):
        gateway.ask(other, by=factories.person(), passing=())

    run.refresh_from_db()
    assert run.wanted == DesiredState.RUNNING
    assert claims.release(claim, by=ben)
    gateway.stop_idle(box)
    run.refresh_from_db()
    assert run.wanted == DesiredState.DRAINED


def test_cards_that_others_have_claimed_are_chosen_last(box: Box, ben: User) -> None:
    server = factories.server(box, "coder", model="qwen3-8b", gpus="2x RTX PRO 6000")
    claimed(box, ben, 0, 1)

    assert browser(Role.OPERATOR).post("/servers/coder/start/").status_code == 204
    assert Run.objects.get().server == server


def test_what_cannot_be_claimed_is_refused(box: Box, ben: User) -> None:
    ada, now = factories.person("ada"), timezone.now()
    claimed(box, ben, 0, 1)
    hour = now + timedelta(hours=1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"gpus": (1, 2), "until": hour}, "ben has claimed GPUs 0, 1 until"),
        ({"gpus": (7,), "until": hour}, "has no GPU 7. It has: 0, 1, 2, 3"),
        ({"gpus": (), "until": hour}, "at least one GPU"),
        ({"gpus": (2,), "until": now}, "ends in the future"),
        ({"gpus": (2,), "until": now + timedelta(days=15)}, "14 days at most"),
    ]
    for values, says in wrong:
        with pytest.raises(ClaimError, match=says):
            claims.claim(box, by=ada, **values)
    assert Claim.objects.count() == 1


def test_ones_own_claim_is_prolonged_and_ended_by_oneself_or_an_admin(box: Box, ben: User) -> None:
    first = claimed(box, ben, 0)

    again = claimed(box, ben, 0, lasts=timedelta(hours=8))

    assert again.pk == first.pk
    assert again.until > first.until
    operator, admin = browser(Role.OPERATOR), browser(Role.ADMIN)
    refused = operator.post(f"/claims/{first.pk}/end/")
    assert refused.status_code == 409
    assert "ben or an admin ends it" in refused.content.decode()
    assert admin.post(f"/claims/{first.pk}/end/").status_code == 204
    assert not Claim.objects.active().exists()
    assert [each.action for each in AuditEntry.objects.all()] == ["release", "claim", "claim"]


def test_it_ends_by_itself_and_pages_hear_of_it(
    box: Box,
    ben: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr("servers.events.publish_change", lambda *of: told.append(of))
    claim = claimed(box, ben, 0)
    Claim.objects.update(until=timezone.now())

    with django_capture_on_commit_callbacks(execute=True):
        claims.expire(box)
        claims.expire(box)

    assert told == [("box", box.pk), ("servers",)], "once"
    claim.refresh_from_db()
    assert claim.ended_at == claim.until


def test_the_dialog_claims_and_says_what_is_wrong(box: Box, ben: User) -> None:
    factories.server(box, "coder", model="qwen3-8b")
    claimed(box, ben, 0)
    ada = browser(Role.OPERATOR)
    address = f"/boxes/{box.slug}/claims/"

    assert "GPU 3" in page(ada, address)
    wrong = ada.post(address, {"gpus": ["0"], "hours": "4", "note": ""})
    assert "ben has claimed GPU 0" in wrong.content.decode()
    assert wrong["HX-Retarget"] == "#dialog"
    assert "This field is required" in ada.post(address, {"hours": "4"}).content.decode()
    assert ada.post(address, {"gpus": ["2", "3"], "hours": "4", "note": "x"}).status_code == 204
    assert ada.post("/servers/coder/claims/", {"hours": "1"}).status_code == 204

    assert sorted(map(str, Claim.objects.all())) == [
        "GPU 0 on rtx8", "GPUs 2, 3 on rtx8", "coder on rtx8",
    ]  # fmt: skip
