"""The pages of images: what they list, tell and offer, and to whom."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.utils import timezone

from servers.lifecycle.images import build_names, inventory, newer_builds, work
from servers.models import (
    AuditEntry,
    Box,
    HostResources,
    ImageInventory,
    ImageJob,
    JobLog,
    RegistryCredential,
    Role,
    StoredImage,
)
from servers.models.runs.run import RunState
from tests import factories, shelves
from tests.shelves import image_id
from tests.streamed import whole_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def box() -> Box:
    made = factories.box("rtx8")
    shelves.shelf(made)
    return made


def client(role: Role = Role.ADMIN, name: str = "ada") -> Client:
    made = Client()
    made.force_login(factories.person(name, role))
    return made


def page(path: str = "/images/", role: Role = Role.ADMIN, name: str = "ada") -> str:
    response = client(role, name).get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_an_image_is_told_with_engine_size_and_users(box: Box) -> None:
    server = factories.server(box, "minimax-m2.7")  # of vllm/vllm-openai:v0.20.2
    old = image_id(1)
    shelves.stored_image(box, 0xA1)
    shelves.stored_image(box, 1, image_id=old, tags=["inferdash/kept:1"], engine="vllm")
    factories.run(server, RunState.STOPPED, image_id=old)
    factories.image_facts(box, reference="x", image_id=image_id(0xA1), version="0.20.2.dev7")
    shelves.stored_image(
        box, 2, tags=["postgres:17"], engine="",
        users=[{"id": "1", "name": "their-db", "state": "running", "is_ours": False}],
    )  # fmt: skip

    told, others = page(), page("/images/?show=others")

    assert "vLLM 0.20.2.dev7" in told
    assert "21.0 GiB" in told
    assert "6.0 GiB shared" in told
    assert "CUDA 13.0.1" in told
    assert " untagged" in told
    assert "last worked with it" in told
    assert 'Others <span class="quiet">1<' in told
    assert "their-db (running)" in others
    assert "vLLM" not in others.partition("<list-table")[2]
    assert "3 images, 41.0 GiB" in told


def test_it_is_sorted_and_searched(box: Box) -> None:
    now = timezone.now()
    for number, name in enumerate(("b/vllm:1", "a/vllm:1", "c/sglang:1")):
        shelves.stored_image(
            box, number, tags=[name], size=number, made_at=now - timedelta(days=number)
        )

    def order(query: str) -> list[str]:
        told = page(f"/images/?{query}")
        names = ("b/vllm:1", "a/vllm:1", "c/sglang:1")
        return sorted((each for each in names if each in told), key=told.index)

    assert order("") == ["a/vllm:1", "b/vllm:1", "c/sglang:1"]
    assert order("sort=size") == ["c/sglang:1", "a/vllm:1", "b/vllm:1"]
    assert order("sort=made") == ["b/vllm:1", "a/vllm:1", "c/sglang:1"]
    assert order("q=sglang") == ["c/sglang:1"]
    assert order("sort=nonsense&q=nothing-like-it") == []
    assert "No image matches “zzz”" in page("/images/?q=zzz")


def test_a_private_profile_is_counted_and_not_named(box: Box) -> None:
    server = factories.server(box, "minimax-m2.7")
    server.profile.is_private = True
    server.profile.save()
    shelves.stored_image(box)
    assert "1 private" in page(role=Role.VIEWER, name="vera")
    assert "minimax-m2.7" not in page(role=Role.VIEWER, name="vera")
    assert "minimax-m2.7" in page()


def test_an_image_for_other_processors_is_marked(box: Box) -> None:
    factories.observation(HostResources, box, found={"architecture": "aarch64"})
    made = shelves.stored_image(box)
    assert '<span class="badge attention">amd64</span>' in page()
    assert "not this box’s processors" in page(f"/images/{made.pk}/")


def test_nothing_there_yet_is_said(box: Box) -> None:
    assert "No engine images yet" in page()
    ImageInventory.objects.update(looked_at=None)
    assert "not scanned yet" in page()
    ImageInventory.objects.update(
        looked_at=timezone.now(), trouble="Docker Engine does not answer."
    )
    assert "Docker Engine does not answer." in page()
    factories.clear()
    assert "No box yet" in page()


def test_forty_images_take_as_few_questions_as_four(
    box: Box, django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        name = f"registry.example/a-team-with-a-long-name/vllm-{'patched-' * 9}{number}:v1"
        shelves.stored_image(box, number, tags=[name])
        factories.server(box, f"model-{number}", model="minimax-m2.7", image=name)
    reader = client()
    with django_assert_max_num_queries(40):
        told = reader.get("/images/").content.decode()
    assert told.count("data-image=") == 40


def test_a_pull_is_asked_for_once_and_by_its_full_name(box: Box) -> None:
    editor = client(Role.EDITOR, "edith")
    for _click in range(2):
        editor.post("/images/pull/", {"box": "rtx8", "reference": " docker.io/vllm/vllm-openai "})
    job = ImageJob.objects.get()
    assert (job.reference, job.state) == ("vllm/vllm-openai:latest", "asked")
    assert "is being pulled or moved already" in editor.get("/images/").content.decode()
    editor.post("/images/pull/", {"box": "rtx8", "reference": "not a reference"})
    assert "This is not an image reference" in editor.get("/images/").content.decode()
    assert AuditEntry.objects.filter(action="pull image").count() == 1


def test_how_far_a_pull_is_is_told(box: Box) -> None:
    job = shelves.image_job(
        box, state="doing", ended_at=None, done=3 << 30, total=12 << 30, is_whole=True,
        rate=112.0 * 2**20, free=400 << 30, said="",
        layers=[{"id": "a" * 12, "state": "downloading", "done": 3 << 20, "total": 12 << 30,
                 "unpacked": 0}],
    )  # fmt: skip
    told = page("/images/jobs/")
    assert 'value="25" max="100"' in told
    assert "3.0 GiB of 12.0 GiB, 25 %" in told
    assert "112 MiB/s" in told
    assert "about 1 min 22 s left" in told
    assert "3.0 MiB" in page(f"/images/jobs/{job.pk}/")
    assert "Cancel" in told
    assert "Cancel" not in page("/images/jobs/", Role.OPERATOR, "olga")


def test_what_has_ended_can_be_done_again_or_put_away(box: Box) -> None:
    job = shelves.image_job(box)
    mine = client()
    assert "Pull again" in page("/images/jobs/")
    assert mine.post(f"/images/jobs/{job.pk}/again/").status_code == 204
    assert list(ImageJob.objects.for_page().values_list("state", flat=True)) == ["asked"]
    assert mine.post(f"/images/jobs/{job.pk}/again/").status_code == 409
    open_one = ImageJob.objects.get(state="asked")
    assert mine.post(f"/images/jobs/{open_one.pk}/cancel/").status_code == 204
    assert mine.post(f"/images/jobs/{open_one.pk}/cancel/").status_code == 409
    open_one.refresh_from_db()
    assert (open_one.state, open_one.said) == ("cancelled", "Cancelled before it had begun.")
    assert mine.post(f"/images/jobs/{open_one.pk}/away/").status_code == 204
    assert not ImageJob.objects.for_page().exists()


def test_a_newer_build_is_told_with_its_verdicts(box: Box) -> None:
    factories.server(box, "glm-5")  # of lmsysorg/sglang:latest-cu130
    reference = "lmsysorg/sglang:latest-cu130"
    news = shelves.tag_news(box, reference=reference)
    assert "Pull newer build" in page()
    shelves.stored_image(box, 3, tags=[reference], engine="sglang")
    assert '<span class="badge attention">newer build</span><p' in page()
    news.newer_id = image_id(9)
    news.save()
    told = page()
    assert "flags have not been read yet" in told
    assert "Move tag…" in told
    dialog = page(f"/images/news/{news.pk}/move/newer/ask/")
    assert "Move the tag" in dialog
    assert client().post(f"/images/news/{news.pk}/move/newer/").status_code == 204
    assert ImageJob.objects.get().images == [image_id(9)]
    assert client().post(f"/images/news/{news.pk}/move/back/").status_code == 409
    assert "not there any more" in page(f"/images/news/{news.pk}/move/sideways/ask/")


def test_room_is_made_only_of_what_was_offered(box: Box) -> None:
    server = factories.server(box, "minimax-m2.7")
    needed = shelves.stored_image(box, 1)
    ours = shelves.stored_image(box, 2, tags=["x/vllm:old"], shared=None)
    theirs = shelves.stored_image(box, 3, tags=[], digests=[], engine="")
    factories.run(server, RunState.STOPPED, image_id=ours.image_id, ready_at=None)

    told = page("/images/on/rtx8/prune/")
    assert f'value="{ours.pk}" aria-label="Remove x/vllm:old, {ours.short_id}" checked' in told
    assert f'value="{theirs.pk}"' in told
    assert (
        f'value="{theirs.pk}" aria-label="Remove {theirs.short_id}, {theirs.short_id}" autoc'
        in told
    )
    assert f'value="{needed.pk}"' not in told
    assert "minimax-m2.7 would start it next" in told

    client().post("/images/on/rtx8/prune/now/", {"image": [needed.pk, ours.pk, "nonsense"]})
    assert ImageJob.objects.get().images == [ours.image_id]
    ImageJob.objects.all().delete()
    client().post("/images/on/rtx8/prune/now/", {"image": [needed.pk]})
    assert not ImageJob.objects.exists()


def test_a_prune_never_offers_what_anybody_needs(box: Box) -> None:
    server = factories.server(box, "minimax-m2.7")
    kept = [
        shelves.stored_image(box, 1),  # named by a profile
        shelves.stored_image(box, 2, tags=["x/vllm:2"]),  # last worked
        shelves.stored_image(box, 3, tags=["x/vllm:3"]),  # the newer build of a tag
        shelves.stored_image(
            box, 4, tags=["x/vllm:4"],
            users=[{"id": "1", "name": "a", "state": "exited", "is_ours": True}],
        ),
    ]  # fmt: skip
    factories.run(server, RunState.STOPPED, image_id=kept[1].image_id)
    shelves.tag_news(box, newer_id=kept[2].image_id)
    shelves.stored_image(box, 5, tags=["theirs/database:1"], engine="")

    fates = inventory.fates(box)
    assert {each.image for each in fates} == set(kept)
    assert not any(each.may_go for each in fates)


def test_a_log_in_goes_in_and_never_comes_out(box: Box) -> None:
    admin = client()
    password = "ghp_0123456789abcdef0123"
    new = {"registry": "https://GHCR.io/", "username": "ada", "password": password}
    admin.post("/settings/registries/add/", new)
    login = RegistryCredential.objects.get()
    assert (login.registry, login.password) == ("ghcr.io", password)
    told = page("/settings/registries/") + page(f"/settings/registries/{login.pk}/")
    assert password not in told
    assert "not yet" in told

    path = f"/settings/registries/{login.pk}/"
    assert admin.post(path, {"registry": "ghcr.io", "username": "ada", "password": ""}).url  # type: ignore[attr-defined]
    # The password must not go to whoever is named in the registry's place.
    moved = {"registry": "evil.example", "username": "ada", "password": ""}
    assert "Enter the password" in admin.post(path, moved).content.decode()
    login.refresh_from_db()
    assert (login.registry, login.password) == ("ghcr.io", password)
    wrong = {"registry": "team", "username": "a", "password": "b"}
    assert "has a dot or a port" in admin.post("/settings/registries/add/", wrong).content.decode()

    admin.post(f"/settings/registries/{login.pk}/test/")
    assert "being tried" in page("/settings/registries/")
    admin.post(f"/settings/registries/{login.pk}/delete/")
    assert not RegistryCredential.objects.exists()
    assert password not in str(list(AuditEntry.objects.values()))


def test_a_dockerfile_is_kept_with_the_profile_and_built(box: Box) -> None:
    server = factories.server(
        box, "minimax-m2.7", dockerfile="FROM vllm/vllm-openai:v0.20.2\nCOPY a.patch /\n",
        build_files={"a.patch": "--- a\n"},
    )  # fmt: skip
    tag = build_names.tag(server.profile.slug, server.profile.launch)
    slug = server.profile.slug
    told = page(f"/profiles/{slug}/")
    assert tag in told
    assert "not built yet" in told
    assert "--- a" in told

    editor = client(Role.EDITOR, "edith")
    assert editor.post(f"/profiles/{slug}/build/", {"box": "rtx8"}).status_code == 302
    job = ImageJob.objects.get()
    assert (job.kind, job.reference) == ("build", tag)
    assert "being built" in page(f"/profiles/{slug}/") or "in a moment" in page(
        f"/profiles/{slug}/"
    )

    assert 'id="build"' in page(f"/profiles/{slug}/built/")

    editor.post(f"/profiles/{slug}/build/use/")
    server.profile.refresh_from_db()
    assert server.profile.launch.image == tag
    assert "The profile starts from it." in page(f"/profiles/{slug}/")


def test_the_form_keeps_a_dockerfile_and_refuses_a_bad_one(box: Box) -> None:
    server = factories.server(box, "minimax-m2.7")
    form = client().get(f"/profiles/{server.profile.slug}/edit/").context["form"]
    values = {name: form[name].value() for name in form.fields}
    data: dict[str, Any] = {k: "" if v is None else v for k, v in values.items()}
    data |= {"dockerfile": "FROM x\r\nCOPY a.sh /\r\n", "build_files": "==> a.sh <==\r\necho\r\n"}
    data = {name: value for name, value in data.items() if value is not False}
    path = f"/profiles/{server.profile.slug}/edit/"
    saved = client().post(path, data)
    assert saved.status_code == 302, saved.context["form"].errors
    server.profile.refresh_from_db()
    launch = server.profile.launch
    assert (launch.dockerfile, launch.build_files) == ("FROM x\nCOPY a.sh /\n", {"a.sh": "echo\n"})

    refused = client().post(path, data | {"saves": "1", "dockerfile": "RUN true"})
    assert "must begin with FROM" in refused.content.decode()


@pytest.mark.parametrize("pieces", [[1000, 1000, 5], [2000, 5], [1999, 1, 5], [2005]])
def test_a_builds_log_is_read_to_its_end_however_it_came(box: Box, pieces: list[int]) -> None:
    job = ImageJob.objects.create(box=box, kind="build", what="x", state="done")
    first = 1
    for count in pieces:
        lines = "\n".join(f"line {number}" for number in range(first, first + count))
        JobLog.objects.create(job=job, first=first, text=lines)
        first += count

    begin = page(f"/images/jobs/{job.pk}/log/")
    rest = page(f"/images/jobs/{job.pk}/log/?after=2000")

    assert "line 2000<" in begin
    assert "line 2001<" not in begin
    assert "?after=2000" in begin, "the page goes on"
    assert "line 2000<" not in rest
    assert "line 2001<" in rest
    assert "line 2005<" in rest


def test_a_builds_log_is_read_on_from_where_one_is(box: Box) -> None:
    job = shelves.image_job(box, kind="build", state="doing", ended_at=None, lines=4, said="")
    JobLog.objects.create(job=job, first=1, text="Step 1/2 : FROM x\n<b>bold</b>")
    JobLog.objects.create(job=job, first=3, text="three\nfour")
    told = page(f"/images/jobs/{job.pk}/log/?after=1")
    assert "Step 1/2" not in told
    assert "&lt;b&gt;bold&lt;/b&gt;" in told
    assert "?after=4" in told
    ImageJob.objects.update(state="done")
    assert "?after=" not in page(f"/images/jobs/{job.pk}/log/?after=4")
    whole = client().get(f"/images/jobs/{job.pk}/log.txt")
    assert async_to_sync(whole_of)(whole).endswith(b"three\nfour\n")


def test_a_build_of_a_private_profile_is_its_owners(box: Box) -> None:
    server = factories.server(box, "minimax-m2.7")
    server.profile.is_private = True
    server.profile.save()
    job = shelves.image_job(box, kind="build", version=server.profile.current)
    viewer = client(Role.VIEWER, "vera")
    assert viewer.get(f"/images/jobs/{job.pk}/").status_code == 404
    assert job.reference not in viewer.get("/images/jobs/").content.decode()
    assert client().get(f"/images/jobs/{job.pk}/").status_code == 200


def test_a_silent_box_is_said(box: Box) -> None:
    Box.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    shelves.stored_image(box)
    ImageInventory.objects.update(wanted_at=timezone.now() + timedelta(seconds=5))
    told = page()
    assert "rtx8 does not report" in told
    assert "Waits until rtx8 reports again" in told
    assert StoredImage.objects.count() == 1


def test_an_image_that_no_profile_names_can_be_asked(box: Box) -> None:
    found = shelves.stored_image(box)
    other = shelves.stored_image(box, 5, tags=["postgres:17"], engine="")
    assert "Read version and flags" in page(f"/images/{found.pk}/")
    assert "Read version and flags" not in page(f"/images/{other.pk}/")
    assert newer_builds.to_ask(box) == []

    assert client().post(f"/images/{found.pk}/ask/").status_code == 204
    assert client().post(f"/images/{other.pk}/ask/").status_code == 404
    assert newer_builds.to_ask(box) == [("vllm", found.image_id)]
    assert "Its version and flags will be read" in page(f"/images/{found.pk}/")
    factories.image_facts(
        box, reference=found.image_id, image_id=found.image_id, version="0.20.2", count=7
    )
    assert "7 flags, read" in page(f"/images/{found.pk}/")
    assert "vLLM 0.20.2" in page()


def test_what_was_long_ago_is_forgotten(box: Box) -> None:
    shelves.image_job(box, ended_at=timezone.now() - timedelta(days=91))
    young = shelves.image_job(box, reference="x/y:1")
    work.forget_old()
    assert list(ImageJob.objects.all()) == [young]
