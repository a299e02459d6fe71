"""The image of a profile, pulled again because its tag may mean a newer one."""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from django.test import Client
from docker import APIClient
from docker.errors import ImageNotFound

from servers.host.docker.containers import DockerContainers
from servers.judge.logs import failure_catalog
from servers.lifecycle.jobs import actions
from servers.lifecycle.runs import creation
from servers.models import Action, Box, Role, Server
from tests import factories
from tests.registry import Registry, registry
from tests.test_failed_runs import failing

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


@pytest.fixture(autouse=True)
def _worker(docker: DockerContainers, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.INSTALL = docker.install
    monkeypatch.setattr(creation, "docker", lambda: docker)


@pytest.fixture
def shelf(docker: DockerContainers) -> Iterator[Registry]:
    with registry(docker.facts().architecture) as made:
        yield made
        with closing(APIClient(docker.host, version="auto")) as client, suppress(ImageNotFound):
            client.remove_image(made.image)


@pytest.fixture
def box() -> Box:
    return factories.box("rtx8")


@pytest.fixture
def server(box: Box, shelf: Registry) -> Server:
    return factories.server(box, image=shelf.image)


def pulled(box: Box, reference: str) -> Action:
    assert actions.ask_to_pull(box, reference, by=factories.person())
    actions.obey(box, None, lambda event: None)
    actions.wait_for_threads()
    return Action.objects.latest("pk")


def test_what_the_tag_means_today_is_pulled_and_told(
    box: Box, server: Server, shelf: Registry, docker: DockerContainers
) -> None:
    done = pulled(box, shelf.image)
    assert (done.state, done.said) == (
        "done", f"{shelf.image} is there now. The next start takes it.",
    )  # fmt: skip
    before = docker.image(shelf.image)

    done = pulled(box, shelf.image)
    assert "is the newest already" in done.said

    with registry(docker.facts().architecture) as newer:
        shelf.blobs, shelf.manifest = newer.blobs, newer.manifest
    done = pulled(box, shelf.image)
    after = docker.image(shelf.image)
    assert before is not None
    assert after is not None
    assert f"({after.id[:19]} instead of {before.id[:19]})" in done.said


def test_an_image_that_no_server_runs_is_not_pulled(
    box: Box, shelf: Registry, docker: DockerContainers
) -> None:
    done = pulled(box, shelf.image)

    assert (done.state, done.said) == ("refused", f"No server of rtx8 runs {shelf.image}.")
    assert docker.image(shelf.image) is None


def test_a_registry_that_has_it_no_longer_is_told(
    box: Box, server: Server, shelf: Registry
) -> None:
    shelf.manifest = b""

    done = pulled(box, shelf.image)

    assert done.state == "refused"
    assert "pull" in done.said


def test_another_action_does_not_wait_for_it(box: Box, server: Server, shelf: Registry) -> None:
    shelf.hold = True
    assert actions.ask_to_pull(box, shelf.image, by=factories.person())
    assert actions.obey(box, None, lambda event: None)
    assert actions.ask_to_reclaim(box, 7, by=factories.person())

    assert actions.obey(box, None, lambda event: None)

    pull, reclaim = Action.objects.order_by("pk")
    assert (pull.state, reclaim.state) == ("doing", "refused")
    shelf.go_on.set()
    actions.wait_for_threads()
    assert Action.objects.order_by("pk")[0].state == "done"


def test_the_page_of_a_failed_run_offers_it(box: Box, shelf: Registry) -> None:
    server = factories.server(box, "gemma-tiny", image=shelf.image)
    run = failing(server, "")
    assert failure_catalog.by_id()["llama-unknown-arch"].remedies[0].box == "pull"
    said = {"cause": "llama-unknown-arch", "summary": "x", "groups": {"arch": "qwen9"}}
    type(run).objects.filter(pk=run.pk).write(log__diagnosis=said)
    client = Client()
    client.force_login(factories.person("olga", Role.OPERATOR))

    page = client.get("/servers/gemma-tiny/").content.decode()
    ask = f"/boxes/rtx8/actions/pull/server-{server.pk}/"
    assert f'hx-get="{ask}ask/"' in page
    assert shelf.image in client.get(f"{ask}ask/").content.decode()
    assert client.post(ask).status_code == 204
    assert Action.objects.get().details == {"image": shelf.image}

    for wrong in ("server-999", "image-1", shelf.image.replace("/", "-").replace(":", "-")):
        path = f"/boxes/rtx8/actions/pull/{wrong}/"
        assert client.post(path).status_code == 404
