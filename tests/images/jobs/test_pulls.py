"""Pulls: told, cancelled, begun again, held, and let in by log-ins that are kept."""

import pytest

from servers.host.docker.client import RegistryAuth
from servers.host.docker.containers import DockerContainers
from servers.host.images import registry as remote
from servers.host.images.registry import RegistryError
from servers.judge.images import names as judge
from servers.lifecycle.images import inventory, work
from servers.lifecycle.jobs import commands
from servers.models import (
    AuditEntry,
    Box,
    ImageJob,
)
from servers.watcher.images import ImageInventories
from tests import factories, jobs, shelves
from tests.images.jobs.steps import done
from tests.registry import Registry, pull, registry
from tests.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


def test_a_pull_is_told_by_layer_and_in_all(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    ada = factories.person()
    job = done(work.ask_to_pull(box, store.image, by=ada))

    sizes = [len(blob) for blob in store.blobs.values() if blob[:2] == b"\x1f\x8b"]
    assert (job.state, job.said[:40]) == ("done", f"{store.image} is there now"[:40])
    assert (job.done, job.total, job.is_whole) == (sum(sizes), sum(sizes), True)
    assert [each["state"] for each in job.layers] == ["done"] * 3
    assert sorted(each["total"] for each in job.layers) == sorted(sizes)
    assert job.free
    image = docker.image(store.image)
    assert image is not None
    assert job.image_id == image.id
    assert list(AuditEntry.objects.values_list("action", flat=True)) == [
        "pull image done", "pull image",
    ]  # fmt: skip

    again = done(work.ask_to_pull(box, store.image, by=ada))
    assert "is the newest already" in again.said


def begun(job: ImageJob) -> bool:
    job.refresh_from_db()
    return any(each["state"] == "downloading" for each in job.layers)


def test_a_pull_is_cancelled_and_begun_again(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    ada = factories.person()
    store.hold = True
    job = work.ask_to_pull(box, store.image, by=ada)
    assert job is not None
    assert work.ask_to_pull(box, store.image, by=ada) is None  # one at a time
    runner = jobs.runner(box)
    runner.step()
    wait_until(lambda: begun(job), "the pull has begun")
    store.left.clear()

    assert commands.cancel(job, by=ada)
    assert not commands.cancel(job, by=ada)
    runner.step()
    runner.wait()
    job.refresh_from_db()
    assert job.state == "cancelled"
    # The store of the tests' Docker is its own.
    assert "pulling again begins anew" in job.said
    assert store.left.wait(PATIENCE)
    assert docker.image(store.image) is None

    store.go_on.set()
    again = done(commands.ask_again(job, by=ada))
    assert again.state == "done"
    assert not ImageJob.objects.for_page().filter(pk=job.pk).exists()


def test_what_a_dead_watcher_left_is_said_and_can_be_begun_again(box: Box, store: Registry) -> None:
    cut = shelves.image_job(box, reference=store.image, state="doing", ended_at=None)

    jobs.obey(box)
    cut.refresh_from_db()
    assert cut.state == "failed"
    assert "was ended in the middle of it" in cut.said
    assert done(commands.ask_again(cut, by=factories.person())).state == "done"


def test_what_cannot_be_pulled_says_why(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    ada = factories.person()

    def said(reference: str) -> str:
        job = done(work.ask_to_pull(box, reference, by=ada))
        assert job.state == "failed"
        return job.said

    assert "no such tag" in said(store.image.removesuffix(":1") + ":2")
    assert "cannot be reached" in said("127.0.0.1:1/nobody/there:1")


def test_a_pull_that_speaks_against_itself_waits_for_a_person(
    box: Box, docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = factories.person()
    other = "aarch64" if docker.facts().architecture == "x86_64" else "x86_64"
    with registry(other, layers=1, size=1000) as foreign:
        held = done(work.ask_to_pull(box, foreign.image, by=ada))
        assert held.state == "held"
        assert "not made for this box's processors" in held.said
        assert docker.image(foreign.image) is None
        assert commands.cancel(held, by=ada)
        assert done(held).state == "cancelled"

    monkeypatch.setattr(judge, "UNPACKED", 1e12)
    with registry(docker.facts().architecture, layers=1, size=1000) as large:
        held = done(work.ask_to_pull(box, large.image, by=ada))
        assert held.state == "held"
        assert "Make room first" in held.said
        assert commands.go_on(held, by=ada)
        assert not commands.go_on(held, by=ada)
        assert done(held).state == "done"
        docker.drop_image(held.image_id)


BY = pytest.mark.parametrize("by_token", [False, True], ids=["by password", "by token"])


@BY
def test_a_log_in_that_is_kept_opens_a_registry(
    box: Box, store: Registry, docker: DockerContainers, by_token: bool
) -> None:
    ada = factories.person()
    store.by_token = by_token
    store.login = "ada:ghp_0123456789abcdef0123"
    place = f"127.0.0.1:{store.port}"
    refused = done(work.ask_to_pull(box, store.image, by=ada))
    assert refused.state == "failed"
    assert "credentials" in refused.said

    login = shelves.registry_login(place)
    inventory.ask_for_test(login, by=ada)
    inventory.test_wanted(box, docker)
    login.refresh_from_db()
    assert (login.error, login.tested_on) == ("", box)
    assert done(commands.ask_again(refused, by=ada)).is_whole
    pulled = docker.image(store.image)
    assert pulled is not None
    docker.drop_image(pulled.id)
    # The pull of a run goes the same way.
    pull(docker, store.image)
    assert bool(store.tokens) is by_token

    login.keep("wrong-password")
    login.save()
    inventory.ask_for_test(login, by=ada)
    ImageInventories(box).step()
    login.refresh_from_db()
    assert "does not take this name and password" in login.error
    kept = " ".join([login.error, *(str(each.detail) for each in AuditEntry.objects.all())])
    assert "wrong-password" not in kept
    assert "ghp_" not in kept
    assert "ghp_" not in repr(
        inventory.load_credentials() + [RegistryAuth(registry="x", username="y", password="ghp_z")]
    )


@BY
def test_the_size_is_asked_of_the_registry(
    store: Registry, docker: DockerContainers, by_token: bool
) -> None:
    store.by_token = by_token
    architecture = judge.ARCHITECTURES[docker.facts().architecture]
    found = remote.size(store.image, architecture)
    assert found is not None
    assert found.total == sum(len(b) for b in store.blobs.values() if b[:2] == b"\x1f\x8b")
    store.login = "ada:secret"
    with pytest.raises(RegistryError, match="requires credentials|lets nobody in"):
        remote.size(store.image, architecture)
    mine = RegistryAuth(registry=f"127.0.0.1:{store.port}", username="ada", password="secret")
    assert remote.size(store.image, architecture, mine) == found
    with pytest.raises(RegistryError, match="does not answer"):
        remote.size("127.0.0.1:1/x:1", architecture)
