"""No sentence of the lint is false for the version, the card or the flag that it is said of."""

from typing import Any

import pytest

from servers.judge.profiles import lint_rules
from servers.judge.profiles.lint import lint
from servers.launch.engines import SERVING
from servers.launch.engines.flaglist import (
    SUCCESSORS,
    Successor,
    all_shipped,
    load_shipped,
    nearest_value,
    newest,
)
from tests.cases import table
from tests.profiles.lint.subjects import subject

MI300 = "rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210"


@table(
    ("said", "rule", "severity"),
    [
        # Read in vLLM 0.10.2; no more in 0.20.2.
        ({"engine": "vllm", "image": MI300, "env": {"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}},
         "vllm-attention-variable", None),
        ({"engine": "vllm", "image": "vllm/vllm-openai:v0.4.5",
          "env": {"VLLM_ATTENTION_BACKEND": "XFORMERS"}}, "vllm-attention-variable", None),
        ({"engine": "vllm", "image": "vllm/vllm-openai:v0.33.0",
          "env": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}, "vllm-attention-variable", "warning"),
        ({"engine": "vllm", "env": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}},
         "vllm-attention-variable", "warning"),
        # Not ambiguous before there were others that begin so.
        ({"image": "lmsysorg/sglang:v0.4.5", "flags": "--pp 2", "ipc": "host"}, "pp-ambiguous", None),
        ({"image": "lmsysorg/sglang:latest", "flags": "--pp 2", "ipc": "host"},
         "pp-ambiguous", "warning"),
        ({"image": "lmsysorg/sglang:v0.5.12", "flags": "--pp 2", "ipc": "host"},
         "pp-ambiguous", "error"),
        # vLLM 0.24 and SGLang 0.5.23 have DeepGEMM for SM 12.
        ({"engine": "vllm", "version": "0.33.0", "box": "1x12.0",
          "flags": "--moe-backend deep_gemm"}, "sm12x-deepgemm-moe", None),
        ({"engine": "vllm", "version": "0.20.2", "box": "1x12.0",
          "flags": "--moe-backend deep_gemm"}, "sm12x-deepgemm-moe", "error"),
        ({"engine": "vllm", "version": "0.33.0", "box": "1x12.0",
          "env": {"VLLM_USE_DEEP_GEMM": "1"}}, "sm12x-deepgemm-variable", None),
        ({"version": "0.5.23", "box": "1x12.1", "flags": "--fp8-gemm-backend deep_gemm"},
         "sm12x-deepgemm-fp8", None),
        # Transformers 5 knows MiniMax M2 by itself.
        ({"version": "0.5.23", "checkpoint": "MiniMaxAI/MiniMax-M2.5"},
         "minimax-trust-remote-code", None),
        ({"checkpoint": "MiniMaxAI/MiniMax-M2.5"}, "minimax-trust-remote-code", "warning"),
        # 570 was the first driver for these cards.
        ({"box": "1x12.0", "driver": "570.86.10"}, "driver-too-old", None),
        ({"box": "1x12.0", "driver": "565.57.01"}, "driver-too-old", "error"),
        # A data-centre card may have the compatibility library, GeForce and RTX have not.
        ({"image": "lmsysorg/sglang:v0.5.12-cu130", "box": "1x9.0", "driver": "550.54"},
         "driver-too-old-for-cuda13", None),
        ({"image": "lmsysorg/sglang:v0.5.12-cu130", "driver": "575.57"},
         "driver-too-old-for-cuda13", "warning"),
        # An image of somebody's own may have the flag.
        ({"image": "me/sglang:1", "flags": "--enable-pcie-oneshot-allreduce"},
         "oneshot-not-upstream", None),
        # The guide of May 2026 tells of one release; latent attention takes another backend.
        ({"version": "0.5.23", "box": "1x10.3"}, "sm103-attention-unset", "warning"),
        ({"box": "1x10.3", "checkpoint": "deepseek-ai/DeepSeek-V3"}, "sm103-attention-unset", None),
        # Which backend SGLang takes by itself is not known: some of them can do it.
        ({"version": "0.5.12", "flags": "--speculative-eagle-topk 4 --page-size 64"},
         "eagle-topk-page-size", None),
        # A draft model brings the weights that the checkpoint lacks.
        ({"checkpoint": "lukealonso/GLM-5-NVFP4", "flags":
          "--speculative-algorithm EAGLE --speculative-draft-model-path a/b"},
         "glm5-mtp-checkpoint", None),
        # What an engine does not read stops nothing.
        ({"version": "0.5.12", "env": {"SGLANG_DISABLE_CUDA_GRAPH": "1"}},
         "disable-cuda-graph-variable-noop", "warning"),
        ({"engine": "vllm", "env": {"VLLM_SM120_REFERENCE_TOPK_CHUNK_SIZE": "1"}},
         "vllm-sm120-reference-variables", "warning"),
        # A build of one's own may have more flags than the release that it names.
        ({"engine": "vllm", "version": "0.33.0+mine", "flags": "--of-ours"}, "unknown-flag",
         "warning"),
        ({"engine": "vllm", "version": "0.33.0+cu129", "flags": "--of-ours"}, "unknown-flag",
         "error"),
    ],
)  # fmt: skip
def test_a_rule_is_as_loud_as_what_is_known(
    said: dict[str, Any], rule: str, severity: str | None
) -> None:
    found = {each.rule: each.severity for each in lint(subject(said))}

    assert found.get(rule) == severity


# Errors whatever the version, and why.
TIMELESS = {
    "fa3-needs-sm90": "the check of the card is in every release that has fa3",
    "fa3-prefill-needs-sm90": "the same",
    "fa3-decode-needs-sm90": "the same",
    "sm120-deepseek-v4-sglang-patch": "about one image",
    "sm120-deepseek-v4-patch-not-mounted": "about one image",
    "driver-too-old": "about the driver and the card",
    "driver-too-old-for-cuda13": "about the driver and the card",
    "network-none": "about the container",
    "glm5-mtp-checkpoint": "about one checkpoint",
    "oneshot-vs-expandable-segments": "about a flag of two builds alone",
    "vllm-auto-tool-choice": "the check is in 0.10.2 as in 0.33.0",
}


def test_an_error_names_the_releases_that_it_is_known_of() -> None:
    errors = [each for each in lint_rules.load_shipped() if each.severity == "error"]
    without = {each.id for each in errors if "version" not in each.kinds}

    assert without == set(TIMELESS)


@table(
    ("engine", "version", "flags", "says", "after"),
    [
        ("llamacpp", "", "--no-mmap -c 1", "Write --load-mode none.", "-c 1 --load-mode none"),
        ("llamacpp", "", "--mlock", "Write --load-mode mmap+mlock.", "--load-mode mmap+mlock"),
        ("llamacpp", "", "--mmap", "Write --load-mode mmap.", "--load-mode mmap"),
        ("llamacpp", "", "--no-mmap --mlock", "Write --load-mode mlock.", "--load-mode mlock"),
        ("llamacpp", "", "--draft-max 4", "Write --spec-draft-n-max.", "--spec-draft-n-max 4"),
        ("llamacpp", "", "--spec-ngram-min-hits 2", "--spec-ngram-simple-min-hits, --spec-", None),
        ("sglang", "0.5.23", "--stream-output", "Write --incremental-streaming-output.",
         "--incremental-streaming-output"),
        ("sglang", "0.5.23", "--enable-nsa-prefill-context-parallel", "Write --enable-prefill-cp.",
         "--enable-prefill-cp"),
        ("sglang", "0.5.23", "--collect-tokens-histogram", "--enable-metrics collects them", ""),
        ("sglang", "0.5.23", "--enable-nan-detection", "nothing took its place", ""),
        ("vllm", "0.33.0", "--guided-decoding-backend xgrammar",
         "Write --structured-outputs-config.backend.", "--structured-outputs-config.backend xgrammar"),
        ("vllm", "0.33.0", "--swap-space 4", "see --kv-offloading-size", ""),
        ("vllm", "0.33.0", "--max-num-partial-prefills 2", "--long-prefill-token-threshold", ""),
    ],
)  # fmt: skip
def test_a_removed_flag_names_what_took_its_place(
    engine: str, version: str, flags: str, says: str, after: str | None
) -> None:
    version = version or f"b1-{newest(engine).version}"
    about = subject({"engine": engine, "version": version, "flags": flags})

    finding = next(each for each in lint(about) if each.rule == "unknown-flag")

    assert says in finding.says
    assert finding.severity == "error"
    fixed = finding.fix.apply(about.launch).flags if finding.fix else None
    assert (None if fixed is None else " ".join(fixed)) == after


def test_every_removed_flag_of_the_lists_was_looked_up() -> None:
    """What took its place stands in the version that has dropped it; an empty row there was looked for."""
    for engine in SERVING:
        for flags in all_shipped(engine):
            for name, instead in flags.removed.items():
                told = flags.successor(name)
                assert told is not None, (flags.version, name)
                assert told.only == instead or (instead is None and not told.only), name
                assert told != Successor() or name in SUCCESSORS[engine], name


@table(
    ("engine", "typed", "values", "meant"),
    [
        ("vllm", "--max-model-length", ("1",), "--max-model-len"),
        ("vllm", "--gpu-memory-utilisation", ("0.9",), "--gpu-memory-utilization"),
        ("vllm", "--tensor-paralel-size", ("2",), "--tensor-parallel-size"),
        ("vllm", "--context-length", ("1",), "--max-model-len"),
        ("vllm", "--enable-prefix-cache", (), "--enable-prefix-caching"),
        ("vllm", "--kv-cache-type", ("fp8",), "--kv-cache-dtype"),
        ("vllm", "--max-num-batch-tokens", ("8192",), "--max-num-batched-tokens"),
        ("vllm", "--max-num-tokens", ("8192",), None),  # not --max-num-seqs
        ("vllm", "--enable-eager", (), None),  # not --enforce-eager of another word
        ("vllm", "--max-logprob", ("x",), None),  # it takes a number
        ("sglang", "--context-lenght", ("8192",), "--context-length"),
        ("sglang", "--sleep-when-idle", (), "--sleep-on-idle"),
        ("sglang", "--enable-radix-cache", (), None),  # not --disable-radix-cache
        ("sglang", "--enable-cuda-graph", (), None),
        ("sglang", "--max-running-request", ("8",), "--max-running-requests"),
        ("sglang", "--trust-remote-cod", ("1",), None),  # it takes no value
        ("llamacpp", "--n-gpu-layer", ("99",), "--n-gpu-layers"),
        ("llamacpp", "--cache-type-q", ("q8_0",), None),  # -k or -v
        ("llamacpp", "--temps", ("hot",), None),  # its default is a number
        ("llamacpp", "-nglx", ("99",), "-ngl"),
        ("llamacpp", "-ct", ("q8_0",), None),
    ],
)
def test_a_suggestion_never_means_something_else(
    engine: str, typed: str, values: tuple[str, ...], meant: str | None
) -> None:
    assert newest(engine).nearest(typed, values) == meant


@table(
    ("value", "among", "meant"),
    [
        ("bf16", ("auto", "float16", "bfloat16"), "bfloat16"),
        ("float8", ("float", "float16", "float32"), None),
        ("fp8_e5m3", ("fp8_e4m3", "fp8_e5m2"), None),
        ("deepseek_v31", ("deepseek_v3", "deepseek_v32"), None),
        ("null", ("full", "none", "hash"), None),
        ("flash_infer", ("triton", "flashinfer"), "flashinfer"),
        ("mxfp4", ("nvfp4", "modelopt_fp4"), None),
        ("bfloat", ("float16", "bfloat16"), None),
    ],
)
def test_a_value_of_another_number_is_no_misspelling(
    value: str, among: tuple[str, ...], meant: str | None
) -> None:
    assert nearest_value(value, among) == meant


@pytest.mark.parametrize("engine", SERVING)
def test_no_flag_is_suggested_for_its_opposite(engine: str) -> None:
    flags = newest(engine)
    for name in flags.names:
        for mine, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
            opposite = f"{other}{name.removeprefix(mine)}"
            if name.startswith(mine) and flags.find(opposite) is None:
                assert flags.nearest(opposite, None) != name, opposite


def test_a_share_that_the_weights_do_not_fit_into_is_no_fix() -> None:
    about = {"engine": "vllm", "box": "1x12.0", "free": [30.0], "flags": ""}
    small = next(each for each in lint(subject(about)) if each.rule == "vllm-free-memory")
    large = subject(about | {"weights": 60 * 2**30})

    assert small.fix is not None
    assert next(each for each in lint(large) if each.rule == "vllm-free-memory").fix is None


def test_a_list_of_an_own_build_is_not_taken_for_the_release() -> None:
    assert load_shipped("vllm", "0.33.0+cu129") is load_shipped("vllm", "0.33.0") is not None
    assert load_shipped("vllm", "0.33.0+mine") is None
