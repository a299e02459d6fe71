"""The estimate beside what llama.cpp b7777 really held of an H200 (2026-11; docs/memory-fit.md).

The files had these models' shapes and no weights but zeros: what is held is the same.
"""

from collections.abc import Callable
from io import BytesIO

from servers.host.weights import gguf
from servers.judge.weights.fit.estimate import estimate
from tests.cases import table
from tests.llamacpp.gguf_file import Pairs, header, tensor_info
from tests.weights.fit.models import GIB, subject

CARD = ("NVIDIA H200", "9.0", 150754820096)
FREE = 150109880320 / GIB
Q4_0, Q8_0, F16, Q6_K = 2, 8, 1, 14


def config_of(
    arch: str,
    vocabulary: int,
    embedding: int,  # its type
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    inner: int,
    context: int,
    **more: int,
) -> dict[str, object]:
    pairs: Pairs = {
        "general.architecture": arch,
        f"{arch}.block_count": layers,
        f"{arch}.context_length": context,
        f"{arch}.embedding_length": hidden,
        f"{arch}.feed_forward_length": inner,
        f"{arch}.attention.head_count": heads,
        f"{arch}.attention.head_count_kv": kv_heads,
        f"{arch}.attention.key_length": 128,
        f"{arch}.attention.value_length": 128,
        "tokenizer.ggml.tokens": ["a"] * vocabulary,
        **{f"{arch}.{name.replace('__', '.')}": value for name, value in more.items()},
    }
    names = ["token_embd.weight", *(["output.weight"] if arch != "gemma3" else [])]
    infos = b"".join(tensor_info(name, (hidden, vocabulary), embedding) for name in names)
    return gguf.config(BytesIO(header(pairs, tensors=len(names)) + infos))


def llama_8b() -> dict[str, object]:
    return config_of(
        "llama", 128256, Q8_0, layers=32, hidden=4096, heads=32, kv_heads=8, inner=14336,
        context=131072,
    )  # fmt: skip


def llama_70b() -> dict[str, object]:
    return config_of(
        "llama", 128256, Q6_K, layers=80, hidden=8192, heads=64, kv_heads=8, inner=28672,
        context=131072,
    )  # fmt: skip


def qwen3_moe() -> dict[str, object]:
    return config_of(
        "qwen3moe", 151936, Q4_0, layers=48, hidden=2048, heads=32, kv_heads=4, inner=6144,
        context=40960, expert_count=128, expert_used_count=8, expert_feed_forward_length=768,
    )  # fmt: skip


def gemma3() -> dict[str, object]:
    return config_of(
        "gemma3", 262144, Q4_0, layers=62, hidden=5376, heads=32, kv_heads=16, inner=21504,
        context=131072, attention__sliding_window=1024,
    )  # fmt: skip


def qwen3_8b() -> dict[str, object]:
    return config_of(
        "qwen3", 151936, F16, layers=36, hidden=4096, heads=32, kv_heads=8, inner=12288,
        context=40960,
    )  # fmt: skip


@table(
    ("config", "flags", "size", "held"),
    [
        # Its flags, the file in GiB, what the process held in GiB after a prompt of 8,000 tokens.
        (llama_8b, "-c 8192 -np 1", 7.949, 9.14),
        (llama_8b, "-c 131072 -np 1", 7.949, 24.25),
        (llama_8b, "-c 65536 -np 8", 7.949, 16.14),
        (llama_8b, "-c 65536 -np 1 -ctk q8_0 -ctv q8_0", 7.949, 12.62),
        (llama_8b, "-c 32768 -np 1 -fa off", 7.949, 14.44),
        (llama_8b, "", 7.949, 24.25),
        (qwen3_moe, "-c 40960 -np 1", 16.038, 20.44),
        (qwen3_moe, "-c 40960 -np 1 -b 4096 -ub 4096", 16.038, 21.35),
        (gemma3, "-c 131072 -np 1", 14.158, 25.65),
        (qwen3_8b, "-c 40960 -np 4", 15.259, 20.52),
        (llama_70b, "-c 32768 -np 1", 37.472, 47.51),
    ],
)
def test_llama_cpp_holds_what_was_estimated(
    config: Callable[[], dict[str, object]], flags: str, size: float, held: float
) -> None:
    asked = subject(
        "llamacpp", *flags.split(), config=config(), weights=size * GIB, card=CARD, free=(FREE,)
    )
    found = estimate(asked, None)
    assert found is not None
    kinds = ("weights", "overhead", "request", "cache")
    estimated = sum(part.size for part in found.parts if part.kind in kinds) / GIB
    assert 0 < estimated - held < 0.6, f"{estimated:.2f} GiB"
