"""Whether a launch fits, against starts that are known to have worked and to have failed."""

from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest

from servers.judge.profiles.facts import Subject
from servers.judge.weights.fit.estimate import estimate
from servers.judge.weights.fit.result import Estimate, PastMeasurement
from tests.weights.fit import models
from tests.weights.fit.models import GB, GIB, subject


def judged(asked: Subject, past: PastMeasurement | None = None) -> Estimate:
    found = estimate(asked, past)
    assert found is not None
    return found


def number(found: Estimate, name: str) -> float:
    value = next(each.value for each in found.numbers if each.name == name)
    digits = value.removeprefix("about ").split(" ")[0]
    return float(digits.replace(",", ""))


def test_minimax_on_two_cards_gets_about_the_tokens_that_sglang_printed() -> None:
    # Dual RTX PRO 6000: max_total_num_tokens=181721, some 87 to 88 GB of each card in use.
    found = judged(
        subject("sglang", "--tp", "2", config=models.MINIMAX_M2, weights=130.6 * GB, count=2)
    )

    assert number(found, "Tokens that fit") == pytest.approx(181_721, rel=0.1)
    taken = sum(part.size for part in found.parts if part.kind in ("weights", "request", "cache"))
    assert taken / GB == pytest.approx(87.5, rel=0.06)
    assert found.verdict == "tight"  # a request of 196,608 tokens is longer than that
    assert "requests of 196,608 tokens" in found.says


def test_qwen_on_four_h100_leaves_about_what_vllm_printed() -> None:
    # vllm#21348: "Available KV cache memory: 8.11 GiB"
    found = judged(
        subject(
            "vllm", "--tensor-parallel-size", "4", "--gpu-memory-utilization", "0.9",
            config=models.QWEN3_235B, weights=236.4 * GB, card=models.H100, count=4,
        )
    )  # fmt: skip

    assert number(found, "Left for the KV cache") == pytest.approx(8.11, abs=2)
    assert found.verdict == "fits"


def test_gpt_oss_does_not_fit_one_h100_at_nine_tenths() -> None:
    # vllm#23278: "Available KV cache memory: -2.14 GiB"
    asked = subject(
        "vllm", "--gpu-memory-utilization", "0.9",
        config=models.GPT_OSS_120B, weights=65.97 * GIB, card=models.H100,
    )  # fmt: skip
    found = judged(asked)

    assert found.verdict == "no"
    assert number(found, "Left for the KV cache") == pytest.approx(-2.14, abs=1)
    assert found.lacking > 0
    assert found.fixes
    for fix in found.fixes:
        assert judged(replace(asked, launch=fix.apply(asked.launch))).verdict == "fits"


def test_weights_larger_than_sglangs_share_do_not_fit_whatever_their_cache() -> None:
    # DeepSeek-V4-Pro on eight H200 at 0.88: weights of 125.65 GB each; 0.9113 is the least.
    asked = subject(
        "sglang", "--tp", "8", "--mem-fraction-static", "0.88",
        config={"model_type": "deepseek_v4", "compress_ratios": [4]},
        weights=125.65 * GIB * 8, card=models.H200, count=8,
    )  # fmt: skip
    found = judged(asked)

    assert found.verdict == "no"
    assert "what a token takes of the KV cache" in found.unknown
    assert {"--mem-fraction-static": "0.95"} in [dict(fix.set_flags) for fix in found.fixes]


def test_a_context_that_has_no_room_is_shortened_by_one_click() -> None:
    # vLLM's own error: 24.0 GiB for one request, 3.18 available.
    asked = subject(
        "vllm", "--gpu-memory-utilization", "0.95", "--kv-cache-dtype", "bfloat16",
        config=models.QWEN3_30B, weights=61.1 * GB, card=("NVIDIA H100", "9.0", 70 * GIB),
    )  # fmt: skip
    found = judged(asked)

    assert found.verdict == "no"
    assert "one request of 262,144 tokens takes 24.0 GiB" in found.says
    shorter = [fix for fix in found.fixes if "--max-model-len" in fix.set_flags]
    assert shorter
    fixed = judged(replace(asked, launch=shorter[0].apply(asked.launch)))
    assert fixed.verdict == "fits"


