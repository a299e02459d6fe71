"""What the playground shows beside a conversation."""

from typing import Any

import pytest

from servers.contexts import gateway
from servers.models import Role, Server, User
from servers.models.runs.run import RunState
from tests import factories
from tests.samples import GIB, card, process, sample

CONTAINER = "a" * 64


@pytest.fixture
def server(db: None, own_redis: object) -> Server:
    return factories.server(factories.box())


def shown(**values: Any) -> str:
    person = User.objects.create(username="grace", role=Role.OPERATOR)
    return " ".join(gateway.render_sidebar(person).split())


def test_a_ready_server_stands_with_its_gpus_and_work(server: Server) -> None:
    factories.run(server, container_id=CONTAINER, requests_running=3, tokens_per_second=41.0)
    gpus = [card(0, [(1, 41.0)]), card(1, [(2, 40.0)]), card(2, [(3, 12.0)])]
    own = [process(1, CONTAINER), process(2, CONTAINER), process(3, name="Xorg")]
    factories.tell(server.box, sample(gpus, own))

    (found,) = gateway.describe_standings()

    assert [each.index for each in found.cards] == [0, 1]
    assert found.names == "GPUs 0, 1"
    assert found.held == 81 * GIB
    assert found.total is not None
    assert found.used is not None
    assert found.total > found.used >= found.held
    page = shown()
    assert "<dt>running</dt><dd>3</dd>" in page
    assert "Start qwen3-8b" not in page


def test_where_its_memory_is_not_known_nothing_is_claimed(server: Server) -> None:
    factories.run(server, container_id=CONTAINER)

    (found,) = gateway.describe_standings()

    assert (found.cards, found.held, found.used, found.util) == ((), None, None, None)
    assert "GPU" not in shown()


def test_a_stopped_server_stands_with_its_start(server: Server) -> None:
    factories.run(server, RunState.STOPPED)

    page = shown()

    assert "is stopped" in page
    assert f'hx-post="/servers/{server.slug}/start/"' in page


def test_one_that_starts_stands_with_where_it_is(server: Server) -> None:
    factories.run(server, RunState.STARTING)

    page = shown()

    assert "is starting" in page
    assert "Starting the engine" in page


def test_one_that_is_only_watched_is_not_started(server: Server) -> None:
    Server.objects.update(watches={"name": "llm"})
    factories.run(server, RunState.STOPPED)

    page = shown()

    assert "only monitors" in page
    assert "/start/" not in page


def test_why_it_failed_is_inert(server: Server) -> None:
    factories.run(server, RunState.FAILED, failure="<img src=x hx-get=/x/ hx-trigger=load>")

    page = shown()

    assert "<img" not in page
    assert "has failed" in page
