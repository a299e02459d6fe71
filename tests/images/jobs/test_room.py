"""Room made on a box, without what somebody needs."""

import re
from contextlib import closing

import pytest
from django.utils import timezone
from docker import APIClient

from servers.host.docker.containers import DockerContainers
from servers.judge.images import names as judge
from servers.lifecycle.images import inventory, work
from servers.models import (
    AuditEntry,
    Box,
    ImageInventory,
    ImageJob,
    RegistryCredential,
    StoredImage,
)
from servers.models.runs.run import RunState
from servers.watcher.images import ImageInventories
from tests import factories, shelves
from tests.images.jobs.steps import done, look
from tests.registry import Registry, pull, registry

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


def test_room_is_made_without_what_is_needed(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    ada = factories.person()
    needed = done(work.ask_to_pull(box, store.image, by=ada)).image_id
    server = factories.server(box, "glm-5", image="lmsysorg/sglang:v1")
    factories.run(server, RunState.STOPPED, image_id=needed)
    with registry(docker.facts().architecture, layers=1, size=3 << 20) as other:
        unused = done(work.ask_to_pull(box, other.image, by=ada)).image_id
    look(box, docker)
    fates = {each.image.image_id: each for each in inventory.fates(box)}
    assert fates[unused].may_go
    assert fates[unused].is_ours
    assert not fates[needed].may_go
    assert fates[needed].why == "glm-5 last worked with it"

    job = done(work.ask_to_prune(box, [unused, needed, shelves.image_id(5)], by=ada))
    assert job.state == "done"
    # Others use the same Docker: what they remove meanwhile counts, too.
    assert re.match(r"Removed 1 image; [0-9.]+ GiB are free again\.", job.said)
    assert "stays: glm-5 last worked with it." in job.said
    assert docker.image(unused) is None
    assert docker.image(needed) is not None
    assert not StoredImage.objects.filter(image_id=unused).exists()
    assert AuditEntry.objects.filter(action="prune image done").exists()
    docker.drop_image(needed)


def test_a_prune_that_is_cancelled_says_what_it_has_removed(
    box: Box, store: Registry, docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = factories.person()
    pulled = [done(work.ask_to_pull(box, store.image, by=ada)).image_id]
    with registry(docker.facts().architecture, layers=1) as other:
        pulled.append(done(work.ask_to_pull(box, other.image, by=ada)).image_id)
    look(box, docker)
    drop = DockerContainers.drop_image

    def dropped(self: DockerContainers, image_id: str) -> bool:
        ImageJob.objects.filter(kind="prune").update(wanted="cancelled")
        return drop(self, image_id)

    monkeypatch.setattr(DockerContainers, "drop_image", dropped)
    job = done(work.ask_to_prune(box, pulled, by=ada))
    assert job.state == "cancelled"
    assert job.said.startswith("Removed 1 image; ")
    assert docker.image(pulled[0]) is None
    assert docker.image(pulled[1]) is not None
    drop(docker, pulled[1])


def test_what_a_container_of_others_was_made_from_stays(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    pulled = done(work.ask_to_pull(box, store.image, by=factories.person())).image_id
    with closing(APIClient(docker.host, version="auto")) as client:
        made = client.create_container(store.image, command=["x"], name=f"theirs-{store.name}")
        look(box, docker)
        stored = StoredImage.objects.get(image_id=pulled)
        assert stored.users[0]["name"] == f"theirs-{store.name}"
        assert not stored.users[0]["is_ours"]
        job = done(work.ask_to_prune(box, [pulled], by=factories.person()))
        assert job.state == "failed"
        assert f"theirs-{store.name}" in job.said
        assert docker.image(pulled) is not None
        client.remove_container(made["Id"])
    docker.drop_image(pulled)


def test_the_watcher_writes_down_what_lies_there(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    pull(docker, store.image)
    shelves_of = ImageInventories(box)
    shelves_of.step()

    stored = next(each for each in StoredImage.objects.all() if store.image in each.tags)
    assert stored.tags == [store.image]
    assert stored.architecture == judge.ARCHITECTURES[docker.facts().architecture]
    assert stored.shared is not None
    assert ImageInventory.objects.get(box=box).layers
    docker.drop_image(stored.image_id)
    ImageInventory.objects.update(wanted_at=timezone.now())
    shelves_of.step()
    assert not StoredImage.objects.filter(pk=stored.pk).exists()
    assert not RegistryCredential.objects.exists()
