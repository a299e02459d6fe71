"""Downloads from a Hub that stands here: killed, cut, spoiled, gated, and whole at the end."""

import fcntl
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from servers.host.weights.fetch import places, work
from servers.host.weights.fetch.places import DownloadSpec, FetchError
from servers.host.weights.fetch.work import HubDownload
from servers.host.weights.hub import look
from servers.host.weights.inventory import Inventory
from tests.box_files import anywhere, on_box
from tests.fetch_child import HeardChild
from tests.model_hub import COMMIT, EXPIRED, TOKEN, ModelHub, etag, model_hub
from tests.waiting import PATIENCE, wait_until
from tests.weights.test_inventory import weights

NAME = "Qwen/Coder"
MIB = 1 << 20


def shard(folder: Path, size: int, seed: int) -> bytes:
    """A safetensors file whose content no compression knows."""
    path = weights(folder / f"{seed}.safetensors", size)
    head = path.read_bytes()[:-size]
    return head + random.Random(seed).randbytes(size)  # noqa: S311


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return {
        "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
        "README.md": b"# Coder",
        "tokenizer.json": b"t" * 5000,
        "model-00001-of-00002.safetensors": shard(tmp_path, 3 * MIB, 1),
        "model-00002-of-00002.safetensors": shard(tmp_path, 2 * MIB, 2),
        "model.safetensors.index.json": b'{"weight_map": {"a": "model-00001-of-00002.safetensors",'
        b' "b": "model-00002-of-00002.safetensors"}}',
        "original/consolidated.pth": b"o" * 4000,
    }


@pytest.fixture
def hub(files: dict[str, bytes]) -> Iterator[ModelHub]:
    with model_hub() as made:
        made.has(NAME, files)
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    made = tmp_path / "hf" / "hub"
    made.mkdir(parents=True)
    return made


def job(hub: ModelHub, folder: Path, **more: Any) -> DownloadSpec:
    usual: dict[str, Any] = {
        "endpoint": hub.url, "repository": NAME, "revision": "main", "folder": str(folder),
        "layout": "cache", "shown": str(folder), "patience": 5.0, "below": ("/",),
    }  # fmt: skip
    return DownloadSpec(**usual | more)


def fetch(job: DownloadSpec) -> list[Mapping[str, Any]]:
    """Here, without a process of its own; what it has told."""
    told: list[Mapping[str, Any]] = []
    HubDownload(job, told.append).run()
    return told


def snapshot(cache: Path, name: str = NAME) -> dict[str, bytes]:
    top = cache / f"models--{name.replace('/', '--')}" / "snapshots" / COMMIT
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def usual(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if "original" not in name}


def test_a_model_lands_in_a_cache_as_hugging_face_lays_it_out(
    hub: ModelHub, cache: Path, files: dict[str, bytes]
) -> None:
    told = fetch(job(hub, cache))

    assert snapshot(cache) == usual(files)
    top = cache / "models--Qwen--Coder"
    assert (top / "refs/main").read_text() == COMMIT
    assert {each.name for each in (top / "blobs").iterdir()} == {
        etag(content) for content in usual(files).values()
    }
    link = top / "snapshots" / COMMIT / "config.json"
    assert os.readlink(link) == f"../../blobs/{etag(files['config.json'])}"  # noqa: PTH115
    assert told[0]["commit"] == COMMIT
    whole = sum(map(len, usual(files).values()))
    assert (told[-1]["done"], told[-1]["total"], told[-1]["looked"]) == (whole, whole, whole)
    found = Inventory().look(str(cache), anywhere()).found
    assert [(each.name, each.state, each.refs) for each in found] == [(NAME, "complete", ("main",))]


def test_a_token_stays_with_the_hub(hub: ModelHub, cache: Path) -> None:
    fetch(job(hub, cache, token=TOKEN))
    stored = [each for each in hub.asked if each.path.startswith("/store/")]
    assert stored
    assert {each.token for each in stored} == {""}
    assert {each.token for each in hub.asked if "/resolve/" in each.path} == {TOKEN}


