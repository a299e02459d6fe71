"""What lies on the disks of a box, found and told whether it is whole."""

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from servers.host.weights.inventory import FolderInventory, Inventory
from servers.host.weights.stored import Checkpoint
from tests.box_files import anywhere

GIB = 2**30
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 40960}


def weights(path: Path, size: int = 4096, *, cut: int = 0) -> Path:
    """A safetensors file whose header says how long it is; sparse, so that it may be large."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    header = json.dumps(tensors).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size - cut)
    return path


def gguf(path: Path, *, values: int = 64, cut: int = 0) -> Path:
    """One tensor of 32-bit numbers, after an empty header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensor = struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, values, 0, 0)
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor
    header += bytes(-len(header) % 32)
    path.write_bytes((header + bytes(4 * values))[: len(header) + 4 * values - cut])
    return path


def folder(path: Path, *names: str, config: Any = CONFIG, index: bool = False) -> Path:
    path.mkdir(parents=True)
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    for name in names:
        weights(path / name)
    if index:
        told = {"weight_map": {f"t{each}": name for each, name in enumerate(names)}}
        (path / "model.safetensors.index.json").write_text(json.dumps(told))
    return path


def hub(cache: Path, name: str, commit: str = "a" * 40, *, ref: str = "main") -> Path:
    """An empty snapshot of a repository, as huggingface_hub lays it down."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / ref).write_text(commit)
    (repository / "blobs").mkdir(exist_ok=True)
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    return snapshot


def blob(snapshot: Path, name: str, content: bytes | int) -> Path:
    """A file of a snapshot: a link to a blob, whose name is its hash."""
    blobs = snapshot.parent.parent / "blobs"
    kept = blobs / f"sha-{name.replace('/', '-')}"
    if isinstance(content, int):
        weights(kept, content)
    else:
        kept.write_bytes(content)
    (snapshot / name).symlink_to(os.path.relpath(kept, snapshot))
    return kept


def look(top: Path) -> FolderInventory:
    return Inventory().look(str(top), anywhere())


def only(stock: FolderInventory) -> Checkpoint:
    assert len(stock.found) == 1, [each.path for each in stock.found]
    return stock.found[0]


def test_a_folder_with_a_config_and_weights_is_a_checkpoint(tmp_path: Path) -> None:
    made = folder(tmp_path / "lukealonso" / "MiniMax-M2.5-NVFP4", "a.safetensors", "b.safetensors")
    (made / "LICENSE.md").write_text("MIT")
    (made / "README.md").write_text("# Run it\n```\nvllm serve .\n```\n")
    (made / "run_server.sh").write_text("#!/bin/sh\nvllm serve .\n")

    found = only(look(tmp_path))

    assert (found.path, found.name) == (str(made), "lukealonso/MiniMax-M2.5-NVFP4")
    assert (found.state, found.because, found.missing) == ("complete", "", None)
    assert (found.format, found.files, found.is_hub) == ("safetensors", 2, False)
    assert found.weights < found.size
    assert found.config == CONFIG
    assert (found.licence, list(found.texts)) == ("LICENSE.md", ["README.md", "run_server.sh"])
    assert "vllm serve" in found.texts["README.md"]


def test_what_has_no_weights_or_no_config_is_none(tmp_path: Path) -> None:
    folder(tmp_path / "tokenizer")
    folder(tmp_path / "dataset", "a.safetensors", config=None)
    (tmp_path / "dataset" / "optimizer.pt").write_bytes(b"x")
    assert look(tmp_path).found == ()


def test_without_an_index_the_names_of_the_parts_tell_how_many_there_are(tmp_path: Path) -> None:
    parts = [f"model-0000{number}-of-00004.safetensors" for number in (1, 2, 3, 4)]
    made = folder(tmp_path / "m", *parts)
    assert only(look(tmp_path)).state == "complete"

    (made / parts[1]).unlink()
    one = only(look(tmp_path))
    (made / parts[3]).unlink()
    two = only(look(tmp_path))

    assert (one.state, one.because) == ("partial", f"{parts[1]} is missing")
    assert (two.state, two.because) == (
        "partial", f"2 of 4 files are missing, {parts[1]} among them",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "q.gguf"])
def test_a_pointer_of_git_is_no_file_of_weights(tmp_path: Path, name: str) -> None:
    """What a git clone without Git LFS leaves."""
    made = folder(tmp_path / "m")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4f2c\nsize 4976698672\n"
    (made / name).write_text(pointer)

    found = only(look(tmp_path))

    assert (found.state, found.because) == (
        "partial", f"{name} is git’s pointer to it: git lfs pull gets the file itself",
    )  # fmt: skip


def test_files_that_the_index_names_and_that_are_not_there_are_missing(tmp_path: Path) -> None:
    made = folder(tmp_path / "m", "a.safetensors", "b.safetensors", "c.safetensors", index=True)
    assert only(look(tmp_path)).state == "complete"

    (made / "b.safetensors").unlink()
    found = only(look(tmp_path))
    assert (found.state, found.because) == ("partial", "b.safetensors is missing")

    (made / "a.safetensors").unlink()
    found = only(look(tmp_path))
    assert found.because == "2 of 3 files are missing, a.safetensors among them"


def test_a_file_that_is_shorter_than_its_header_says_is_cut_off(tmp_path: Path) -> None:
    made = folder(tmp_path / "m", "a.safetensors")
    weights(made / "b.safetensors", 4 * GIB, cut=3 * GIB)
    found = only(look(tmp_path))
    assert (found.state, found.because) == ("partial", "b.safetensors is cut off: 1.0 of 4.0 GiB")

    (made / "b.safetensors").write_bytes(b"<html>404</html>")
    because = only(look(tmp_path)).because
    assert because == "b.safetensors is cut off: not even its header is whole"


def test_each_header_is_read_once_until_the_file_changes(tmp_path: Path) -> None:
    made = folder(tmp_path / "m", "a.safetensors")
    again = Inventory()
    assert only(again.look(str(tmp_path), anywhere())).state == "complete"

    # The same size and time, so that only reading it once more could tell.
    file = made / "a.safetensors"
    before = file.stat()
    file.write_bytes(bytes(before.st_size))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert only(again.look(str(tmp_path), anywhere())).state == "complete"

    os.utime(file)
    assert only(again.look(str(tmp_path), anywhere())).state == "partial"


def test_a_hub_cache_is_read_by_revision(tmp_path: Path) -> None:
    old = hub(tmp_path / "hub", "Qwen/Qwen3-8B", "a" * 40, ref="v1")
    blob(old, "config.json", json.dumps(CONFIG).encode())
    blob(old, "model.safetensors", 3 * GIB)
    new = hub(tmp_path / "hub", "Qwen/Qwen3-8B", "b" * 40)
    blob(new, "model-2.safetensors", 5 * GIB)

    first, second = look(tmp_path).found

    assert (first.name, first.revision, first.refs) == ("Qwen/Qwen3-8B", "a" * 40, ("v1",))
    assert (second.revision, second.refs, second.is_hub) == ("b" * 40, ("main",), True)
    assert (first.weights // GIB, second.weights // GIB) == (3, 5)
    assert first.state == second.state == "complete"
    assert first.path == str(old)


def test_a_download_that_has_not_ended_is_partial(tmp_path: Path) -> None:
    snapshot = hub(tmp_path, "zai-org/GLM-5")
    blob(snapshot, "config.json", json.dumps(CONFIG).encode())
    (snapshot.parent.parent / "blobs" / "abc.incomplete").write_bytes(b"x" * 10)
    found = only(look(tmp_path))
    assert (found.state, found.because) == ("partial", "a download has not ended: 1 file in part")

    kept = blob(snapshot, "model.safetensors", 9)
    kept.unlink()
    assert only(look(tmp_path)).because == "model.safetensors is missing"


def test_a_model_whose_licence_nobody_accepted_has_no_weights(tmp_path: Path) -> None:
    snapshot = hub(tmp_path, "meta-llama/Llama-4")
    blob(snapshot, "README.md", b"Accept the licence.")
    found = only(look(tmp_path))
    assert (found.state, found.weights, found.fingerprint) == ("without weights", 0, "")


def test_only_parts_of_blobs_are_a_download_that_began(tmp_path: Path) -> None:
    snapshot = hub(tmp_path, "zai-org/GLM-5")
    snapshot.rmdir()
    (snapshot.parent.parent / "blobs" / "abc.incomplete").write_bytes(b"x" * 10)
    found = only(look(tmp_path))
    assert (found.name, found.state, found.size) == ("zai-org/GLM-5", "partial", 10)


def test_a_download_into_a_folder_leaves_its_parts_beside_it(tmp_path: Path) -> None:
    made = folder(tmp_path / "m", "a.safetensors")
    parts = made / ".cache" / "huggingface" / "download"
    parts.mkdir(parents=True)
    (parts / "x.incomplete").write_bytes(b"x")
    assert only(look(tmp_path)).because == "a download has not ended: 1 file in part"


def test_each_quantization_of_a_gguf_repository_is_a_model_of_its_own(tmp_path: Path) -> None:
    gguf(tmp_path / "gemma" / "gemma-Q4_K_M.gguf")
    gguf(tmp_path / "gemma" / "gemma-Q8_0.gguf", cut=16)
    gguf(tmp_path / "gemma" / "mmproj-F16.gguf")
    parts = tmp_path / "gemma" / "UD-Q2"
    gguf(parts / "big-00001-of-00003.gguf")
    gguf(parts / "big-00002-of-00003.gguf")

    found = {each.name: each for each in look(tmp_path).found}

    assert sorted(found) == ["big", "gemma-Q4_K_M", "gemma-Q8_0"]
    assert found["gemma-Q4_K_M"].state == "complete"
    assert "is cut off" in found["gemma-Q8_0"].because
    assert found["big"].because == "2 of 3 parts are here"
    assert found["big"].path == str(parts / "big-00001-of-00003.gguf")
    assert found["big"].files == 2


def test_the_same_weights_in_two_folders_have_one_fingerprint(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder(tmp_path / name, "a.safetensors")
    folder(tmp_path / "three", "b.safetensors")
    one, three, two = look(tmp_path).found
    assert one.fingerprint == two.fingerprint != three.fingerprint


def test_modelscope_writes_dots_in_another_way(tmp_path: Path) -> None:
    folder(tmp_path / "hub" / "models" / "ZhipuAI" / "GLM-4___5-Air", "a.safetensors")
    assert only(look(tmp_path)).name == "ZhipuAI/GLM-4.5-Air"


def test_an_adapter_is_called_one(tmp_path: Path) -> None:
    made = folder(tmp_path / "lora", "adapter_model.safetensors", config=None)
    (made / "adapter_config.json").write_text("{}")
    assert only(look(tmp_path)).is_adapter


def test_links_are_followed_at_the_top_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    folder(tmp_path / "disk" / "m", "a.safetensors")
    (tmp_path / "disk" / "again").symlink_to("m")
    (tmp_path / "models").symlink_to("disk")
    assert only(look(tmp_path / "models")).path == str(tmp_path / "disk" / "m")


def test_paths_are_the_boxs_where_it_is_seen_under_a_folder(tmp_path: Path) -> None:
    folder(tmp_path / "host" / "mnt" / "m", "a.safetensors")
    (tmp_path / "host" / "models").symlink_to("/mnt")
    stock = Inventory().look("/models", anywhere(tmp_path / "host"))
    assert only(stock).path == "/mnt/m"


def test_a_folder_that_is_not_there_is_absent(tmp_path: Path) -> None:
    assert look(tmp_path / "none").absent
    (tmp_path / "loop").symlink_to("loop")
    assert look(tmp_path / "loop").absent


def test_a_search_that_takes_too_long_says_that_it_was_cut(tmp_path: Path) -> None:
    folder(tmp_path / "m", "a.safetensors")
    stock = Inventory().look(str(tmp_path), anywhere(), seconds=0.0)
    assert stock.is_cut
    assert stock.found == ()


def test_a_home_that_may_not_be_read_is_told() -> None:
    # Not below pytest's own folder, into which nobody else may look.
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        top.chmod(0o755)
        folder(top / "team" / "m", "a.safetensors")
        (top / "eva").mkdir(mode=0o000)
        as_nobody = (
            "import os, sys; from servers.host.weights.inventory import Inventory;"
            "from tests.box_files import anywhere;"
            "os.geteuid() or os.setuid(65534); found = Inventory().look(sys.argv[1], anywhere());"
            "print([each.name for each in found.found], found.hidden)"
        )
        said = subprocess.run(
            [sys.executable, "-c", as_nobody, made], capture_output=True, text=True, check=True
        )
    assert said.stdout.strip() == f"['team/m'] ('{top}/eva',)"