def test_an_fp8_cache_is_offered_where_it_makes_it_fit() -> None:
    asked = subject(
        "vllm", "--gpu-memory-utilization", "0.9", "--max-num-seqs", "16",
        config=models.LLAMA_8B, weights=16.1 * GB, card=("RTX 5090", "12.0", 31 * GIB),
    )  # fmt: skip
    found = judged(asked)

    assert found.verdict == "no"
    first = found.fixes[0]
    assert dict(first.set_flags) == {"--kv-cache-dtype": "fp8"}
    assert judged(replace(asked, launch=first.apply(asked.launch))).verdict == "fits"
    old = replace(asked, gpus=tuple(replace(g, compute_capability="8.0") for g in asked.gpus or ()))
    offered = [name for fix in judged(old).fixes for name in fix.set_flags]
    assert "--kv-cache-dtype" not in offered


def test_the_published_recipe_for_two_sparks_may_start() -> None:
    # Some 65 GB of weights on each; the machine keeps a few GiB.
    found = judged(
        subject(
            "vllm", "--tensor-parallel-size", "2", "--nnodes", "2", "--kv-cache-dtype",
            "fp8_e4m3", "--gpu-memory-utilization", "0.82",
            config=models.MINIMAX_M2, weights=130.6 * GB, card=models.GB10, kind="unified",
            free=(107.0,),
        )
    )  # fmt: skip

    assert found.verdict in ("fits", "tight")
    assert number(found, "Weights") == pytest.approx(60.8, abs=0.1)


def test_what_is_left_to_a_machine_that_shares_its_memory_is_said() -> None:
    found = judged(
        subject(
            "vllm", "--gpu-memory-utilization", "0.9", config=models.QWEN3_8B, weights=16.4 * GB,
            card=models.GB10, kind="unified", free=(112.0,),
        )
    )  # fmt: skip

    assert found.verdict == "tight"
    assert "leaves about 4.3 GiB to the machine" in found.says


def test_what_the_last_good_start_took_outranks_the_formula() -> None:
    asked = subject(
        "sglang", config=models.LLAMA_8B, weights=16.1 * GB, free=(40.0,), card=models.H100
    )
    past = PastMeasurement(peak=72 * GIB, day=date(2026, 11, 20), run=7)

    found = judged(asked, past)

    assert found.is_measured
    assert found.verdict == "no"
    assert "took 72.0 GiB on each GPU (20 Nov 2026), and 40.0 GiB are free" in found.says
    assert judged(asked, replace(past, peak=39 * GIB)).verdict == "fits"
    nobody_knows = replace(asked, rooms=tuple(replace(r, free=None) for r in asked.rooms or ()))
    assert judged(nobody_knows, past).verdict == "unknown"


def test_what_is_not_known_is_said_and_not_guessed() -> None:
    nothing = judged(subject("vllm"))
    assert nothing.verdict == "unknown"
    assert nothing.unknown == (
        "the size of the weights",
        "the length of the context",
        "what a token takes of the KV cache",
    )
    blind = judged(subject("vllm", config=models.LLAMA_8B, weights=16 * GB, free=(None,)))
    assert blind.says.startswith("Fits if nothing else holds its GPUs: ")
    assert blind.unknown == ("what is free now",)
    no_rooms = replace(subject("vllm"), rooms=None, gpus=None)
    assert judged(no_rooms).unknown == ("the GPUs",)


def test_a_launch_without_gpus_has_no_estimate() -> None:
    assert estimate(subject("vllm", gpus="none")) is None
    assert estimate(replace(subject("vllm"), gpus=(), rooms=())) is None


