"""Downloads as people want them and as the watcher moves them: paused, killed, cancelled, whole."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.lifecycle.weights import downloads
from servers.lifecycle.weights.downloads import DownloadRequest, DownloadRequestError
from servers.models import (
    AuditEntry,
    Box,
    Download,
    ModelInventory,
    Role,
    Secret,
    StoredCheckpoint,
    User,
)
from servers.models.jobs import JobState
from tests import factories, jobs
from tests.model_hub import TOKEN, ModelHub, model_hub
from tests.waiting import wait_until
from tests.weights.test_fetch import MIB, NAME, shard, snapshot

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

CACHE = "home/ada/.cache/huggingface/hub"


@pytest.fixture
def root(root: Path) -> Path:
    (root / "home/ada/.cache").mkdir(parents=True)
    (root / "mnt").mkdir()
    return root


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return {
        "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
        "model.safetensors": shard(tmp_path, 2 * MIB, 1),
    }


@pytest.fixture
def hub(settings: Any, files: dict[str, bytes]) -> Iterator[ModelHub]:
    with model_hub() as made:
        settings.HUB = made.url
        made.has(NAME, files)
        yield made


@pytest.fixture
def box(root: Path) -> Box:
    return factories.box(hf_cache="~/.cache/huggingface")


@pytest.fixture
def ada() -> User:
    return User.objects.create(username="ada", role=Role.OPERATOR)


class Watch:
    """The watcher's part."""

    def __init__(self, box: Box) -> None:
        self.runner = jobs.runner(box)

    def until(self, is_it: Callable[[Download], bool], row: Download) -> Download:
        def is_so() -> bool:
            self.runner.step()
            row.refresh_from_db()
            return is_it(row)

        wait_until(is_so, lambda: (row.state, row.said))
        return row

    def until_over(self, row: Download) -> Download:
        return self.until(lambda found: found.is_over, row)


@pytest.fixture
def watch(box: Box) -> Iterator[Watch]:
    made = Watch(box)
    yield made
    made.runner.stop()


def test_a_wish_is_done_and_listed_at_once(
    hub: ModelHub, box: Box, ada: User, watch: Watch, root: Path, files: dict[str, bytes]
) -> None:
    row, is_new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
    assert is_new
    again, is_new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
    assert (again, is_new) == (row, False)

    watch.until_over(row)

    assert (row.state, row.said) == (
        "done", "All of it is in /home/ada/.cache/huggingface/hub, and looked through.",
    )  # fmt: skip
    assert row.done == row.total == row.looked == sum(map(len, files.values()))
    assert snapshot(root / CACHE) == files
    stored = StoredCheckpoint.objects.get()
    assert (stored.name, stored.state, stored.is_hub) == (NAME, "complete", True)
    assert ModelInventory.objects.get().is_wanted, "and everything is looked at again"
    assert [each.action for each in AuditEntry.objects.all()] == ["download done", "download"]


def test_a_pause_holds_it_and_it_goes_on(
    hub: ModelHub, box: Box, ada: User, watch: Watch, root: Path, files: dict[str, bytes]
) -> None:
    hub.hold_after(600_000)
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
    watch.until(lambda found: found.done > 500_000 and "config.json" in found.verified, row)
    downloads.pause(row, by=ada)
    watch.until(lambda found: found.state == JobState.PAUSED, row)
    watch.runner.wait()
    assert (row.rate, row.commit) == (None, "c0ffee" + "0" * 34)
    there = row.done
    assert 500_000 < there < len(files["model.safetensors"])

    # Whatever becomes of the watcher meanwhile.
    watch.runner.stop()
    hub.release()
    hub.asked.clear()
    downloads.resume(row, by=ada)
    other = Watch(box)
    other.until_over(row)
    assert row.state == "done"
    assert snapshot(root / CACHE) == files
    assert [each for each in hub.asked if each.path.startswith("/api/")] == [], "it is pinned"
    assert hub.ranges()
    assert not hub.ranges()[0].startswith("bytes=0-")


def test_a_watcher_that_was_killed_is_followed_by_the_next(
    hub: ModelHub, box: Box, ada: User, watch: Watch, root: Path, files: dict[str, bytes]
) -> None:
    hub.hold_after(300_000)
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
    watch.until(lambda found: found.done > 200_000, row)
    watch.runner.stop()
    hub.release()
    assert row.state == JobState.DOWNLOADING
    second = Watch(box)
    second.until_over(row)
    assert (row.state, snapshot(root / CACHE)) == ("done", files)


def test_a_cancelled_one_says_what_it_leaves(
    hub: ModelHub, box: Box, ada: User, watch: Watch, root: Path
) -> None:
    hub.hold_after(600_000)
    for drops in (False, True):
        row, _new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
        watch.until(lambda found: found.done > 500_000 and "config.json" in found.verified, row)
        downloads.cancel(row, by=ada, drop_parts=drops)
        watch.until_over(row)
        assert row.state == JobState.CANCELLED
        parts = list((root / CACHE).rglob("*.incomplete"))
        assert len(parts) == (0 if drops else 1)
        assert ("were deleted" if drops else "unfinished files stay") in row.said
        stays = r"1 whole file \(\d+ bytes\) stays in /home/ada/.cache/huggingface/hub"
        assert re.search(stays, row.said)
        # Pressing anything else now changes nothing.
        downloads.pause(row, by=ada)
        row.refresh_from_db()
        assert row.state == JobState.CANCELLED
    downloads.resume(row, by=ada)
    hub.release()
    watch.until_over(row)
    assert row.state == "done"


