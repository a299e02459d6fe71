"""Models are deleted from disks: what goes, what others share, and what no link can reach."""

import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client

from servers import tasks
from servers.host.weights import deletion as host_deletion
from servers.host.weights.deletion import DiscardError
from servers.lifecycle.jobs import actions
from servers.lifecycle.weights import deletion as lifecycle_deletion
from servers.models import (
    Box,
    Download,
    Job,
    ModelInventory,
    Profile,
    Role,
    StoredCheckpoint,
    User,
)
from servers.models.jobs import JobKind, JobState
from servers.models.runs.run import RunState as RunState
from servers.watcher.weights import ModelScan
from tests import factories, jobs
from tests.box_files import anywhere
from tests.weights.test_inventory import blob, folder, gguf, hub, weights

KIB = 1024
NAME = "Qwen/Coder"


def solid(path: Path, size: int) -> Path:
    """A file that takes as much of the disk as it is long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def add(snapshot: Path, name: str, kept: str, size: int) -> Path:
    """A file of a snapshot whose blob has this name; several may share one."""
    found = snapshot.parent.parent / "blobs" / kept
    if not found.exists():
        solid(found, size)
    link = snapshot / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(found, link.parent))
    return found


def listed(top: Path) -> set[str]:
    return {each.name for each in top.iterdir()}


def names(top: Path) -> set[str]:
    return {str(each.relative_to(top)) for each in top.rglob("*") if not each.is_dir()}


def test_a_plain_folder_goes_as_a_whole(tmp_path: Path) -> None:
    here = tmp_path / "mnt/models/one"
    solid(here / "a.safetensors", 64 * KIB)
    solid(here / "original/b.pth", 32 * KIB)
    solid(tmp_path / "mnt/models/two/a.safetensors", 8 * KIB)
    made = host_deletion.plan("/mnt/models/one", anywhere(tmp_path))
    assert (made.trees, made.files, made.count) == (("/mnt/models/one",), (), 2)
    assert (made.freed, made.kept) == (96 * KIB, 0)
    host_deletion.carry_out(made, anywhere(tmp_path))
    assert names(tmp_path) == {"mnt/models/two/a.safetensors"}


def test_what_two_revisions_share_stays(tmp_path: Path) -> None:
    cache = tmp_path / "home/ada/hub"
    old = hub(cache, NAME, "a" * 40, ref="v1")
    new = hub(cache, NAME, "b" * 40)
    top = new.parent.parent
    add(old, "model.safetensors", "one", 64 * KIB)
    add(new, "model.safetensors", "two", 128 * KIB)
    for each in (old, new):
        add(each, "tokenizer.json", "same", 16 * KIB)
        add(each, "sub/vocab.txt", "vocab", 4 * KIB)

    made = host_deletion.plan(
        f"/home/ada/hub/models--Qwen--Coder/snapshots/{'a' * 40}", anywhere(tmp_path)
    )
    # The branch that stands for it is a small file, too.
    assert (made.freed - made.freed % (64 * KIB), made.kept) == (64 * KIB, 20 * KIB)
    host_deletion.carry_out(made, anywhere(tmp_path))

    assert {each.name for each in (top / "blobs").iterdir()} == {"two", "same", "vocab"}
    assert [each.name for each in (top / "refs").iterdir()] == ["main"]
    assert [each.name for each in (top / "snapshots").iterdir()] == ["b" * 40]
    assert (new / "model.safetensors").stat().st_size == 128 * KIB

    last = host_deletion.plan(
        f"/home/ada/hub/models--Qwen--Coder/snapshots/{'b' * 40}", anywhere(tmp_path)
    )
    assert last.freed >= 148 * KIB
    host_deletion.carry_out(last, anywhere(tmp_path))
    assert not list(cache.iterdir())


def test_one_quantization_of_several_goes_alone(tmp_path: Path) -> None:
    snapshot = hub(tmp_path / "home/hub", "a/GGUF")
    top = snapshot.parent.parent
    for number in (1, 2):
        add(snapshot, f"Q8-0000{number}-of-00002.gguf", f"q8-{number}", 32 * KIB)
    add(snapshot, "Q4.gguf", "q4", 16 * KIB)
    add(snapshot, "README.md", "readme", 4 * KIB)
    at = f"/home/hub/models--a--GGUF/snapshots/{'a' * 40}"
    made = host_deletion.plan(f"{at}/Q8-00001-of-00002.gguf", anywhere(tmp_path))
    assert (made.count, made.freed) == (2, 64 * KIB)
    host_deletion.carry_out(made, anywhere(tmp_path))
    assert {each.name for each in (top / "blobs").iterdir()} == {"q4", "readme"}
    # With the last model everything of the repository goes.
    host_deletion.carry_out(
        host_deletion.plan(f"{at}/Q4.gguf", anywhere(tmp_path)), anywhere(tmp_path)
    )
    assert not top.exists()


def test_a_plain_gguf_goes_with_its_parts_and_nothing_beside_it(tmp_path: Path) -> None:
    here = tmp_path / "mnt/models"
    for number in (1, 2):
        solid(here / f"big-0000{number}-of-00002.gguf", 8 * KIB)
    solid(here / "other.gguf", 8 * KIB)
    made = host_deletion.plan("/mnt/models/big-00001-of-00002.gguf", anywhere(tmp_path))
    host_deletion.carry_out(made, anywhere(tmp_path))
    assert names(here) == {"other.gguf"}


def test_hard_links_elsewhere_free_nothing(tmp_path: Path) -> None:
    kept = solid(tmp_path / "mnt/store/big", 64 * KIB)
    (tmp_path / "mnt/models/one").mkdir(parents=True)
    (tmp_path / "mnt/models/one/a.safetensors").hardlink_to(kept)
    made = host_deletion.plan("/mnt/models/one", anywhere(tmp_path))
    assert (made.freed, made.kept) == (0, 64 * KIB)


def test_no_link_is_followed(tmp_path: Path) -> None:
    secret = solid(tmp_path / "etc/secret/key", 4 * KIB)
    models = tmp_path / "mnt/models"
    models.mkdir(parents=True)
    (models / "one").symlink_to("/etc/secret")
    with pytest.raises(DiscardError, match="nothing is deleted over a link"):
        host_deletion.plan("/mnt/models/one", anywhere(tmp_path))
    with pytest.raises(DiscardError, match="not there any more"):
        host_deletion.plan("/mnt/models/none", anywhere(tmp_path))

    # A link inside is deleted, what it leads to is not.
    (models / "one").unlink()
    solid(models / "one/a.safetensors", 4 * KIB)
    (models / "one/more").symlink_to(secret.parent)
    made = host_deletion.plan("/mnt/models/one", anywhere(tmp_path))
    host_deletion.carry_out(made, anywhere(tmp_path))
    assert secret.exists()
    assert not (models / "one").exists()

    # Put there between the plan and the deed.
    solid(models / "two/a.safetensors", 4 * KIB)
    made = host_deletion.plan("/mnt/models/two", anywhere(tmp_path))
    models.rename(tmp_path / "mnt/moved")
    (tmp_path / "mnt/models").symlink_to(tmp_path / "mnt/moved")
    with pytest.raises(DiscardError, match="cannot be deleted"):
        host_deletion.carry_out(made, anywhere(tmp_path))
    assert (tmp_path / "mnt/moved/two/a.safetensors").exists()


def test_a_home_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_deletion, "MOST_ENTRIES", 3)
    for number in range(4):
        solid(tmp_path / f"mnt/models/one/{number}", 10)
    with pytest.raises(DiscardError, match="which is no model"):
        host_deletion.plan("/mnt/models/one", anywhere(tmp_path))


def test_who_has_it_open_is_named(tmp_path: Path) -> None:
    file = solid(tmp_path / "mnt/models/one/a.safetensors", 4 * KIB)
    made = host_deletion.plan("/mnt/models/one", anywhere(tmp_path))
    assert host_deletion.users(made, anywhere(tmp_path)) == []
    with file.open("rb"):
        found = host_deletion.users(made, anywhere(tmp_path))
    assert len(found) == 1
    assert f"(process {os.getpid()})" in found[0]


@pytest.fixture
def box(db: None, own_redis: object, root: Path) -> Box:
    return factories.box(hf_cache="~/.cache/huggingface")


@pytest.fixture
def editor(box: Box) -> Client:
    return factories.log_in(User.objects.create(username="eda", role=Role.EDITOR))


def look(box: Box) -> None:
    ModelInventory.objects.filter(box=box).update(looked_at=None)
    ModelScan(box).look(go_on=lambda: True)


def stored(box: Box, name: str = NAME) -> StoredCheckpoint:
    return StoredCheckpoint.objects.get(box=box, name=name)


def cached(root: Path) -> Path:
    snapshot = hub(root / "home/ada/.cache/huggingface/hub", NAME)
    blob(snapshot, "model.safetensors", 4096)
    return snapshot


def asked_page(client: Client, model: StoredCheckpoint) -> str:
    nonce = str(uuid.uuid4())
    tasks.look_at_stored(lifecycle_deletion.question(model, nonce), model.pk)
    return client.get(f"/models/{model.pk}/delete/look/", {"asked": nonce}).content.decode()


def obey(box: Box) -> Job:
    jobs.obey(box, skip=[JobKind.DOWNLOAD])
    return Job.objects.filter(kind=JobKind.DELETE).latest("pk")


@pytest.mark.django_db(transaction=True)
def test_a_model_is_deleted_by_its_box(box: Box, editor: Client, root: Path) -> None:
    snapshot = cached(root)
    look(box)
    model = stored(box)
    profile = factories.server(box, "coder", model="qwen3-8b", checkpoint=NAME).profile
    Profile.objects.filter(pk=profile.pk).update(name="The coder")
    page = editor.get(f"/models/{model.pk}/delete/").content.decode()
    assert "The coder" in page
    shown = asked_page(editor, model)
    assert "1 file" in shown or "files" in shown
    assert "become free" in shown

    answer = editor.post(f"/models/{model.pk}/delete/")
    assert answer.headers["Location"] == "/models/"
    assert "Deleting" in editor.get("/models/").content.decode()
    done = obey(box)
    assert (done.state, done.asked_by and done.asked_by.username) == ("done", "eda")
    assert "Qwen/Coder is deleted" in done.said
    assert not snapshot.parent.parent.exists()
    assert not StoredCheckpoint.objects.exists()


def test_only_what_is_empty_goes_with_it(tmp_path: Path) -> None:
    models = tmp_path / "mnt/models"
    solid(models / "org/one/a.safetensors", 8 * KIB)
    for name in ("q4.gguf", "q8.gguf"):
        solid(models / f"team/tiny/{name}", 8 * KIB)
        for suffix in ("metadata", "lock"):
            solid(models / f"team/tiny/.cache/huggingface/download/{name}.{suffix}", 1)
    (models / "theirs").mkdir()

    def delete(path: str) -> None:
        made = host_deletion.plan(f"/mnt/models/{path}", anywhere(tmp_path))
        host_deletion.carry_out(made, anywhere(tmp_path))
        host_deletion.tidy(made, anywhere(tmp_path), below=["/mnt/models"])

    delete("org/one")
    assert listed(models) == {"team", "theirs"}
    delete("team/tiny/q4.gguf")
    notes = models / "team/tiny/.cache/huggingface/download"
    assert (listed(models / "team/tiny"), listed(notes)) == (
        {"q8.gguf", ".cache"},
        {"q8.gguf.metadata", "q8.gguf.lock"},
    )
    delete("team/tiny/q8.gguf")
    assert listed(models) == {"theirs"}, "a folder that is looked into stays, as does another's"
    (models / "theirs").rmdir()
    solid(models / "last.gguf", 8 * KIB)
    delete("last.gguf")
    assert models.is_dir()


@pytest.mark.django_db(transaction=True)
def test_what_was_downloaded_says_that_it_is_deleted(
    box: Box, editor: Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("servers.events.publish_change", lambda kind, *_of: told.append(kind))
    folder(root / "mnt/models/one", "a.safetensors")
    solid(root / "mnt/models/one/notes.bin", 24 * 2**20)
    folder(root / "mnt/models/two", "a.safetensors")
    look(box)
    whole = {"state": JobState.DONE, "said": "All of it is there.", "commit": "c" * 40}
    for name in ("one", "two"):
        where = f"/mnt/models/{name}"
        files = [{"name": "a.safetensors"}]
        factories.download(box, f"a/{name}", into=where, folder=where, files=files, **whole)

    actions.ask_to_delete(stored(box, "one"), by=User.objects.get(username="eda"))
    done = obey(box)

    assert "0.02 GiB are free again" in done.said
    said = dict(Download.objects.values_list("what", "said"))
    assert said["a/one"] == "It was downloaded whole, and deleted by eda since."
    assert said["a/two"] == "All of it is there."
    assert "downloads" in told


@pytest.mark.django_db(transaction=True)
def test_what_runs_or_comes_is_not_deleted(box: Box, editor: Client, root: Path) -> None:
    cached(root)
    look(box)
    model = stored(box)
    server = factories.server(box, "coder", model="qwen3-8b", checkpoint=NAME)
    run = factories.run(server)
    assert (
        "coder runs with it. Stop coder first."
        in editor.get(f"/models/{model.pk}/delete/").content.decode()
    )
    editor.post(f"/models/{model.pk}/delete/")
    assert not Job.objects.exists()

    # A draft model is named by a flag alone.
    server.profile.save_version(
        replace(
            server.profile.launch, flags=("--speculative-model", NAME), checkpoint="other/model"
        ),
        by=None, message="draft",
    )  # fmt: skip
    type(run).objects.filter(pk=run.pk).update(version=server.profile.current)
    assert "coder runs with it" in lifecycle_deletion.refusal(model)
    run.refresh_from_db()
    type(run).objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    assert lifecycle_deletion.refusal(model) == ""

    # Asked for while nothing spoke against it, and then somebody was faster.
    actions.ask_to_delete(model, by=User.objects.get(username="eda"))
    row = factories.download(
        box, NAME, state=JobState.DOWNLOADING, folder="/home/ada/.cache/huggingface/hub"
    )
    refused = obey(box)
    assert (refused.state, "is being downloaded there" in refused.said) == ("refused", True)
    assert "was not deleted" in editor.get("/models/").content.decode()
    assert StoredCheckpoint.objects.exists()
    Download.objects.filter(pk=row.pk).delete()
    Job.objects.all().delete()

    model.refresh_from_db()
    actions.ask_to_delete(model, by=User.objects.get(username="eda"))
    kept = root / "home/ada/.cache/huggingface/hub/models--Qwen--Coder/blobs"
    with next(kept.iterdir()).open("rb"):
        refused = obey(box)
    assert "has files of it open" in refused.said


def test_nothing_is_deleted_outside_the_folders_with_models(box: Box, root: Path) -> None:
    folder(root / "mnt/models/one", "a.safetensors")
    folder(root / "mnt/models/one/inner", "b.safetensors")
    gguf(root / "mnt/models/x/y.gguf")
    look(box)
    with pytest.raises(DiscardError, match="Other models lie in /mnt/models/one"):
        lifecycle_deletion.plan(stored(box, "one"))
    # Rows are the web's: whatever they say, the box goes by its own folders.
    for path in ("/etc/passwd", "/mnt", "/mnt/../etc", "/home/ada/.ssh/../../../etc"):
        row = factories.stored(box, f"row {path}", path=path)
        with pytest.raises(DiscardError):
            lifecycle_deletion.plan(row)
    weights(root / "opt/models/a.safetensors")
    with pytest.raises(DiscardError, match="lies in none of the folders"):
        lifecycle_deletion.plan(factories.stored(box, "opt", path="/opt/models"))
