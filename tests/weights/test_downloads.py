"""No engine tells of the download of its weights: the cache folder is watched."""

import json
from pathlib import Path
from typing import Any

import pytest

from servers.host.weights import checkpoints
from servers.judge.logs.phases.progress import PhaseProgress
from servers.judge.logs.phases.reader import Reader
from servers.lifecycle.runs import starts
from servers.models import Run
from servers.watcher.runs import start_tracker as watched
from servers.watcher.runs.start_tracker import DownloadMeter
from tests import factories
from tests.box_files import anywhere, on_box
from tests.runs.test_phases import started
from tests.runs.test_starts import fresh, page, starting_run

MIB = 1 << 20
COMMIT = "c0ffee" + "0" * 34
NAME = "openai/gpt-oss-120b"


class FilledHubCache:
    """A Hugging Face cache as huggingface_hub fills it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.hub = home / "hub"
        self.folder = self.hub / "models--openai--gpt-oss-120b"
        (self.folder / "blobs").mkdir(parents=True)
        (self.folder / "refs").mkdir()
        (self.folder / "refs" / "main").write_text(COMMIT)
        snapshot = self.folder / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        index = {"metadata": {"total_size": 64 * MIB}, "weight_map": {}}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))

    def write(self, name: str, mib: int) -> None:
        with (self.folder / "blobs" / name).open("ab") as file:
            file.write(b"\x01" * (mib * MIB))
            file.flush()


@pytest.fixture
def cache(tmp_path: Path) -> FilledHubCache:
    return FilledHubCache(tmp_path / "hf")


def test_unfinished_files_count_and_reserved_room_does_not(cache: FilledHubCache) -> None:
    assert checkpoints.read_cache_size(on_box(cache.hub), NAME, anywhere()) == 0
    cache.write("aa", 2)
    cache.write("bb.incomplete", 3)
    with (cache.folder / "blobs" / "cc.incomplete").open("wb") as file:
        file.truncate(900 * MIB)
    assert checkpoints.read_cache_size(on_box(cache.hub), NAME, anywhere()) == pytest.approx(
        5 * MIB, rel=0.05
    )
    assert checkpoints.sum_cache_sizes(on_box(cache.hub), NAME, anywhere()) == 64 * MIB


def test_what_is_not_there_has_no_size(cache: FilledHubCache) -> None:
    assert checkpoints.read_cache_size(on_box(cache.hub), "a/b", anywhere()) is None
    assert checkpoints.sum_cache_sizes(on_box(cache.hub), "a/b", anywhere()) is None
    (cache.folder / f"snapshots/{COMMIT}/model.safetensors.index.json").write_text("{}")
    assert checkpoints.sum_cache_sizes(on_box(cache.hub), NAME, anywhere()) is None


@pytest.mark.django_db(transaction=True)
def test_a_growing_cache_is_a_phase_until_the_weights_are_read(
    own_redis: object,
    cache: FilledHubCache,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    tmp_path: Path,
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text(f'mount_roots = ["{tmp_path}"]\n')
    monkeypatch.setattr(watched, "EVERY", 0.0)
    on = factories.server(factories.box(hf_cache=str(cache.home)), model="gpt-oss-120b")
    run = starting_run(on)
    measured = DownloadMeter()

    def look(progress: PhaseProgress) -> Run:
        measured.look(fresh(run), progress)
        return fresh(run)

    cache.write("aa", 8)
    assert starts.read_download(look(PhaseProgress())) is None, (
        "what was there before is no download"
    )
    cache.write("bb.incomplete", 16)
    now = look(PhaseProgress())
    download = starts.read_download(now)
    assert download is not None
    assert download.ended is None
    assert download.size == pytest.approx(24 * MIB, rel=0.05)
    assert download.total == 64 * MIB
    assert (download.rate or 0) > 0
    assert [each.phase for each in starts.list_stretches(now)] == ["starting", "downloading"]
    assert "Downloading weights 37&nbsp;%, 0.0 of 0.1 GiB, " in page(on)

    reader = Reader("vllm")
    reader.feed_all((n, line, "") for n, line in enumerate(started("vllm")[:7], 1))
    assert look(reader.progress).start.download_ended_at is not None
