"""Memory demand of a launch's flags, with each engine's defaults.

Sources: vLLM 0.33 (engine/arg_utils.py, config/cache.py), SGLang 0.5.23 (server_args.py and
arg_groups/memory_hook.py, where it chooses --mem-fraction-static), llama-server --help.

What logs say: gpt-oss-120b on one H100 80 GB 7.4 GiB (vllm#23278), Qwen3-235B-A22B-FP8 on
four 7.8 (vllm#21348), Qwen3-8B on two small GPUs 2.8 (vllm#27313).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from servers.judge.profiles.conditions import OFF
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit.attention import Config, KvCacheSize, text_config, whole

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
        context=find_context(facts),
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


def find_context(facts: LaunchFacts) -> int | None:
    """Tokens of the longest request; None where neither the flags nor config.json say."""
    config = facts.subject.checkpoint_config or {}
    flag = CONTEXT_FLAG.get(facts.engine)
    typed = facts.flag(flag) if flag is not None else None
    if typed is not None and typed.value not in ("0", "auto", "-1"):
        return tokens(typed.value)
    text = text_config(config)
    said = whole(text.get("max_position_embeddings")) or whole(text.get("seq_length"))
    return max(said, _read_yarn_length(text, said)) or None


def read_context(facts: LaunchFacts) -> int | None:
    """find_context(); None also where the engine chooses, or is one that is not known."""
    if facts.engine not in CONTEXT_FLAG or _chooses_context(facts):
        return None
    return find_context(facts)


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


# The driver's context, libraries' workspaces, and what several GPUs exchange data through.
_CONTEXT = int(1.2 * GIB)
_EXCHANGE = int(0.7 * GIB)
_VLLM_GRAPHS = int(0.7 * GIB)
# Bytes a request and word of the vocabulary when all requests' answers are drawn at once:
# logits and probabilities, sorted, with their places.
_SAMPLER = 20
_LLAMA_GRAPH = 300 * MIB
_LLAMA_SLOTS = 4  # requests that run at once, unless told otherwise
_LLAMA_CHUNK = 512  # tokens of a batch, unless told otherwise


def overhead(facts: LaunchFacts, asked: LaunchDemand) -> int:
    """Bytes on each GPU. What config.json does not say is left out."""
    text = text_config(facts.subject.checkpoint_config or {})
    if facts.engine == "llamacpp":
        return _CONTEXT // 2 + _LLAMA_GRAPH + _llama_graph(facts, asked, text)
    tp = facts.tp or 1
    size = _CONTEXT + (_EXCHANGE if tp * (facts.pp or 1) > 1 else 0)
    size += activations(facts, asked)
    if asked.has_graphs:
        size += asked.most_graphs * 2 * MIB if facts.engine == "sglang" else _VLLM_GRAPHS
    if facts.engine == "vllm":
        size += asked.sequences * whole(text.get("vocab_size")) * _SAMPLER
    return size


def fit_windows(facts: LaunchFacts, kept: KvCacheSize) -> KvCacheSize:
    """llama.cpp's windows are there once for each request that may run (llama-kv-cache-iswa.cpp)."""
    if facts.flag("--swa-full") is not None:
        return KvCacheSize(token=kept.token + kept.window, state=kept.state)
    return replace(kept, window=kept.window * (facts.number("--parallel", _LLAMA_SLOTS) or 1))


def _llama_graph(facts: LaunchFacts, asked: LaunchDemand, text: Config) -> int:
    """Bytes of one batch between the layers, in 32 bits.

    Without flash attention there are also the scores of each head over the whole context. Source:
    measured with b7777 (tests/weights/fit/test_measured.py).
    """
    logits = whole(text.get("vocab_size")) * min(asked.chunk, _LLAMA_CHUNK) * 4
    # Of experts there is what each has made of a token, and the same weighted.
    experts = whole(text.get("num_experts_per_tok")) * whole(text.get("hidden_size")) * 2 * 4
    size = max(logits, 2 * activations(facts, asked) + asked.chunk * experts)
    flash = facts.flag("--flash-attn")
    if flash is not None and flash.value in OFF:
        heads = whole(text.get("num_attention_heads"))
        size += asked.chunk * (asked.context or 0) * heads * 4
    return size


