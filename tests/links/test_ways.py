"""The hub's way to engines of further boxes, and what is said where there is none."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as live
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from servers.gateway.routes import look
from servers.host.http.wire import Way
from servers.lifecycle.links import decisions, ways
from servers.lifecycle.runs import starts
from servers.models import Box, BoxLink, Run, Server, User
from servers.views.api.schemas import ServerOut
from tests import factories
from tests.links import linked


@pytest.fixture(autouse=True)
def remember_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ways, "REMEMBERED", 0.0)
    ways.forget()
    yield
    ways.forget()


@pytest.fixture
def laurel(hub: User) -> BoxLink:
    return linked.join("laurel", hub)


def serve(box: Box | None, name: str) -> Run:
    assert box is not None
    return factories.run(factories.server(box, name), served_name=name)


def test_a_hub_reaches_engines_of_joined_boxes_by_their_links(
    laurel: BoxLink, hub: User, settings: Any
) -> None:
    here = serve(factories.box(live.BOX), "near")
    far = serve(laurel.box, "far")
    stranger = serve(factories.box("milo"), "strange")

    def find_way(run: Run) -> Way | None:
        found = starts.find_endpoint(Run.objects.get(pk=run.pk))
        assert found is not None
        return found.via

    assert find_way(here) is None
    assert find_way(far) == Way(laurel.port or 0, laurel.reveal_relay_secret())
    assert starts.find_endpoint(stranger) is None
    routes, (absence,) = look()
    assert {each.server: each.endpoint.via is not None for each in routes} == {
        "near": False, "far": True,
    }  # fmt: skip
    says = "strange cannot be asked from here. It runs on milo, which has no link to this hub."
    assert (absence.says, absence.may_start) == (says, False)

    # One inferdash a box, as ever: nothing is known of links.
    settings.WIRE = ""
    assert find_way(far) is None
    routes, absences = look()
    assert [each.server for each in routes] == ["near"]
    assert {each.says.partition(". ")[2] for each in absences} == {
        "It runs on laurel: ask the inferdash of that box.",
        "It runs on milo: ask the inferdash of that box.",
    }


def test_a_box_that_is_away_or_revoked_is_refused_at_once(laurel: BoxLink, hub: User) -> None:
    serve(laurel.box, "far")
    linked.fall_silent(laurel, timedelta(seconds=39))
    assert len(look()[0]) == 1
    linked.fall_silent(laurel, timedelta(seconds=41))
    routes, (absence,) = look()
    assert (routes, absence.may_start) == ([], False)
    assert absence.says == (
        "far cannot be asked from here. It runs on laurel, which is away. Its engines go on; ask "
        "again when it is back."
    )
    assert Run.objects.get().state == "ready", "away is no state of a run"

    linked.fall_silent(laurel, timedelta(0))
    decisions.revoke(laurel, hub)
    routes, (absence,) = look()
    assert routes == []
    assert absence.says.endswith("It runs on laurel, which has no link to this hub.")


def test_lists_ask_for_the_links_once_and_not_for_each_run(
    laurel: BoxLink, hub: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "REMEMBERED", 60.0)
    counts = []
    for number in range(2):
        serve(laurel.box, f"far-{number}")
        ways.forget()
        with CaptureQueriesContext(connection) as queries:
            assert len(look()[0]) == number + 1
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_playground_offers_servers_of_joined_boxes(
    laurel: BoxLink, hub: User, client: Client
) -> None:
    factories.box(live.BOX)
    run = serve(laurel.box, "far")
    client.force_login(hub)
    assert f'data-here="{live.BOX} laurel"' in client.get("/chat/").content.decode()
    # Its address is one as seen from its own box.
    said = ServerOut.from_server(Server.objects.select_related("run").get(pk=run.server_id))
    assert said.base_url == f"http://{run.address}:{run.port}/v1"
