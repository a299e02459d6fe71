"""What the page of a server that took over from a container says of that container."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from servers.lifecycle import external
from servers.models import Server
from servers.models.runs.run import RunState
from tests import factories
from tests.external.monitoring.rows import found

AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("started", "runs_again"), [(-3600, False), (60, True)], ids=["the ended life", "a new life"]
)
def test_only_a_life_since_then_runs_again(
    client: Client, started: float, runs_again: bool
) -> None:
    """The box's last look may still know the life that was ended for this server."""
    server = factories.server(factories.box())
    factories.run(server, RunState.FAILED)
    old = found(started_at=AT.timestamp() + started)
    external.renew_rows(server.box, [old])
    Server.objects.filter(pk=server.pk).update(
        took_over={"name": "old", "container": old.container, "command": "docker start old",
                   "at": AT.isoformat(timespec="seconds")}
    )  # fmt: skip
    client.force_login(factories.person())

    page = client.get(f"/servers/{server.slug}/").content.decode()

    assert ("That container runs again." in page) is runs_again
    assert ("This one has failed; the old one starts again by:" in page) is not runs_again
