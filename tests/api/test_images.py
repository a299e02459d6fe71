"""The API's part in images: what lies there, what is newer, pulls, moved tags, removals."""

from functools import partial
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers import events
from servers.models import (
    AuditEntry,
    Box,
    ImageJob,
    Role,
    Server,
    StoredImage,
    TagChecks,
    User,
)
from servers.models.runs.run import RunState
from tests import factories, shelves
from tests.api.conftest import ClientOf
from tests.api.test_downloads import held, until_answered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

JSON = "application/json"
AT = "/api/v1/boxes/rtx8/images"
JOBS = "/api/v1/image-jobs"


@pytest.fixture
def used(box: Box) -> StoredImage:
    """An image that a server runs."""
    server = factories.server(box, "qwen3-8b", image="vllm/vllm-openai:v0.20.2")
    image = shelves.stored_image(box)
    factories.run(server, RunState.READY, image_id=image.image_id)
    return image


@pytest.fixture
def spare(box: Box) -> StoredImage:
    """One that nobody needs."""
    return shelves.stored_image(box, 0xBEEF << 240, tags=["vllm/vllm-openai:v0.1.0"], size=1)


def post(client: Client, path: str, **given: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post(path, given, content_type=JSON)
    return answer.status_code, answer.json()


def test_images_are_listed_with_who_uses_them(
    client_of: ClientOf, used: StoredImage, spare: StoredImage
) -> None:
    first, second = client_of(Role.VIEWER).get(AT).json()
    assert (first["id"], first["names"]) == (used.image_id, used.tags)
    assert (first["profiles"], first["running"]) == (["qwen3-8b"], ["qwen3-8b"])
    assert (first["version"], first["version_by"]) == ("vLLM 0.20.2", "by its tag")
    assert (first["may_go"], first["why"]) == (False, "qwen3-8b runs it")
    assert (second["may_go"], second["is_ours"]) == (True, False)
    assert client_of(Role.VIEWER).get("/api/v1/boxes/none/images").status_code == 404


def test_only_what_nobody_needs_is_removed(
    client_of: ClientOf, used: StoredImage, spare: StoredImage
) -> None:
    admin = client_of(Role.ADMIN)
    refused = admin.delete(f"{AT}?image={spare.tags[0]}&image={used.short_id}")
    assert refused.status_code == 409
    assert "qwen3-8b runs it" in refused.json()["error"]["message"]
    assert admin.delete(f"{AT}?image=none").status_code == 404
    assert admin.delete(AT).status_code == 422
    assert not ImageJob.objects.exists()

    said = admin.delete(f"{AT}?image={spare.tags[0]}&image={spare.image_id}")
    assert (said.status_code, said.json()["kind"]) == (202, "prune")
    assert ImageJob.objects.get().images == [spare.image_id]
    assert admin.delete(f"{AT}?image={spare.short_id}").json()["error"]["code"] == "busy"
    # As on the page: what an admin has asked for is not an editor's to end.
    cancel = f"{JOBS}/{said.json()['id']}/cancel"
    assert client_of(Role.EDITOR).post(cancel).status_code == 403
    assert admin.post(cancel).json()["state"] == "cancelled"


def test_an_image_is_asked_for_once_followed_and_cancelled(client_of: ClientOf, box: Box) -> None:
    editor = client_of(Role.EDITOR)
    status, said = post(editor, JOBS, reference="vllm/vllm-openai:v0.21.0")
    assert (status, said["state"], said["asked_by"]) == (201, "asked", "a-editor")
    assert post(editor, JOBS, reference="docker.io/vllm/vllm-openai:v0.21.0")[0] == 200
    assert post(editor, JOBS, reference="Not An Image")[0] == 422
    assert [each["id"] for each in editor.get(JOBS).json()] == [said["id"]]

    at = f"{JOBS}/{said['id']}"
    thread, told = held(editor, f"{at}?wait=20&seen={said['mark'].replace('+', '%2B')}")
    ImageJob.objects.update(
        state="doing",
        done=50,
        total=100,
        result={"is_whole": True},
        rate=5.0,
        changed_at=timezone.now(),
    )
    until_answered(thread, partial(events.publish_change, "jobs"))
    assert (told[0]["percent"], told[0]["left"]) == (50, 10)
    cancelled = editor.post(f"{at}/cancel").json()
    assert cancelled["is_unwanted"]
    assert editor.post(f"{at}/go-on").status_code == 409
    assert AuditEntry.objects.filter(action="cancel pull of image").exists()


def test_what_is_held_goes_on_when_somebody_wants_it_all_the_same(
    client_of: ClientOf, box: Box
) -> None:
    job = shelves.image_job(box, state="held", said="No room.", ended_at=None)
    said = client_of(Role.EDITOR).post(f"{JOBS}/{job.pk}/go-on").json()
    assert said["state"] == "asked"
    job.refresh_from_db()
    assert job.despite


def test_newer_builds_are_told_pulled_beside_and_moved_to(
    client_of: ClientOf, box: Box, server: Server
) -> None:
    editor = client_of(Role.EDITOR)
    news = shelves.tag_news(box)
    (said,) = editor.get(f"{AT}/newer").json()
    assert (said["reference"], said["has_newer"], said["newer_id"]) == (news.reference, True, "")
    status, refused = post(editor, f"{AT}/move", reference=news.reference, to="newer")
    assert (status, refused["error"]["code"]) == (409, "no_image")

    status, job = post(editor, JOBS, reference=news.reference, newer=True)
    assert (status, job["digest"]) == (201, news.digest)
    ImageJob.objects.update(state="done", ended_at=timezone.now())
    news.newer_id = shelves.image_id(9)
    news.save()
    status, job = post(editor, f"{AT}/move", reference=news.reference, to="newer")
    assert (status, job["kind"]) == (202, "move")
    assert post(editor, f"{AT}/move", reference=news.reference, to="newer")[0] == 409
    assert post(editor, f"{AT}/move", reference="x/y:z", to="before")[0] == 404
    assert post(editor, JOBS, reference="x/y:z", newer=True)[0] == 404

    assert client_of(Role.OPERATOR).post(f"{AT}/newer").status_code == 204
    assert TagChecks.objects.get().is_wanted


def test_builds_of_private_profiles_are_nobody_elses(client_of: ClientOf, server: Server) -> None:
    profile = server.profile
    profile.is_private, profile.owner = True, User.objects.create(username="bo", role=Role.EDITOR)
    profile.save()
    job = shelves.image_job(server.box, kind="build", version=profile.current)
    editor = client_of(Role.EDITOR)
    assert editor.get(JOBS).json() == []
    assert editor.get(f"{JOBS}/{job.pk}").status_code == 404
    assert editor.post(f"{JOBS}/{job.pk}/cancel").status_code == 404