def test_what_was_never_begun_is_cancelled_too(hub: ModelHub, box: Box, ada: User) -> None:
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
    downloads.cancel(row, by=ada, drop_parts=True)
    jobs.obey(box)
    row.refresh_from_db()
    assert (row.state, row.said) == ("cancelled", "Nothing of it was begun.")


def test_a_licence_is_told_and_tried_again_with_a_token(
    hub: ModelHub, box: Box, ada: User, watch: Watch
) -> None:
    hub.repositories[NAME].is_gated = True
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME), by=ada)
    watch.until_over(row)
    assert row.state == JobState.FAILED
    assert "is gated" in row.said
    assert f"{hub.url}/{NAME}" in row.advice
    box.hf_token = Secret.seal("HF_TOKEN", TOKEN, None)
    box.save()
    downloads.resume(row, by=ada)
    watch.until_over(row)
    assert row.state == "done"
    assert TOKEN not in str(list(Download.objects.values()))


def test_a_folder_of_the_box_and_nothing_beside_it(
    hub: ModelHub, box: Box, ada: User, watch: Watch, root: Path, files: dict[str, bytes]
) -> None:
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME, into="/mnt"), by=ada)
    watch.until_over(row)
    assert (row.state, row.folder) == ("done", f"/mnt/{NAME}")
    assert (root / "mnt" / NAME / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert StoredCheckpoint.objects.get().path == f"/mnt/{NAME}"
    typed, _new = downloads.ask(
        box, DownloadRequest(repository=NAME, into="~/.cache/huggingface/"), by=ada
    )
    watch.until_over(typed)
    assert (typed.state, typed.folder) == ("done", "/home/ada/.cache/huggingface/hub")
    for into in ("/etc", "/mnt/../etc", "/home"):
        bad, _new = downloads.ask(box, DownloadRequest(repository=NAME, into=into), by=ada)
        watch.until_over(bad)
        assert bad.state == JobState.FAILED
        assert "is not among the folders with models of rtx8" in bad.said
    assert not (root / "etc").exists()


def test_a_folder_that_leads_elsewhere_takes_nothing(
    hub: ModelHub, box: Box, ada: User, watch: Watch, root: Path
) -> None:
    (root / "etc").mkdir()
    (root / "mnt/models").symlink_to("/etc")
    box.model_folders = "/mnt/models"
    box.save()
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME, into="/mnt/models"), by=ada)
    watch.until_over(row)
    assert row.state == JobState.FAILED
    assert "lies outside the folders that this box lets profiles mount" in row.said
    assert not list((root / "etc").iterdir())


def test_two_at_once_and_the_others_wait(
    hub: ModelHub, box: Box, ada: User, watch: Watch, files: dict[str, bytes]
) -> None:
    rows = []
    hub.hold_after(0)
    for name in ("a/one", "a/two", "a/three"):
        hub.has(name, files)
        rows.append(downloads.ask(box, DownloadRequest(repository=name), by=ada)[0])
    watch.until(lambda row: row.total is not None, rows[1])
    assert [row.state for row in Download.objects.all()][2] == "asked"
    hub.release()
    for row in rows:
        watch.until_over(row)
        assert row.state == "done"


def test_the_pace_is_changed_while_it_runs(
    hub: ModelHub, box: Box, ada: User, watch: Watch
) -> None:
    row, _new = downloads.ask(box, DownloadRequest(repository=NAME, limit=1000), by=ada)
    watch.until(lambda found: found.done > 1000, row)
    downloads.limit(row, 0, by=ada)
    watch.until_over(row)
    assert row.state == "done"


def test_an_offline_inferdash_wants_nothing(box: Box, ada: User, settings: Any) -> None:
    settings.HUB = ""
    with pytest.raises(DownloadRequestError, match="INFERDASH_HUB is off"):
        downloads.ask(box, DownloadRequest(repository=NAME), by=ada)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", "")),
        (" https://huggingface.co/Qwen/Qwen3-8B ", ("Qwen/Qwen3-8B", "")),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/v1?x=1#a", ("Qwen/Qwen3-8B", "v1")),
        ("hf.co/unsloth/gemma-GGUF:Q4_K_M", ("unsloth/gemma-GGUF:Q4_K_M", "")),
        ("gpt2", ("gpt2", "")),
    ],
)
def test_names_are_read_as_people_paste_them(text: str, found: tuple[str, str]) -> None:
    assert downloads.read_name(text) == found


@pytest.mark.parametrize(
    "text", ["", "../etc", "a b", "https://huggingface.co/datasets/a/b", "/mnt/models/x", "a/b\0"]
)
def test_what_is_no_model_is_told(text: str) -> None:
    with pytest.raises(DownloadRequestError):
        downloads.read_name(text)
