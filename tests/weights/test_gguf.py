"""What the header of a GGUF file says, byte by byte as the format's specification has it."""

import struct
from pathlib import Path
from typing import Any

import pytest

from servers.host.weights import checkpoints, gguf
from servers.judge.weights.fit.attention import cache
from tests.box_files import anywhere, on_box
from tests.cases import table
from tests.llamacpp.gguf_file import Pairs, header, tensor_info, text

QWEN: Pairs = {
    "general.architecture": "qwen3",
    "qwen3.block_count": 36,
    "qwen3.context_length": 40960,
    "qwen3.embedding_length": 4096,
    "qwen3.feed_forward_length": 12288,
    "qwen3.attention.head_count": 32,
    "qwen3.attention.head_count_kv": 8,
    "qwen3.attention.key_length": 128,
    "qwen3.attention.value_length": 128,
    "qwen3.rope.freq_base": 1e6,
    "tokenizer.ggml.tokens": ["a", "bc"] * 1000,
    "tokenizer.ggml.scores": [0.5] * 3000,
    "tokenizer.ggml.add_bos_token": False,
}


def read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return gguf.config(file)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "qwen3-8b-q4_k_m.gguf"
    path.write_bytes(header(QWEN) + b"\0" * 5000)
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_reads_as_a_config(tmp_path: Path, version: int) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(header(QWEN, version=version))

    found = read(path)

    assert found["model_type"] == "qwen3"
    assert found["vocab_size"] == 2000
    assert found["max_position_embeddings"] == 40960
    kept = cache(found, dtype=2, tp=1, pp=1)
    assert kept is not None
    assert kept.token == 36 * 8 * 256 * 2


def test_a_checkpoint_of_one_file_has_a_config_and_a_size(model: Path) -> None:
    found = checkpoints.look(on_box(model), anywhere())

    assert found is not None
    assert found.config is not None
    assert found.config["num_hidden_layers"] == 36
    assert found.weights == model.stat().st_size


def test_a_model_in_parts_is_as_large_as_all_of_them(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        path = tmp_path / f"m-0000{number}-of-00003.gguf"
        path.write_bytes((header(QWEN) if number == 1 else b"GGUF") + b"\0" * 1000 * number)
    (tmp_path / "other-00001-of-00003.gguf").write_bytes(b"\0" * 7)

    found = checkpoints.look(on_box(tmp_path / "m-00001-of-00003.gguf"), anywhere())

    assert found is not None
    assert found.weights == sum(each.stat().st_size for each in tmp_path.glob("m-*"))


def test_what_a_plain_reader_would_take_for_something_else_has_no_layers(tmp_path: Path) -> None:
    latent = QWEN | {
        "general.architecture": "deepseek2",
        "deepseek2.block_count": 61,
        "deepseek2.attention.kv_lora_rank": 512,
    }
    path = tmp_path / "deepseek.gguf"
    path.write_bytes(header(latent))

    assert cache(read(path), dtype=2, tp=1, pp=1) is None

    uneven = QWEN | {"qwen3.attention.head_count_kv": [8] * 35 + [0]}
    path.write_bytes(header(uneven))
    assert cache(read(path), dtype=2, tp=1, pp=1) is None


@table(
    "content",
    [
        b"",
        b"GGUF",
        b"PK\3\4 a zip file",
        b"GGUF" + struct.pack("<IQQ", 1, 1, 1),
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1 << 40),
        b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 1 << 62),
        header(QWEN)[:-40],
        header({"a": "b"})[:-1],
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("a") + struct.pack("<I", 99),
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("a") + struct.pack("<IIQ", 9, 8, 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 2) + b"\xff\xfe",
    ],
)
def test_what_is_no_header_is_refused_and_read_as_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)

    with pytest.raises(gguf.GgufError):
        read(path)
    found = checkpoints.look(on_box(path), anywhere())
    assert found == checkpoints.CheckpointFiles(config=None, weights=len(content))


@table(
    ("arch", "more", "windows"),
    [
        ("gemma3", {}, "sssssfsssssf"),
        ("gpt-oss", {}, "sfsfsfsfsfsf"),
        ("smallthinker", {}, "fsssfsssfsss"),
        ("olmo2", {"attention.sliding_window_pattern": 3}, "ssfssfssfssf"),
        ("step35", {"attention.sliding_window_pattern": [True, False] * 6}, "sfsfsfsfsfsf"),
        # Where nothing says which, and where there is no window.
        ("step35", {}, ""),
        ("phi3", {}, ""),
        ("gemma3", {"attention.sliding_window": 0}, ""),
    ],
)
def test_layers_with_a_window_are_told(
    tmp_path: Path, arch: str, more: dict[str, Any], windows: str
) -> None:
    says = {"block_count": 12, "attention.sliding_window": 1024, **more}
    pairs = {
        "general.architecture": arch,
        **{f"{arch}.{name}": said for name, said in says.items()},
    }
    path = tmp_path / "model.gguf"
    path.write_bytes(header(pairs, tensors=0))
    found = read(path)
    assert "".join(each[0] for each in found.get("layer_types", ())) == windows
    assert found.get("sliding_window", 0) == (
        0 if arch == "phi3" else says["attention.sliding_window"]
    )


def test_embeddings_stay_in_main_memory_where_the_output_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shape, q8 = (4096, 1000), 8
    embeddings = tensor_info("token_embd.weight", shape, q8)
    output = tensor_info("output.weight", shape, q8)
    path.write_bytes(header(QWEN, tensors=2) + embeddings + output)
    assert read(path)["host_bytes"] == 4096 * 1000 // 32 * 34
    path.write_bytes(header(QWEN, tensors=1) + embeddings)
    assert "host_bytes" not in read(path)
    path.write_bytes((header(QWEN, tensors=2) + embeddings + output)[:-5])
    assert "host_bytes" not in read(path)
