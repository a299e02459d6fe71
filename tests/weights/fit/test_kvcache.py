"""What a token takes of the KV cache: against what engines have printed, and what is published."""

from typing import Any

import pytest

from servers.judge.weights.fit.attention import cache
from tests.cases import table
from tests.weights.fit import models
from tests.weights.fit.models import GIB


@table(
    ("config", "tp", "bytes_a_token"),
    [
        (models.LLAMA_8B, 1, 131_072),
        (models.LLAMA_8B, 8, 16_384),
        (models.LLAMA_8B, 16, 16_384),  # eight heads: each stands on two GPUs
        (models.DEEPSEEK_V3, 1, 576 * 61 * 2),
        (models.DEEPSEEK_V3, 8, 576 * 61 * 2),  # a latent is not divided
        (models.QWEN3_30B, 1, 98_304),
        (models.QWEN3_235B, 4, 48_128),
        (models.MINIMAX_M2, 2, 126_976),
        (models.GPT_OSS_120B, 1, 18 * 8 * 64 * 2 * 2),
        (models.NEMOTRON_H_8B, 1, 4 * 8 * 128 * 2 * 2),
    ],
)
def test_a_token_takes_what_is_published(
    config: dict[str, Any], tp: int, bytes_a_token: int
) -> None:
    found = cache(config, dtype=2, tp=tp, pp=1)

    assert found is not None
    assert found.token == bytes_a_token


@pytest.mark.parametrize(
    ("config", "dtype", "tp", "tokens", "gib"),
    [
        # vllm#27313: "GPU KV cache size: 162,704 tokens", "Available KV cache memory: 11.17 GiB"
        (models.QWEN3_8B, 2, 2, 162_704, 11.17),
        # The error of vLLM for 262144 tokens: 24.0 GiB; 34736 of them have room in 3.18 GiB
        (models.QWEN3_30B, 2, 1, 262_144, 24.0),
        (models.QWEN3_30B, 2, 1, 34_736, 3.18),
        # vllm#21348: SGLang, "#tokens: 367404, K size: 8.23 GB, V size: 8.23 GB"
        (models.QWEN3_235B, 2, 4, 367_404, 16.46),
        # rtx6kpro's guide to GLM-5: "#tokens: 314304, KV size: 29.32 GB", with its index
        (models.GLM_5, 2, 8, 314_304, 29.32),
    ],
)
def test_a_cache_is_as_large_as_engines_have_printed(
    config: dict[str, Any], dtype: float, tp: int, tokens: int, gib: float
) -> None:
    found = cache(config, dtype=dtype, tp=tp, pp=1)

    assert found is not None
    assert found.token * tokens / GIB == pytest.approx(gib, rel=0.002)


def test_a_hybrid_model_keeps_a_state_for_each_request() -> None:
    # vLLM 0.24 with this model and an FP8 cache of 5.98 GiB: 4.33 requests of 131,072 tokens.
    found = cache(models.QWEN36_35B, dtype=1, tp=1, pp=1)

    assert found is not None
    assert found.token == 10 * 2 * 256 * 2
    assert found.request(131_072) / GIB == pytest.approx(5.98 / 4.333, rel=0.08)
    assert found.state == 30 * (3 * 8192 * 2 + 32 * 128 * 128 * 4)


def test_layers_with_a_window_stop_growing() -> None:
    found = cache(models.GPT_OSS_120B, dtype=2, tp=1, pp=1)

    assert found is not None
    assert found.window == found.token
    assert found.request(100_000) == found.token * 100_000 + found.window * 128
    assert found.request(100_000, chunk=2048) == found.token * 100_000 + found.window * 2176
    room = found.request(100_000)
    assert found.longest(room) == 100_000
    assert found.longest(found.token * 100) == 50  # both kinds grow at first
    assert found.longest(-1) == 0


def test_gemma_3_mixes_windows_by_a_pattern_and_gemma_4_has_other_heads_in_each() -> None:
    gemma3 = {
        "text_config": {
            "model_type": "gemma3_text", "num_hidden_layers": 62, "sliding_window": 1024,
            "sliding_window_pattern": 6, "num_attention_heads": 32, "num_key_value_heads": 16,
            "head_dim": 128, "hidden_size": 5376,
        }
    }  # fmt: skip
    found = cache(gemma3, dtype=2, tp=1, pp=1)
    assert found is not None
    assert (found.token, found.window) == (10 * 16 * 256 * 2, 52 * 16 * 256 * 2)

    gemma4 = {
        "text_config": {
            "num_hidden_layers": 60, "sliding_window": 1024, "num_attention_heads": 32,
            "num_key_value_heads": 16, "head_dim": 256, "global_head_dim": 512,
            "num_global_key_value_heads": 4, "hidden_size": 5376,
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
        }
    }  # fmt: skip
    found = cache(gemma4, dtype=2, tp=1, pp=1)
    assert found is not None
    assert (found.token, found.window) == (10 * 4 * 1024 * 2, 50 * 16 * 512 * 2)


def test_layers_that_read_the_cache_of_others_keep_none() -> None:
    shared = models.LLAMA_8B | {
        "layer_types": ["full_attention"] * 32,
        "num_kv_shared_layers": 12,
    }
    found = cache(shared, dtype=2, tp=1, pp=1)
    assert found is not None
    assert found.token == 20 * 4096


def test_a_pipelines_stage_keeps_its_own_layers() -> None:
    found = cache(models.DEEPSEEK_V3, dtype=2, tp=4, pp=2)

    assert found is not None
    assert found.token == 31 * 576 * 2


def test_an_fp8_cache_of_sparse_latents_carries_scales() -> None:
    found = cache(models.GLM_5, dtype=1, tp=8, pp=1, sparse_fp8=True)

    assert found is not None
    assert found.token == 78 * (656 + 132)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "deepseek_v4", "num_hidden_layers": 43, "compress_ratios": [4]},
        {"num_hidden_layers": 2, "layer_types": ["full_attention", "something_new"]},
        {"num_hidden_layers": 12, "full_attention_interval": 4, "num_attention_heads": 8,
         "hidden_size": 64},
        {"num_hidden_layers": 12, "num_attention_heads": [8, 16]},
        {"model_type": "mamba2", "num_hidden_layers": 12},
        {"model_type": "gemma2", "num_hidden_layers": 42, "sliding_window": 4096},
    ],
)  # fmt: skip
def test_what_config_json_does_not_say_is_not_guessed(config: dict[str, Any]) -> None:
    assert cache(config, dtype=2, tp=1, pp=1) is None
