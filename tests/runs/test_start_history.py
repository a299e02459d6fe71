"""The starts of a profile as its page charts them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from servers.judge.logs.phases.reader import Reader
from servers.lifecycle.profiles import attempts
from servers.models import Run, Server
from servers.models.runs.run import RunState
from tests import factories

pytestmark = pytest.mark.django_db


def placed() -> Server:
    return factories.server(factories.box())


def phased(run: Run) -> None:
    """It pulled for 20 s, and loaded and warmed up for a minute each."""
    at = run.created_at
    reader = Reader("sglang").to_json()
    reader["tracks"]["sglang"]["moments"] = [
        [phase, line, (at + timedelta(seconds=seconds)).isoformat()]
        for line, (phase, seconds) in enumerate([("loading", 30), ("warming_up", 90)], 1)
    ]
    Run.objects.filter(pk=run.pk).write(
        start__reader=reader,
        start__pulling_at=at,
        start__creating_at=at + timedelta(seconds=20),
        started_at=at + timedelta(seconds=25),
        ready_at=at + timedelta(seconds=150),
    )


def test_starts_are_told_with_their_parts_the_oldest_first() -> None:
    server = placed()
    first = factories.run(server, RunState.STOPPED)
    phased(first)
    second = factories.run(server, RunState.FAILED, started_at=None, ended_at=timezone.now())
    stopped = factories.run(server, RunState.STOPPED, ready_at=None)

    one, other = attempts.starts(server.profile)
    assert [one.run, other.run] == [first.pk, second.pk]
    assert stopped.pk > second.pk
    assert one.parts == {
        "queued": 0, "pulling": 20, "creating": 5, "starting": 5, "loading": 60, "warming_up": 60,
    }  # fmt: skip
    assert (one.took, one.is_ready, other.is_ready) == (150, True, False)


def test_a_start_without_phases_is_told_as_a_whole() -> None:
    server = placed()
    factories.run(server)

    assert attempts.starts(server.profile)[0].parts == {}


def test_the_page_charts_starts_and_says_the_same_in_a_table(client: Client) -> None:
    server = placed()
    client.force_login(factories.person())
    address = f"/profiles/{server.profile.slug}/"
    assert "Not started yet." in client.get(address).content.decode()

    phased(factories.run(server, RunState.STOPPED))
    # One start is a figure, no chart.
    assert 'class="starts-bar' not in client.get(address).content.decode()
    factories.run(server, RunState.FAILED)
    page = client.get(address).content.decode()
    assert page.count('class="starts-bar') == 2
    assert "<dt>Time to ready</dt><dd>2 min 30 s</dd>" in page
    assert "pulling 20 s, creating 5.0 s, starting the engine 5.0 s, loading weights 1 min" in page
