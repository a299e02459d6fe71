"""Memory demand of a launch's flags, with each engine's defaults.

Sources: vLLM 0.33 (engine/arg_utils.py, config/cache.py), SGLang 0.5.23 (server_args.py and
arg_groups/memory_hook.py, where it chooses --mem-fraction-static), llama-server --help.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from servers.judge.profiles.conditions import OFF
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit.attention import Config
from servers.judge.weights.fit.layers import text_config, whole

MIB = 2**20
GIB = 2**30

_TIMES = {"": 1, "k": 1000, "K": 1 << 10, "m": 10**6, "M": 1 << 20, "g": 10**9, "G": 1 << 30}
_DTYPES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0}
# Bytes an element; llama.cpp's quantized types with their scales (ggml-common.h).
_CACHE_TYPES = {
    **_DTYPES, "bf16": 2.0, "f32": 4.0, "f16": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0,
    "fp8_inc": 1.0, "fp8_ds_mla": 1.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32,
    "q4_1": 20 / 32, "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip

CONTEXT_FLAG = {
    "vllm": "--max-model-len",
    "sglang": "--context-length",
    "llamacpp": "--ctx-size",
}
SHARE_FLAG = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}
_SEQUENCES_FLAG = {
    "vllm": "--max-num-seqs",
    "sglang": "--max-running-requests",
    "llamacpp": "--parallel",
}
# SGLang's defaults by the GPU's memory in GiB: tokens of a prompt that are read at once, and
# the largest batch with a CUDA graph, for fewer than four GPUs and for more.
_SGLANG_SIZES = (
    (20, 2048, 8, 8),
    (35, 4096, 48, 160),
    (60, 4096, 32, 160),
    (160, 8192, 256, 512),
    (10**6, 16384, 512, 512),
)
# vLLM reads more at once, and runs more requests, on GPUs from this size on.
_VLLM_LARGE = 70 * GIB


@dataclass(frozen=True, kw_only=True)
class LaunchDemand:
    """None: neither the flags nor config.json say, or what they say cannot be read."""

    context: int | None  # tokens of the longest request
    chooses_context: bool  # the engine makes it as long as there is room for
    sequences: int  # requests that may run at once
    says_sequences: bool
    chunk: int  # tokens of prompts that are read at once
    share: float | None  # of a GPU's memory, as the flag or its default says; None: no such flag
    says_share: bool
    cache_bytes: float | None  # an element of the KV cache
    has_graphs: bool
    most_graphs: int  # the largest batch that a CUDA graph is captured for


def read_demand(facts: LaunchFacts, *, memory: int) -> LaunchDemand:
    """Read off the launch. `memory` is that of one GPU in bytes: defaults depend on it."""
    config = facts.subject.checkpoint_config or {}
    sequences, chunk, graphs = _sizes(facts, memory)
    flag = _SEQUENCES_FLAG[facts.engine]
    return LaunchDemand(
        context=_context(facts, config),
        chooses_context=_chooses_context(facts),
        sequences=sequences,
        says_sequences=facts.flag(flag) is not None,
        chunk=chunk,
        share=_share(facts, memory, chunk, graphs),
        says_share=facts.engine in SHARE_FLAG and facts.flag(SHARE_FLAG[facts.engine]) is not None,
        cache_bytes=_cache_bytes(facts, config),
        has_graphs=_has_graphs(facts),
        most_graphs=graphs,
    )


def tokens(text: str) -> int | None:
    """A count as engines take it: 32768, 32k, 1M; None for "auto" and what is no count."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKmMgG]?)", text.strip())
    return int(float(found[1]) * _TIMES[found[2]]) or None if found else None


def _context(facts: LaunchFacts, config: Config) -> int | None:
    typed = facts.flag(CONTEXT_FLAG[facts.engine])
    if typed is not None and typed.value not in ("0", "auto", "-1"):
        return tokens(typed.value)
    text = text_config(config)
    said = whole(text.get("max_position_embeddings")) or whole(text.get("seq_length"))
    return max(said, _read_yarn_length(text, said)) or None


def _read_yarn_length(text: Config, said: int) -> int:
    """How far YaRN stretches what the model was trained for; 0: it does not."""
    rope = text.get("rope_scaling") or text.get("rope_parameters")
    if not isinstance(rope, Mapping) or "yarn" not in (rope.get("type"), rope.get("rope_type")):
        return 0
    factor = rope.get("factor")
    trained = whole(rope.get("original_max_position_embeddings")) or said
    return int(trained * factor) if isinstance(factor, int | float) else 0


