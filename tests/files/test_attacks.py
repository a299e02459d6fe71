"""Who may write in a cache or a folder of models reaches nothing else on the box by it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from servers.lifecycle.runs import creation
from servers.lifecycle.weights import downloads, inventory
from servers.lifecycle.weights.downloads import DownloadRequest
from servers.models import Box, ModelInventory, Role, StoredCheckpoint, User
from servers.models.runs.run import RunState as RunState
from servers.watcher.weights import ModelScan
from tests import factories
from tests.cases import Cases
from tests.files import hostile
from tests.files.hostile import COMMIT, SECRET, TIB
from tests.model_hub import COMMIT as ITS_COMMIT
from tests.model_hub import ModelHub, etag, model_hub
from tests.weights.test_downloading import Watch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

CACHE = "home/ada/.cache/huggingface"
NAME = "Qwen/Coder"


@pytest.fixture
def box(root: Path) -> Box:
    (root / CACHE / "hub").mkdir(parents=True)
    return factories.box(hf_cache="~/.cache/huggingface")


@pytest.fixture
def victims(tmp_path: Path) -> Path:
    """Outside of what the box lets profiles mount, as its data folder is."""
    return hostile.victim(tmp_path / "root/srv-of-others/var")


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(User.objects.create(username="vera", role=Role.VIEWER))
    return client


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(64))
    return folder


def look(box: Box) -> None:
    ModelInventory.objects.filter(box=box).update(looked_at=None)
    hostile.promptly(lambda: ModelScan(box).look(go_on=lambda: True))


def page_of(name: str, viewer: Client) -> str:
    row = StoredCheckpoint.objects.get(path__endswith=name)
    return viewer.get(f"/models/{row.pk}/").content.decode()


def test_links_beside_a_model_show_no_file_of_the_watchers(
    box: Box, root: Path, victims: Path, viewer: Client
) -> None:
    """README, scripts and compose files were read through links, and shown to every viewer."""
    leak = model(root / "mnt/leak")
    for name in ("README.md", "run.sh", "compose.yml", "usage.txt"):
        (leak / name).symlink_to(victims / "secret")
    (leak / "deploy.md").symlink_to(os.path.relpath(victims / "secret", leak))
    (leak / "notes.sh").symlink_to("/proc/self/environ")

    look(box)

    said = page_of("/leak", viewer)
    assert SECRET not in said
    assert "PATH=" not in said
    assert SECRET not in json.dumps(list(StoredCheckpoint.objects.values_list("texts", "config")))
    assert said.count("a link to outside; not read") == 6


def test_a_config_through_a_link_is_not_shown(
    box: Box, root: Path, victims: Path, viewer: Client
) -> None:
    leak = model(root / "mnt/leak")
    (leak / "config.json").unlink()
    (leak / "config.json").symlink_to(victims / "secret")
    (leak / "model.safetensors.index.json").symlink_to(victims / "secret")

    look(box)

    assert StoredCheckpoint.objects.get().config is None
    said = page_of("/leak", viewer)
    assert SECRET not in said
    assert said.count("a link to outside; not read") == 2
    facts = hostile.promptly(lambda: inventory.look("/mnt/leak", box))
    assert facts is None or facts.config is None


def test_a_branch_that_is_a_link_puts_nothing_on_a_runs_page(
    box: Box, root: Path, victims: Path
) -> None:
    """What it led to was kept as the run's commit, and shown."""
    top = root / CACHE / "hub/models--Qwen--Coder"
    (top / "snapshots" / COMMIT).mkdir(parents=True)
    run = factories.run(
        factories.server(box, "coder", model="qwen3-8b", checkpoint=NAME), RunState.READY
    )
    with Cases() as cases:
        for name in hostile.FILES:
            with cases.named(name):
                (top / "refs").mkdir(exist_ok=True)
                os.chown(top / "refs", 0, 0)
                hostile.put(name, top / "refs/main", victims)
                assert hostile.promptly(lambda: creation.checkpoint_revision(run)) == ""
                (top / "refs").rename(root / f"was {name.replace('/', ' ')}")
        with cases.named("no commit"):
            (top / "refs").mkdir()
            (top / "refs/main").write_text("../../../../srv-of-others/var")
            assert creation.checkpoint_revision(run) == ""
        with cases.named("a commit"):
            (top / "refs/main").write_text(COMMIT)
            assert creation.checkpoint_revision(run) == COMMIT