def activations(facts: LaunchFacts, asked: LaunchDemand) -> int:
    """Bytes between the layers while prompts are read."""
    text = text_config(facts.subject.checkpoint_config or {})
    hidden, inner = whole(text.get("hidden_size")), whole(text.get("intermediate_size"))
    if top := whole(text.get("num_experts_per_tok")):
        inner = top * (whole(text.get("moe_intermediate_size")) or inner)
    return asked.chunk * 2 * (8 * hidden + 3 * inner // (facts.tp or 1))


# Quantizations that the engines make themselves of weights stored in 16 bits: bytes a parameter.
_MADE = {"fp8": 1.0, "mxfp8": 1.06, "bitsandbytes": 0.56, "mxfp4": 0.53}
_STORED = {"float32": 4.0, "float": 4.0, "float16": 2.0, "bfloat16": 2.0, "half": 2.0}


def share_weights(facts: LaunchFacts) -> int | None:
    """Bytes on each GPU; None where the weights' size or the division is not known.

    Tensor parallelism divides nearly every tensor (small ones are repeated), pipeline
    parallelism the layers. Replicas (data parallelism) have a copy of their own, but mixtures
    of experts divide their experts over all replicas' GPUs: vLLM and SGLang's attention
    replicas. Sources: vllm/model_executor/layers/linear.py and fused_moe/config.py.
    """
    stored, tp, pp, dp = facts.subject.weights, facts.tp, facts.pp, facts.dp
    if stored is None or tp is None or pp is None or dp is None:
        return None
    if facts.engine == "llamacpp":
        # On unified memory it is all the same.
        elsewhere = 0 if facts.subject.box_kind == "unified" else _host_bytes(facts)
        return max(0, stored - elsewhere) // max(1, len(facts.used_gpus or ()) or 1)
    size = stored * _shrink(facts)
    config = facts.subject.checkpoint_config or {}
    count = whole(text_config(config).get("num_hidden_layers"))
    stage = -(-count // pp) / count if count and pp > 1 else 1 / pp
    experts = _experts_part(config)
    attention_tp = tp
    if facts.engine == "sglang" and (facts.flag("--enable-dp-attention") or count_replicas(facts)):
        attention_tp = max(1, tp // (count_replicas(facts) or dp))
        spread = tp
    else:
        spread = tp * dp if experts else tp
    each = size * stage * ((1 - experts) / attention_tp + experts / spread)
    return max(0, int(each) - _read_offloaded(facts))


def _host_bytes(facts: LaunchFacts) -> int:
    """What llama.cpp leaves in main memory of a file's weights (host/weights/gguf.py)."""
    return whole((facts.subject.checkpoint_config or {}).get("host_bytes"))


def count_replicas(facts: LaunchFacts) -> int:
    """How often SGLang repeats attention inside its tensor-parallel group; 0: it does not."""
    if facts.engine == "sglang" and facts.flag("--attn-dp-size"):
        return facts.number("--attn-dp-size") or 0
    return (facts.dp or 0) if facts.flag("--enable-dp-attention") else 0


def explain_unknown_weights(facts: LaunchFacts) -> tuple[str, ...]:
    """What would come on top, or be less, and is not counted."""
    found = []
    config = facts.flag("--speculative-config")
    has_draft = config is not None and '"model"' in config.value
    drafts = ("--speculative-draft-model-path", "--model-draft")
    if has_draft or any(facts.flag(name) for name in drafts):
        found.append("the draft model's weights")
    if facts.flag("--enable-lora"):
        found.append("the LoRA adapters")
    return tuple(found)


def _shrink(facts: LaunchFacts) -> float:
    """How much smaller the weights are in memory than on disk."""
    config = facts.subject.checkpoint_config or {}
    text = text_config(config)
    if config.get("quantization_config") or text.get("quantization_config"):
        return 1.0
    said = config.get("torch_dtype") or config.get("dtype") or text.get("torch_dtype")
    stored = _STORED.get(str(said or text.get("dtype") or ""), 2.0)
    wanted = facts.flag("--dtype")
    runs = _STORED.get(wanted.value, 2.0) if wanted else min(stored, 2.0)
    made = facts.flag("--quantization")
    if made is not None and (bytes_each := _MADE.get(made.value)):
        kept = _embeddings_part(text)
        return (kept * runs + (1 - kept) * bytes_each) / stored
    return runs / stored


def _embeddings_part(text: Mapping[str, Any]) -> float:
    """The part of all parameters that is not quantized: embeddings and the last layer."""
    hidden, layers = whole(text.get("hidden_size")), whole(text.get("num_hidden_layers"))
    vocab = whole(text.get("vocab_size")) * (1 if text.get("tie_word_embeddings") else 2)
    if not (hidden and layers and vocab):
        return 0.05
    rest = layers * (_attention(text) + _dense(text)) + layers * _experts(text)
    return vocab * hidden / (vocab * hidden + rest)


def _experts_part(config: Mapping[str, Any]) -> float:
    """The part of all parameters that is in experts, 0 to 1; 0 for a dense model."""
    text = text_config(config)
    each = _experts(text)
    if not each:
        return 0.0
    layers = whole(text.get("num_hidden_layers"))
    dense = whole(text.get("first_k_dense_replace"))
    experts = (layers - dense) * each
    rest = layers * _attention(text) + dense * _dense(text)
    rest += 2 * whole(text.get("vocab_size")) * whole(text.get("hidden_size"))
    return experts / (experts + rest) if layers else 0.0


def _experts(text: Mapping[str, Any]) -> int:
    """Parameters of one layer's experts."""
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    count = next((n for name in names if (n := whole(text.get(name)))), 0)
    inner = whole(text.get("moe_intermediate_size")) or whole(text.get("intermediate_size"))
    return count * 3 * whole(text.get("hidden_size")) * inner


def _attention(text: Mapping[str, Any]) -> int:
    return 4 * whole(text.get("hidden_size")) ** 2


def _dense(text: Mapping[str, Any]) -> int:
    return 3 * whole(text.get("hidden_size")) * whole(text.get("intermediate_size"))


def _read_offloaded(facts: LaunchFacts) -> int:
    """Bytes of each GPU's share that stay in main memory."""
    typed = facts.flag("--cpu-offload-gb")
    try:
        return int(float(typed.value) * GIB) if typed else 0
    except ValueError:
        return 0
