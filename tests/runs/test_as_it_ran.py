"""Start as it ran on Tuesday: the same version, image and commit of the model."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from docker import APIClient
from docker.errors import ImageNotFound

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.ownership import require_managed
from servers.models import AuditEntry, Box, Role, Run
from servers.models.runs.ownership import ManagedRun
from servers.models.runs.run import RunState
from tests import factories, jobs
from tests.base_images import ENGINE
from tests.registry import Registry, pull, registry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

WRONG = {
    "engine": "vllm",
    "image": "vllm/vllm-openai:v0.20.2",
    "flags": ("--max-modle-len", "4096"),
}
GONE = "sha256:" + "ab" * 32


def tuesday(box: Box, launch: dict[str, Any] | None = None, **values: Any) -> ManagedRun:
    """A run of the first version; its profile says something else by now."""
    server = factories.server(box, **{"image": ENGINE, "gpus": "none", **(launch or {})})
    run = factories.run(server, RunState.STOPPED, **values)
    said = server.launch.to_json() | {"flags": ["--enforce-eager"], "privileged": False}
    server.profile.save_version(type(server.launch).from_json(said), by=None, message="Eager")
    return run


def browser(role: Role) -> Client:
    return factories.log_in(factories.person(f"a-{role.label}", role))


def click(role: Role, run: ManagedRun, **data: str) -> Any:
    return browser(role).post(f"/servers/{run.server.slug}/runs/{run.pk}/start/", data)


@pytest.mark.takes(30)
def test_version_image_and_commit_are_those_of_the_run(box: Box) -> None:
    run = tuesday(box, checkpoint_revision="c0ffee" * 6)

    assert click(Role.OPERATOR, run).status_code == 204

    again = factories.latest_run(run.server)
    assert again.version == run.version
    assert again.plan.pinned_image == run.image_id
    assert again.launch.revision == "c0ffee" * 6
    assert again.version.launch.revision == ""
    entry = AuditEntry.objects.get(action="start as it ran")
    assert (str(entry.by), entry.detail["like"]) == ("a-operator", run.pk)
    page = browser(Role.VIEWER).get(f"/servers/{run.server.slug}/?run={again.pk}").content.decode()
    assert f"?run={run.pk}" in page.split("<dt>As it ran</dt>")[1].split("</dd>")[0]


def test_it_is_offered_beside_each_run_that_had_an_image(box: Box) -> None:
    run = tuesday(box)
    never = factories.run(run.server, RunState.FAILED, image_id="")
    operator, viewer = browser(Role.OPERATOR), browser(Role.VIEWER)
    slug = run.server.slug
    pages = (f"/profiles/{slug}/", f"/profiles/{slug}/versions/1/", f"/servers/{slug}/runs/")

    for page in pages:
        text = operator.get(page).content.decode()
        assert f"/servers/{slug}/runs/{run.pk}/start/" in text, page
        assert f"/servers/{slug}/runs/{never.pk}/start/" not in text
        assert "runs-title" in text
        assert "Start with these settings" not in viewer.get(page).content.decode()
    assert click(Role.OPERATOR, never).status_code == 404


def test_a_running_server_has_to_be_stopped_first(box: Box) -> None:
    run = tuesday(box)
    factories.run(run.server, RunState.READY)

    answer = click(Role.OPERATOR, run)

    assert answer.status_code == 409
    assert b"is running. Stop it first" in answer.content


def test_what_an_admin_took_out_of_a_profile_does_not_come_back_by_an_operator(box: Box) -> None:
    box.facts = box.facts | {"limits": box.facts["limits"] | {"privileged": True}}
    box.save()
    run = tuesday(box, {"privileged": True})

    refused = click(Role.EDITOR, run)

    assert refused.status_code == 403
    assert b"settings that only an admin may give a container" in refused.content
    assert factories.latest_run(run.server) == run
    assert click(Role.ADMIN, run).status_code == 204


def test_the_old_version_is_checked_and_not_the_newest(box: Box) -> None:
    run = tuesday(box, WRONG)
    Run.objects.filter(pk=run.pk).update(ready_at=None)

    asked = click(Role.EDITOR, run)

    assert asked["HX-Retarget"] == "#dialog"
    assert f"/runs/{run.pk}/start/" in asked.content.decode()
    assert click(Role.EDITOR, run, despite="It worked.").status_code == 204
    assert factories.latest_run(run.server).plan.overridden_errors == "It worked."


def test_a_version_that_became_ready_needs_no_reason(box: Box) -> None:
    assert click(Role.OPERATOR, tuesday(box, WRONG)).status_code == 204


@pytest.fixture
def worker(
    docker: DockerContainers, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text("")
    monkeypatch.setattr(creation, "docker", lambda: docker)


def repeated(run: ManagedRun) -> ManagedRun:
    again = lifecycle.start(require_managed(run.server), by=None, like=run)
    assert again is not None
    lifecycle.advance(again)
    again.refresh_from_db()
    return again


@pytest.mark.docker
def test_the_container_is_of_the_image_that_it_ran_whatever_the_tag_means(
    box: Box, docker: DockerContainers, worker: None
) -> None:
    image = docker.image(ENGINE)
    assert image is not None
    run = tuesday(box, {"flags": ("--seed", "3")}, image_id=image.id, image_digest="")
    Run.objects.filter(pk=run.pk).update(container_id="")
    said = run.version.spec | {"image": "registry.example/not/there:1"}
    type(run.version).objects.filter(pk=run.version.pk).update(spec=said)
    run = Run.objects.filter_managed().get(pk=run.pk)

    again = repeated(run)

    assert again.state == RunState.STARTING, again.failure
    assert again.image_id == image.id
    assert "--seed" in again.start.command


@pytest.mark.docker
def test_an_image_that_is_gone_and_in_no_registry_is_told(box: Box, worker: None) -> None:
    run = tuesday(box, image_id=GONE, image_digest="")
    Run.objects.filter(pk=run.pk).update(container_id="")

    again = repeated(run)

    assert again.state == RunState.FAILED
    assert again.failure.startswith("The image that it ran, sha256:abababababab, is no longer on")


@pytest.fixture
def shelf(docker: DockerContainers) -> Iterator[Registry]:
    with registry(docker.facts().architecture) as made:
        yield made


@pytest.mark.docker
def test_an_image_that_is_gone_is_pulled_by_the_digest_that_it_had(
    box: Box, docker: DockerContainers, worker: None, shelf: Registry
) -> None:
    pull(docker, shelf.image)
    image = docker.image(shelf.image)
    assert image is not None
    run = tuesday(box, image_id=image.id, image_digest=image.digests[0])
    Run.objects.filter(pk=run.pk).update(container_id="")
    with closing(APIClient(docker.host, version="auto")) as client:
        client.remove_image(image.id, force=True)
        assert docker.image(image.id) is None

        again = repeated(run)
        assert again.state == RunState.PULLING
        jobs.obey(box)
        lifecycle.advance(again)

        again.refresh_from_db()
        assert docker.image(image.id) is not None
        assert again.state in (RunState.STARTING, RunState.FAILED)
        assert "no longer" not in again.failure
        with suppress(ImageNotFound):
            creation.remove_container(again)
            client.remove_image(image.id, force=True)