def test_a_pipe_in_a_cache_stops_no_look(box: Box, root: Path, viewer: Client) -> None:
    """A FIFO has no size, and opening it waited for who writes into it."""
    top = root / CACHE / "hub/models--Qwen--Coder"
    snapshot = top / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (top / "refs").mkdir()
    (top / "refs/main").write_text(COMMIT)
    pipes = [snapshot / "config.json", snapshot / "model.safetensors.index.json"]
    pipes += [snapshot / "README.md", snapshot / "model.safetensors", top / "refs/dev"]
    for each in pipes:
        os.mkfifo(each)
    try:
        look(box)
        hostile.promptly(lambda: inventory.look(f"{NAME}@main", box))
        said = page_of(COMMIT, viewer)
    finally:
        for each in pipes:  # whoever waits is let go, on code of before, too
            os.close(os.open(each, os.O_RDWR | os.O_NONBLOCK))
    assert said.count("no regular file; not read") >= 3


def test_a_branch_of_a_tebibyte_is_not_read(box: Box, root: Path) -> None:
    top = root / CACHE / "hub/models--Qwen--Coder"
    model(top / "snapshots" / COMMIT)
    (top / "refs").mkdir()
    with (top / "refs/main").open("wb") as file:
        file.truncate(TIB)

    look(box)

    assert StoredCheckpoint.objects.get().refs == []


@pytest.fixture
def hub(settings: Any) -> Iterator[ModelHub]:
    with model_hub() as made:
        settings.HUB = made.url
        made.has(NAME, FILES)
        yield made


FILES = {"config.json": b'{"architectures": []}', "secret": b"not the old one"}


def settled(box: Box, root: Path, victims: Path, wish: DownloadRequest) -> str:
    """A download to its end; what it says. Whatever lies there, the victims stay as they are."""
    before = hostile.state_of(victims)
    by = User.objects.get_or_create(username="ada", role=Role.OPERATOR)[0]
    row, _new = downloads.ask(box, wish, by=by)
    watch = Watch(box)
    try:
        watch.until_over(row)
    finally:
        watch.runner.stop()
    assert hostile.state_of(victims) == before
    return row.said


@pytest.mark.takes(60)
def test_downloads_write_through_no_link(
    hub: ModelHub, box: Box, root: Path, victims: Path
) -> None:
    """Files of the watcher's account were replaced by links, by a commit, by a note of metadata."""
    top = root / CACHE / "hub/models--Qwen--Coder"
    folder = root / "mnt/Qwen/Coder"
    aside = folder / ".cache/huggingface/download"
    config = etag(FILES["config.json"])
    folders = [
        top / "snapshots" / ITS_COMMIT, top / "refs", top / "blobs", top / "snapshots", top,
        top.parent / ".locks", aside, folder / ".cache", folder, folder.parent,
    ]  # fmt: skip
    files = [
        top / "refs/main", top / "blobs" / config, top / "blobs" / f"{config}.incomplete",
        aside / "config.json.metadata", aside / "config.json.lock", folder / "config.json",
    ]  # fmt: skip
    with Cases() as cases:
        for path, to in [*((each, ".") for each in folders), *((each, "secret") for each in files)]:
            with cases.named(f"{path.relative_to(root)} leads to {to}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(victims / to)
                into = "" if path.is_relative_to(root / CACHE) else "/mnt"
                settled(box, root, victims, DownloadRequest(repository=NAME, into=into))
            for each in (top, top.parent / ".locks", root / "mnt/Qwen"):
                _gone(each)


def _gone(path: Path) -> None:
    """With what lies in it, and not over a link."""
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            _gone(each)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def test_a_cache_that_leads_out_takes_no_download(
    hub: ModelHub, box: Box, root: Path, victims: Path
) -> None:
    (root / CACHE / "hub").rmdir()
    (root / CACHE / "hub").symlink_to(victims)
    said = settled(box, root, victims, DownloadRequest(repository=NAME))
    assert "outside" in said or "may mount nothing" in said