def _chooses_context(facts: LaunchFacts) -> bool:
    """vLLM's --max-model-len auto, and llama-server's --fit, which is on unless told otherwise."""
    typed = facts.flag(CONTEXT_FLAG[facts.engine])
    if facts.engine == "vllm":
        return typed is not None and typed.value in ("auto", "-1")
    fit = facts.flag("--fit")
    is_off = fit is not None and fit.value in OFF
    return facts.engine == "llamacpp" and (typed is None or typed.value == "0") and not is_off


def _sizes(facts: LaunchFacts, memory: int) -> tuple[int, int, int]:
    """Requests at once, tokens read at once, the largest batch with a CUDA graph."""
    flag = _SEQUENCES_FLAG[facts.engine]
    if facts.engine == "vllm":
        # Its API server's, but for A100s, whose 80 GB count as small.
        large = memory >= _VLLM_LARGE and not any("A100" in g.name for g in facts.used_gpus or ())
        sequences = facts.number(flag, default=1024 if large else 256) or 1
        chunk = facts.number("--max-num-batched-tokens", default=8192 if large else 2048)
        return sequences, max(chunk or 2048, 1), min(2 * sequences, 512)
    if facts.engine == "sglang":
        few = (facts.tp or 1) < 4
        _most, chunk, small, big = next(row for row in _SGLANG_SIZES if memory < row[0] * GIB)
        said = facts.number("--chunked-prefill-size", default=chunk) or chunk
        graphs = small if few else big
        for name in ("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"):
            graphs = facts.number(name, default=graphs) or graphs
        return facts.number(flag, default=graphs) or 1, max(said, 2048), graphs
    return facts.number(flag) or 1, facts.number("--ubatch-size", default=512) or 512, 0


def _share(facts: LaunchFacts, memory: int, chunk: int, graphs: int) -> float | None:
    if facts.engine not in SHARE_FLAG:
        return None
    typed = facts.flag(SHARE_FLAG[facts.engine])
    if typed is not None:
        said = _fraction(typed.value)
        return said if said is not None and 0 < said <= 1 else None
    if facts.engine == "vllm":
        return 0.92 if facts.version is None or facts.version >= (0, 20) else 0.9
    return max(0.05, round(1 - _set_aside(facts, memory, chunk, graphs) / memory, 3))


def _set_aside(facts: LaunchFacts, memory: int, chunk: int, graphs: int) -> float:
    """Bytes that SGLang leaves to activations and CUDA graphs when no flag says so."""
    size = 512 + chunk * 1.5 + (facts.tp or 1) * (facts.pp or 1) / 8 * 1024
    if _has_graphs(facts):
        size += graphs * 2
    if facts.flag("--enable-dp-attention"):
        size += graphs * (facts.dp or 1) * (4.5 if graphs > 300 else 3)
    if memory > 60 * GIB:
        size = max(size, 10 * 1024)
    return size * MIB


def _cache_bytes(facts: LaunchFacts, config: Config) -> float | None:
    name = "--cache-type-k" if facts.engine == "llamacpp" else "--kv-cache-dtype"
    typed = facts.flag(name)
    said = typed.value if typed else "auto"
    if said != "auto":
        return _CACHE_TYPES.get(said)
    if facts.engine == "llamacpp" or _is_fp8_cached(config):
        return 2.0 if facts.engine == "llamacpp" else 1.0
    model = facts.flag("--dtype")
    if model is not None and model.value in _DTYPES:
        return _DTYPES[model.value]
    # What is stored in float32 runs in 16 bits, and so does its cache.
    return 2.0


def _is_fp8_cached(config: Config) -> bool:
    """Whether the checkpoint brings the scales of an FP8 cache, which engines then keep."""
    said = config.get("quantization_config")
    if not isinstance(said, dict):
        return False
    scheme = said.get("kv_cache_scheme")
    named = str(said.get("kv_cache_quant_algo") or "").upper()
    return named == "FP8" or (isinstance(scheme, dict) and scheme.get("num_bits") == 8)


def _has_graphs(facts: LaunchFacts) -> bool:
    if facts.engine == "vllm":
        return facts.flag("--enforce-eager") is None
    decode = facts.flag("--cuda-graph-backend-decode")
    is_off = decode is not None and decode.value in ("disabled", *OFF)
    return facts.engine == "sglang" and not is_off and facts.flag("--disable-cuda-graph") is None


def _fraction(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
