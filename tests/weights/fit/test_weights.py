"""How many bytes of a checkpoint's weights each GPU holds."""

from typing import Any

import pytest

from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit import demand
from tests.weights.fit import models
from tests.weights.fit.models import GB, GIB, subject


def gib(engine: str, *flags: str, size: float, config: dict[str, Any], count: int = 8) -> float:
    asked = subject(engine, *flags, config=config, weights=size, count=count)
    found = demand.share_weights(LaunchFacts(asked))
    assert found is not None
    return found / GIB


def test_tensor_parallelism_divides_what_logs_say_it_divides() -> None:
    # vllm#17469: "Model loading took 14.2474 GiB" on each of four, 61.07 GB on disk.
    each = gib(
        "vllm", "--tensor-parallel-size", "4", size=61.07 * GB, config=models.QWEN3_30B
    )  # fmt: skip
    assert each == pytest.approx(14.25, abs=0.05)


def test_a_pipelines_longest_stage_counts() -> None:
    even = gib("vllm", "-pp", "2", size=100 * GIB, config=models.QWEN3_30B)
    odd = gib("vllm", "-pp", "2", size=100 * GIB, config=models.DEEPSEEK_V3)

    assert even == pytest.approx(50)
    assert odd == pytest.approx(100 * 31 / 61)


def test_replicas_have_their_own_copy_but_share_the_experts() -> None:
    dense = gib("vllm", "-dp", "4", size=16 * GIB, config=models.LLAMA_8B)
    mixture = gib("vllm", "-dp", "8", size=640 * GIB, config=models.DEEPSEEK_V3)

    assert dense == pytest.approx(16)
    # Nearly all of it is experts; attention is on every GPU.
    assert 80 < mixture < 120


def test_sglangs_attention_replicas_repeat_attention_alone() -> None:
    plain = gib("sglang", "--tp", "8", size=640 * GIB, config=models.DEEPSEEK_V3)
    repeated = gib(
        "sglang", "--tp", "8", "--dp", "8", "--enable-dp-attention",
        size=640 * GIB, config=models.DEEPSEEK_V3,
    )  # fmt: skip

    assert plain == pytest.approx(80)
    assert 80 < repeated < 120


def test_weights_that_the_engine_quantizes_are_smaller_but_for_embeddings() -> None:
    as_stored = gib("vllm", size=15 * GIB, config=models.LLAMA_8B)
    made = gib("vllm", "--quantization", "fp8", size=15 * GIB, config=models.LLAMA_8B)
    stored_so = models.QWEN3_235B  # FP8 already

    assert as_stored == pytest.approx(15)
    assert 7.9 < made < 9.1
    kept = gib("vllm", "--quantization", "fp8", size=220 * GIB, config=stored_so)
    assert kept == pytest.approx(220)


def test_what_is_stored_in_32_bits_runs_in_16() -> None:
    wide = models.LLAMA_8B | {"torch_dtype": "float32"}

    assert gib("vllm", size=30 * GIB, config=wide) == pytest.approx(15)
    assert gib("vllm", "--dtype", "float32", size=30 * GIB, config=wide) == pytest.approx(30)


def test_what_stays_in_main_memory_is_not_on_the_gpu() -> None:
    each = gib("vllm", "--cpu-offload-gb", "5", size=15 * GIB, config=models.LLAMA_8B)

    assert each == pytest.approx(10)


@pytest.mark.parametrize(
    "flags",
    [
        ("--speculative-config", '{"model": "org/draft", "num_speculative_tokens": 3}'),
        ("--speculative-draft-model-path", "org/draft"),
    ],
)
def test_a_draft_model_is_said_not_to_be_counted(flags: tuple[str, ...]) -> None:
    engine = "vllm" if "config" in flags[0] else "sglang"
    assert demand.explain_unknown_weights(LaunchFacts(subject(engine, *flags))) == (
        "the draft model's weights",
    )
    mtp = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}')
    assert demand.explain_unknown_weights(LaunchFacts(subject("vllm", *mtp))) == ()
