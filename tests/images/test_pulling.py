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
from servers.lifecycle.images import work
from servers.lifecycle.jobs import actions
from servers.lifecycle.runs import creation
from servers.models import Box, Job, Role, Server, User
from tests import factories, jobs
from tests.registry import Registry, registry
from tests.runs.test_failed_runs import failing
from tests.waiting import wait_until

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


def pulled(server: Server) -> Job:
    path = f"/boxes/rtx8/actions/pull/server-{server.pk}/"
    assert operator().post(path).status_code == 204
    jobs.obey(server.box)
    return Job.objects.latest("pk")


def operator() -> Client:
    client = Client()
    olga = User.objects.filter(username="olga").first()
    client.force_login(olga or factories.person("olga", Role.OPERATOR))
    return client


def test_what_the_tag_means_today_is_pulled_and_told(
    box: Box, server: Server, shelf: Registry, docker: DockerContainers
) -> None:
    done = pulled(server)
    assert done.state == "done"
    assert done.said.startswith(f"{shelf.image} is there now, as ")
    assert done.said in operator().get("/boxes/rtx8/").content.decode()
    before = docker.image(shelf.image)

    done = pulled(server)
    assert "is the newest already" in done.said

    with registry(docker.facts().architecture) as newer:
        shelf.blobs, shelf.manifest = newer.blobs, newer.manifest
    done = pulled(server)
    after = docker.image(shelf.image)
    assert before is not None
    assert after is not None
    assert f"{after.id[7:19]} instead of {before.id[7:19]}" in done.said


def test_a_registry_that_has_it_no_longer_is_told(
    box: Box, server: Server, shelf: Registry
) -> None:
    shelf.manifest = b""

    done = pulled(server)

    assert done.state == "failed"
    assert "pull" in done.said
    assert "not done" in operator().get("/boxes/rtx8/").content.decode()


def test_another_action_does_not_wait_for_it(box: Box, server: Server, shelf: Registry) -> None:
    shelf.hold = True
    pull = work.ask_to_pull(box, shelf.image, by=factories.person(), server=server.slug)
    assert pull is not None
    runner = jobs.runner(box)
    runner.step()
    assert actions.ask_to_reclaim(box, 7, by=factories.person())
    runner.step()
    reclaim = Job.objects.get(kind="reclaim")

    def is_over() -> bool:
        reclaim.refresh_from_db()
        return reclaim.is_over

    wait_until(is_over, "it is done beside the pull")
    pull.refresh_from_db()
    assert (pull.state, reclaim.state) == ("doing", "refused")
    shelf.go_on.set()
    runner.wait()
    assert Job.objects.order_by("pk")[0].state == "done"


def test_the_page_of_a_failed_run_offers_it(box: Box, shelf: Registry) -> None:
    server = factories.server(box, "gemma-tiny", image=shelf.image)
    run = failing(server, "")
    assert failure_catalog.by_id()["llama-unknown-arch"].remedies[0].box == "pull"
    said = {"cause": "llama-unknown-arch", "summary": "x", "groups": {"arch": "qwen9"}}
    type(run).objects.filter(pk=run.pk).write(log__diagnosis=said)
    client = operator()

    page = client.get("/servers/gemma-tiny/").content.decode()
    ask = f"/boxes/rtx8/actions/pull/server-{server.pk}/"
    assert f'hx-get="{ask}ask/"' in page
    assert shelf.image in client.get(f"{ask}ask/").content.decode()
    assert client.post(ask).status_code == 204
    assert Job.objects.get().what == shelf.image
    assert shelf.image in client.get("/boxes/rtx8/").content.decode(), "its page tells of it"

    for wrong in ("server-999", "image-1", shelf.image.replace("/", "-").replace(":", "-")):
        path = f"/boxes/rtx8/actions/pull/{wrong}/"
        assert client.post(path).status_code == 404