def test_a_folder_of_models_gets_plain_files(
    hub: ModelHub, tmp_path: Path, files: dict[str, bytes]
) -> None:
    top = tmp_path / "models/Qwen/Coder"
    fetch(job(hub, top, layout="folder"))
    for name, content in usual(files).items():
        assert (top / name).read_bytes() == content
    note = (top / ".cache/huggingface/download/config.json.metadata").read_text().splitlines()
    assert note[:2] == [COMMIT, etag(files["config.json"])]
    assert [
        each.state for each in Inventory().look(str(tmp_path / "models"), anywhere()).found
    ] == ["complete"]


def wait_for_a_part(cache: Path) -> None:
    """What the Hub has sent lies in sockets' buffers first, and goes to the disk by chunks."""
    wait_until(
        lambda: any(each.stat().st_size for each in cache.rglob("*.incomplete")),
        "something comes to the disk",
    )


def test_five_kills_end_byte_identical(hub: ModelHub, cache: Path, files: dict[str, bytes]) -> None:
    whole = sum(map(len, usual(files).values()))
    for step in (40_000, 900_000, 1_500_000, 1_000_000, 1_200_000):
        hub.hold_after(step)
        heard = HeardChild(job(hub, cache, streams=2))
        hub.wait_until_held()
        if step > 2 * places.CHUNK:
            wait_for_a_part(cache)
        heard.child.kill()
    hub.release()
    assert snapshot(cache) != usual(files)

    heard = HeardChild(job(hub, cache))
    heard.until(lambda said: said["t"] == "done")
    heard.child.kill()

    assert snapshot(cache) == usual(files)
    assert not list(cache.rglob("*.incomplete"))
    # Each began where the one before was ended: at most what was on its way came twice.
    assert hub.sent < whole + 5 * 2 * MIB
    assert any(not each.startswith("bytes=0-") for each in hub.ranges())


def test_a_child_ends_with_whoever_has_started_it(hub: ModelHub, cache: Path) -> None:
    hub.hold_after(100_000)
    heard = HeardChild(job(hub, cache))
    hub.wait_until_held()
    process = heard.child._process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 1
    heard.child.kill()


