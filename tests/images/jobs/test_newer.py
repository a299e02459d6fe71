"""Newer builds behind a tag: noticed, pulled beside it, checked, moved to, and left again."""

from typing import Any

import pytest
from django.utils import timezone

from servers.host.docker.containers import DockerContainers
from servers.launch.engines.flaglist import Flag, FlagList
from servers.lifecycle.images import inventory, newer_builds, work
from servers.models import (
    Box,
    StoredImage,
    TagChecks,
    TagNews,
)
from servers.models.images import KEPT
from tests import factories, shelves
from tests.images.jobs.steps import done, look, newer
from tests.registry import Registry

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


def flags(*names: str) -> FlagList:
    found = tuple(Flag(names=(each,), takes="one") for each in names)
    return FlagList(engine="vllm", version="9.9", flags=found, env=None, removed={})


def test_a_newer_build_is_checked_before_the_tag_moves_and_can_be_left_again(
    box: Box, store: Registry, docker: DockerContainers
) -> None:
    ada = factories.person()
    first = done(work.ask_to_pull(box, store.image, by=ada)).image_id
    server = factories.server(box, "minimax-m2.7", image=store.image, flags=("--swap-spaces", "4"))
    factories.server(box, "gpt-oss-120b", image=store.image)
    factories.image_facts(
        box, flags("--swap-spaces", "--model"), reference=store.image, image_id=first
    )
    look(box, docker)
    newer_builds.look(box, docker)
    assert not TagNews.objects.filter(noticed_at__isnull=False).exists()
    newer(store, docker)

    newer_builds.look(box, docker)
    told = TagNews.objects.get(reference=store.image)
    assert told.has_newer
    assert told.newer_id == ""
    job = done(work.ask_to_pull(box, store.image, digest=told.digest, by=ada))
    assert (job.state, job.said[:16]) == ("done", "The newer build ")
    still = docker.image(store.image)
    assert still is not None
    assert still.id == first
    told.refresh_from_db()
    assert told.newer_id not in ("", first)
    assert newer_builds.to_ask(box) == [("vllm", told.newer_id)]
    assert {each.verdict.kind for each in newer_builds.check(told, ada)} == {"unknown"}

    factories.image_facts(
        box, flags("--swap-space", "--model"), reference=told.newer_id, image_id=told.newer_id
    )
    kinds = {each.server.slug: each.verdict.kind for each in newer_builds.check(told, ada)}
    assert kinds == {server.slug: "renamed", "gpt-oss-120b": "same"}

    factories.run(server, image_id=first)  # it worked with the first one
    moved = done(work.ask_to_move(box, store.image, told.newer_id, by=ada))
    assert moved.state == "done", moved.said
    now = docker.image(store.image)
    assert now is not None
    assert now.id == told.newer_id
    look(box, docker)
    old = StoredImage.objects.get(box=box, image_id=first)
    assert old.tags == [f"{KEPT}:{old.short_id}"]
    fate = next(each for each in inventory.fates(box) if each.image == old)
    assert not fate.may_go
    assert "runs it" in fate.why

    second = told.newer_id
    assert done(work.ask_to_move(box, store.image, first, by=ada)).state == "done"
    back = docker.image(store.image)
    assert back is not None
    assert back.id == first
    refused = done(work.ask_to_move(box, store.image, shelves.image_id(3), by=ada))
    assert refused.state == "failed"
    for left in (first, second):
        docker.drop_image(left)


def test_registries_are_asked_by_the_setting_or_by_a_wish(box: Box, settings: Any) -> None:
    settings.NEWER_IMAGES_EVERY = 12
    assert not newer_builds.is_due(box)
    shelves.shelf(box)
    assert newer_builds.is_due(box)
    checks = TagChecks.objects.create(box=box, looked_at=timezone.now())
    assert not newer_builds.is_due(box)
    settings.NEWER_IMAGES_EVERY = 0
    checks.write(looked_at=None)
    assert not newer_builds.is_due(box)
    checks.write(wanted_at=timezone.now())
    assert newer_builds.is_due(box)