def test_the_fullest_of_its_gpus_decides_and_others_do_not() -> None:
    asked = subject(
        "vllm", "--tensor-parallel-size", "2", config=models.LLAMA_8B, weights=16.1 * GB,
        count=4, free=(90.0, 30.0, 5.0, 90.0), gpus="0,1",
    )  # fmt: skip

    assert judged(asked).where == "GPU 1, the fullest of GPUs 0, 1"
    alike = replace(asked, launch=replace(asked.launch, gpus="0,3"))
    assert judged(alike).where == "Each of GPUs 0, 3"
    alone = replace(asked, launch=replace(asked.launch, gpus="0,3", flags=()))
    assert judged(alone).where == "GPU 0 (the flags use 1 of 2 GPUs)"
    # Which of them, where a profile does not say: those with the most free memory.
    chosen = replace(asked, launch=replace(asked.launch, gpus="2x RTX PRO 6000"))
    assert judged(chosen).where == "Each of GPUs 0, 3"


def test_llama_cpp_shortens_its_context_by_itself_unless_told_how_long() -> None:
    config = models.QWEN3_8B | {"model_type": "qwen3"}
    card = ("NVIDIA GeForce RTX 3060", "8.6", 12 * GIB)
    free = judged(subject("llamacpp", config=config, weights=8.7 * GB, card=card))
    assert free.verdict == "tight"
    assert "shortens the context" in free.says

    said = subject("llamacpp", "-c", "40960", config=config, weights=8.7 * GB, card=card)
    found = judged(said)
    assert found.verdict == "no"
    assert [dict(fix.set_flags) for fix in found.fixes] == [{"-c": "12288"}]
    too_much = judged(subject("llamacpp", config=config, weights=13 * GB, card=card))
    assert too_much.verdict == "no"
    assert "main memory" in too_much.says


def test_requests_that_are_asked_for_and_have_no_room_at_once_are_counted() -> None:
    found = judged(
        subject(
            "vllm", "--max-num-seqs", "64", config=models.LLAMA_8B, weights=16.1 * GB,
            card=models.H100,
        )
    )  # fmt: skip

    assert found.verdict == "fits"
    assert "of the 64 that it may run; the others wait" in found.says


def test_the_parts_of_the_bar_lie_beside_each_other() -> None:
    for asked in (
        subject("vllm", config=models.LLAMA_8B, weights=16.1 * GB, free=(60.0,)),
        subject("vllm", config=models.LLAMA_8B, weights=200 * GB),
        subject("sglang", config=models.LLAMA_8B, weights=16.1 * GB),
    ):
        parts = judged(asked).parts
        assert parts[0].start == 0
        for before, after in pairwise(parts):
            assert after.start == pytest.approx(before.start + before.width, abs=0.01)
        assert parts[-1].start + parts[-1].width == pytest.approx(100, abs=0.01)


def test_a_cache_that_the_profile_sizes_itself_is_as_large_as_it_says() -> None:
    found = judged(
        subject(
            "vllm", "--kv-cache-memory-bytes", "20G", "--gpu-memory-utilization", "0.5",
            config=models.LLAMA_8B, weights=16.1 * GB, card=models.H100,
        )
    )  # fmt: skip
    assert number(found, "Left for the KV cache") == 20
    capped = judged(
        subject(
            "sglang", "--max-total-tokens", "50000", config=models.LLAMA_8B, weights=16.1 * GB,
            card=models.H100,
        )
    )  # fmt: skip
    assert number(capped, "Tokens that fit") == 50_000
    assert capped.verdict == "tight"


def test_yarn_makes_the_context_longer() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    found = judged(
        subject("vllm", config=models.QWEN3_8B | {"rope_scaling": rope}, weights=16.4 * GB)
    )
    assert number(found, "Longest request") == 131_072
    deepseek = models.DEEPSEEK_V3 | {
        "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    }
    found = judged(subject("sglang", "--tp", "8", config=deepseek, weights=380 * GB, count=8))
    assert number(found, "Longest request") == 163_840