def test_a_large_file_is_asked_for_in_pieces(
    hub: ModelHub, cache: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PIECE", MIB)
    fetch(job(hub, cache, patterns=("model-00001*",)))
    last = len(files["model-00001-of-00002.safetensors"]) - 1
    assert sorted(set(hub.ranges())) == sorted(
        f"bytes={at}-{min(at + MIB - 1, last)}" for at in range(0, last, MIB)
    )


def test_cut_connections_are_gone_on_from(
    hub: ModelHub, cache: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_PAUSES", (0.0,))
    hub.bad.cut_after, hub.bad.cuts = 300_000, 6
    hub.bad.statuses = [503, 429]
    fetch(job(hub, cache, streams=1))
    assert snapshot(cache) == usual(files)


def test_an_address_that_has_ended_is_signed_anew(
    hub: ModelHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_PAUSES", (0.0,))
    hub.bad.statuses = [403, 404]
    fetch(job(hub, cache, patterns=("model-00001*",)))
    assert len(snapshot(cache)) == 1
    resolved = [each for each in hub.asked if "/resolve/" in each.path and each.method == "GET"]
    assert len(resolved) == 3


def test_folders_that_root_has_left_are_named(
    hub: ModelHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: PurePosixPath, _where: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(places, "make_room_for", refuse)
    with pytest.raises(FetchError, match="may not write") as caught:
        fetch(job(hub, cache))
    assert "sudo chown -R" in caught.value.advice


def test_what_answers_no_ranges_is_read_from_the_beginning(
    hub: ModelHub, cache: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_PAUSES", (0.0,))
    hub.bad.no_ranges = True
    hub.bad.cut_after, hub.bad.cuts = 300_000, 2
    fetch(job(hub, cache, streams=1))
    assert snapshot(cache) == usual(files)


def test_a_wrong_byte_is_found_and_read_again(
    hub: ModelHub, cache: Path, files: dict[str, bytes]
) -> None:
    hub.bad.spoiled = {"model-00001-of-00002.safetensors": 1, "config.json": 1}
    fetch(job(hub, cache))
    assert snapshot(cache) == usual(files)


def test_a_byte_that_stays_wrong_is_told_and_nothing_of_it_kept(hub: ModelHub, cache: Path) -> None:
    hub.bad.spoiled = {"model-00002-of-00002.safetensors": 99}
    with pytest.raises(FetchError, match="arrived twice with another content") as caught:
        fetch(job(hub, cache))
    assert "proxy" in caught.value.advice
    top = cache / "models--Qwen--Coder"
    assert not (top / "refs").exists(), "main must not lead to what is not whole"
    assert not (top / "snapshots" / COMMIT / "model-00002-of-00002.safetensors").exists()


def test_a_broken_blob_of_before_is_mended(
    hub: ModelHub, cache: Path, files: dict[str, bytes]
) -> None:
    fetch(job(hub, cache))
    name = "model-00001-of-00002.safetensors"
    kept = cache / "models--Qwen--Coder/blobs" / etag(files[name])
    broken = bytearray(files[name])
    broken[-5] ^= 1
    kept.write_bytes(broken)
    sent = hub.sent
    fetch(job(hub, cache))
    assert snapshot(cache) == usual(files)
    assert hub.sent - sent == len(files[name])


def test_what_was_looked_through_is_not_looked_through_again(hub: ModelHub, cache: Path) -> None:
    told = fetch(job(hub, cache))
    pinned = next(each for each in told if each["t"] == "pinned")
    verified = {
        each["name"]: (each["size"], each["at"]) for each in told if each["t"] == "verified"
    }
    made = DownloadSpec.from_json(
        job(hub, cache, verified=verified, commit=COMMIT).to_json() | {"files": pinned["files"]}
    )
    hub.asked.clear()
    fetch(made)
    assert hub.asked == [], "nothing was left to ask"


def test_a_file_that_somebody_has_changed_is_left_alone(hub: ModelHub, tmp_path: Path) -> None:
    top = tmp_path / "models/Coder"
    top.mkdir(parents=True)
    (top / "config.json").write_text("{}")
    with pytest.raises(FetchError, match="another file than the Hub's config.json") as caught:
        fetch(job(hub, top, layout="folder"))
    assert "changed it by hand" in caught.value.advice
    assert (top / "config.json").read_text() == "{}"
    assert [each.name for each in top.iterdir()] == ["config.json"]
    # Of the same length: only its content tells.
    (top / "config.json").write_text("#" * 39)
    with pytest.raises(FetchError, match="another file"):
        fetch(job(hub, top, layout="folder"))
    assert (top / "config.json").read_text() == "#" * 39


def test_a_link_does_not_lead_a_download_elsewhere(hub: ModelHub, tmp_path: Path) -> None:
    top, outside = tmp_path / "models/Coder", tmp_path / "etc"
    outside.mkdir()
    top.mkdir(parents=True)
    (top / "original").symlink_to(outside)
    with pytest.raises(FetchError, match="somebody has put a link there"):
        fetch(job(hub, top, layout="folder", patterns=("original/*",)))
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/../../b", "a//b", "a\\b", ""])
def test_names_that_lead_elsewhere_are_refused(hub: ModelHub, cache: Path, name: str) -> None:
    hub.has(NAME, {name: b"x", "config.json": b"{}"})
    with pytest.raises(FetchError, match="which is no name of a file"):
        fetch(job(hub, cache))
    assert not list(cache.iterdir())


def test_a_token_that_is_over_is_told_and_no_model_is_called_private(
    hub: ModelHub, cache: Path
) -> None:
    with pytest.raises(FetchError, match="does not accept this box's HF_TOKEN") as caught:
        fetch(job(hub, cache, token=EXPIRED))
    assert f"{hub.url}/settings/tokens" in caught.value.advice
    found = look(hub.url, NAME, token=EXPIRED)
    assert found == replace(look(hub.url, NAME), access="expired")
    assert found.weights


def test_a_gated_model_is_explained_before_the_first_byte(
    hub: ModelHub, cache: Path, files: dict[str, bytes]
) -> None:
    hub.repositories[NAME].is_gated = True
    with pytest.raises(FetchError, match="is gated") as caught:
        fetch(job(hub, cache))
    assert f"Accept the licence at {hub.url}/{NAME}" in caught.value.advice
    # It is kept by one form, and means nothing until another one names it.
    assert "as HF_TOKEN, and chooses it there as this box's" in caught.value.advice
    with pytest.raises(FetchError, match="HF_TOKEN has not") as caught:
        fetch(job(hub, cache, token="hf_other"))
    assert "Log in with that account" in caught.value.advice
    assert hub.sent == 0
    assert not list(cache.iterdir())
    fetch(job(hub, cache, token=TOKEN))
    assert snapshot(cache) == usual(files)


def test_what_is_not_there_is_told_in_words(hub: ModelHub, cache: Path) -> None:
    for wish, words in [
        ({"repository": "Qwen/Codr"}, "shows no model Qwen/Codr to requests without a token"),
        ({"repository": "Qwen/Codr", "token": "hf_x"}, "to the account of this box's token"),
        ({"revision": "v9"}, "has no revision v9"),
        ({"repository": "../Codr"}, "is not the id of a model"),
        ({"revision": "../v9"}, "is not the name of a revision"),
        ({"patterns": ("*.gguf",)}, "No file of the repository is called"),
        ({"endpoint": "http://127.0.0.1:9"}, "does not answer"),
    ]:
        with pytest.raises(FetchError, match=words) as caught:
            fetch(job(hub, cache, **wish))  # type: ignore[arg-type]
        assert caught.value.advice
    assert not list(cache.iterdir())


def test_a_disk_that_is_too_small_is_told_first(hub: ModelHub, cache: Path) -> None:
    with pytest.raises(FetchError, match=r"are still to come .* other downloads still need"):
        fetch(job(hub, cache, others=((str(cache), 1 << 60),)))
    assert hub.sent == 0


def test_a_folder_that_may_not_be_written_is_told(
    hub: ModelHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_args, **_more: False)
    with pytest.raises(FetchError, match="may not write into") as caught:
        fetch(job(hub, cache))
    assert "setfacl" in caught.value.advice


def test_nothing_for_too_long_ends_it(
    hub: ModelHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_PAUSES", (0.0,))
    hub.bad.statuses = [503] * 10_000
    with pytest.raises(FetchError, match="does not answer: 127.0.0.1 answers 503"):
        fetch(job(hub, cache, patience=0.05))


def test_whoever_downloads_the_same_is_waited_for(
    hub: ModelHub, cache: Path, files: dict[str, bytes]
) -> None:
    made = job(hub, cache)
    where = places.HubCache(anywhere(), on_box(cache), NAME, COMMIT, "main")
    told = fetch(job(hub, cache, patterns=("README.md",)))
    config = etag(files["config.json"])
    lock = Path(where.lock(DownloadSpec.from_json(made.to_json() | {"files": [
        {"name": "config.json", "size": 1, "blob": config, "sha256": ""}
    ]}).files[0]))  # fmt: skip
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        heard = HeardChild(made)
        said = heard.until(lambda each: bool(each.get("trouble")))
        assert said["trouble"] == "Another program is downloading config.json."
        assert "config.json" not in snapshot(cache)
    heard.until(lambda each: each["t"] == "done")
    heard.child.kill()
    assert snapshot(cache) == usual(files)
    assert told


def test_a_child_is_told_another_pace(hub: ModelHub, cache: Path) -> None:
    """So slow that it would not end in this test; then as fast as it can."""
    heard = HeardChild(job(hub, cache, limit=1000))
    heard.until(lambda said: said.get("done", 0) > 1000)
    heard.child.limit(0)
    heard.until(lambda said: said["t"] == "done")
    heard.child.kill()
