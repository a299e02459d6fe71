"""Memory of a token and of a request, by the model's config.json.

Sources: the KV cache specifications of vLLM (v1/kv_cache_interface.py, model_executor/layers/
mamba/mamba_utils.py) and the cell sizes of SGLang (model_executor/model_runner.py), and what
their logs print (tests/weights/fit/test_kvcache.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

type Config = Mapping[str, Any]

# What transformers calls the kinds of layers that models mix.
_FULL = ("full_attention", "attention", "global", "full")
_SLIDING = ("sliding_attention", "chunked_attention", "sliding", "local")
_LINEAR = ("linear_attention", "mamba", "mamba2", "recurrent", "kda", "conv")
_NEITHER = ("moe", "mlp", "ffn")
_BOTH = ("hybrid",)  # attention and a state side by side

# Models whose caches do not follow from the numbers that this module reads.
_OTHERWISE = re.compile(r"deepseek_v4|rwkv|mamba$|mamba2$|falcon_mamba|encoder|t5|whisper")


@dataclass(frozen=True, kw_only=True)
class Layers:
    full: int
    sliding: int = 0
    linear: int = 0
    span: int = 0  # tokens that a sliding layer looks back


def text_config(config: Config) -> Config:
    """The language model's part: multimodal models nest it, some of them twice."""
    for name in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping):
            return text_config(inner) if name == "thinker_config" else inner
    return config


def whole(value: object) -> int:
    """A whole number; 0 for anything else: some models say another one for each layer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def layers(text: Config) -> Layers | None:
    """The layers by what they keep of a request; None where config.json does not say."""
    count = whole(text.get("num_hidden_layers")) or whole(text.get("n_layer"))
    kind = str(text.get("model_type") or "")
    if not count or _OTHERWISE.search(kind) or text.get("compress_ratios"):
        return None
    if kind == "falcon_h1":
        return Layers(full=count, linear=count)
    span = whole(text.get("sliding_window")) or whole(text.get("attention_chunk_size"))
    listed = _read_listed_kinds(text, count)
    if listed is not None:
        return None if "" in listed else _count_kinds(listed, text, span)
    if every := whole(text.get("full_attention_interval")):
        full = count // every
        return Layers(full=full, linear=count - full)
    if every := whole(text.get("sliding_window_pattern")):
        full = count // every
        return Layers(full=full, sliding=count - full, span=span) if span else Layers(full=count)
    is_windowed = span and text.get("use_sliding_window") is not False
    # Mistral's first models and their like attend to a window in every layer.
    if is_windowed and kind in ("mistral", "phi3", "starcoder2"):
        return Layers(full=0, sliding=count, span=span)
    if span and kind in ("gemma2", "cohere2", "gpt_oss", "llama4_text", "gemma3_text", "gemma3"):
        return None  # some of its layers do, and it does not say which
    return Layers(full=count)


def _read_listed_kinds(text: Config, count: int) -> list[str] | None:
    """The kind of each layer where config.json lists them ("" for an unknown one); else None."""
    for name in ("layer_types", "layers_block_type", "attn_type_list"):
        said = text.get(name)
        if isinstance(said, list) and said:
            return [_kind(each) for each in said]
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        meaning = {"M": "linear", "*": "full", "-": "", "E": ""}
        return [found for each in pattern if (found := meaning.get(each, "full"))]
    linear = text.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(linear.get("full_attn_layers"), list):
        full = len(linear["full_attn_layers"])
        return ["full"] * full + ["linear"] * (count - full)
    return None


def _kind(said: object) -> str:
    if isinstance(said, int):
        return "full" if said == 1 else "linear"  # attn_type_list: 1 is softmax attention
    kinds = {"full": _FULL, "sliding": _SLIDING, "linear": _LINEAR, "none": _NEITHER, "both": _BOTH}
    return next((kind for kind, names in kinds.items() if said in names), "")


def _count_kinds(listed: list[str], text: Config, span: int) -> Layers | None:
    # The last layers of some models read what earlier ones have kept.
    shared = whole(text.get("num_kv_shared_layers"))
    kept = listed[: len(listed) - shared]
    sliding = kept.count("sliding")
    if sliding and not span:
        return None
    return Layers(
        full=kept.count("full") + kept.count("both"),
        sliding=sliding,
        linear=kept.count("linear") + kept.count("both"),
        span=span if sliding else 0,
    )


# Bytes a layer and token that sparse attention keeps to choose what to look at: one byte a
# dimension and a scale of four for each 128 of them.
_INDEX_BLOCK = 128
_SCALE = 4
# DeepSeek's sparse attention in vLLM: 512 bytes, 16 of scales, 64 rotary dimensions of two.
_SPARSE_FP8_CELL = 656
_STATE = 4  # bytes: recurrent states are kept in float32


@dataclass(frozen=True, kw_only=True)
class KvCacheSize:
    """Bytes in each GPU's memory, all of its layers together.

    `token` grows with the context, `window` as well, but only as far as `span` tokens, and
    `state` is there once for each running request.
    """

    token: int
    window: int = 0
    span: int = 0
    state: int = 0

    def request(self, tokens: int, *, chunk: int = 0) -> int:
        """Bytes of one request of so many tokens; `chunk` tokens of a prompt are read at once."""
        seen = min(tokens, self.span + chunk) if self.span else 0
        return self.token * tokens + self.window * seen + self.state

    def longest(self, room: int, *, chunk: int = 0) -> int:
        """Tokens of the longest single request that fits into `room` bytes; at least 0."""
        rest = room - self.state
        if rest <= 0:
            return 0
        each = self.token + self.window
        if self.span and rest > each * (self.span + chunk):
            return (rest - self.window * (self.span + chunk)) // self.token if self.token else 2**40
        return rest // each if each else 2**40


def cache(
    config: Config, *, dtype: float, tp: int, pp: int, sparse_fp8: bool = False
) -> KvCacheSize | None:
    """What the model keeps of tokens on each GPU; None where config.json does not say enough.

    `dtype` is bytes an element of the KV cache, `tp` over how many GPUs attention heads are
    divided, `pp` the pipeline's stages; `sparse_fp8` says that the engine keeps FP8 latents of
    sparse attention with their scales. Latents are the same on every GPU of a tensor-parallel
    group, and so are key-value heads where there are fewer of them than GPUs.
    """
    text = text_config(config)
    kinds = layers(text)
    if kinds is None:
        return None
    state = _state(text, kinds, tp) if kinds.linear else 0
    full = _cell(text, dtype, tp, is_window=False, sparse_fp8=sparse_fp8)
    sliding = _cell(text, dtype, tp, is_window=True, sparse_fp8=sparse_fp8)
    if state is None or (kinds.full and full is None) or (kinds.sliding and sliding is None):
        return None
    return KvCacheSize(
        token=-(-kinds.full // pp) * (full or 0),
        window=-(-kinds.sliding // pp) * (sliding or 0),
        span=kinds.span if kinds.sliding else 0,
        state=-(-state // pp),
    )


def is_latent(config: Config) -> bool:
    """Whether attention keeps one latent of all heads (MLA) rather than keys and values."""
    return bool(whole(text_config(config).get("kv_lora_rank")))


def _cell(text: Config, dtype: float, tp: int, *, is_window: bool, sparse_fp8: bool) -> int | None:
    if latent := whole(text.get("kv_lora_rank")):
        index = whole(text.get("index_head_dim"))
        beside = index + -(-index // _INDEX_BLOCK) * _SCALE if index else 0
        if index and sparse_fp8:
            return _SPARSE_FP8_CELL + beside
        rope = whole(text.get("qk_rope_head_dim"))
        return int((latent + rope) * dtype) + beside if rope else None
    heads, key, value = _heads(text, is_window=is_window)
    if not heads or not key:
        return None
    return int(-(-heads // tp) * (key + value) * dtype)


def _heads(text: Config, *, is_window: bool) -> tuple[int, int, int]:
    """Key-value heads, and the dimensions of a key and of a value; 0 for what is not said."""
    all_heads = whole(text.get("num_attention_heads"))
    heads = whole(text.get("num_key_value_heads", all_heads))
    hidden = whole(text.get("hidden_size"))
    key = whole(text.get("head_dim")) or (hidden // all_heads if all_heads else 0)
    value = whole(text.get("v_head_dim")) or key
    if is_window:
        heads = whole(text.get("swa_num_key_value_heads")) or heads
        key = whole(text.get("swa_head_dim")) or key
        value = whole(text.get("swa_v_head_dim")) or value
    else:
        heads = whole(text.get("num_global_key_value_heads")) or heads
        if dim := whole(text.get("global_head_dim")):
            key = value = dim
    return heads, key, value


def _state(text: Config, kinds: Layers, tp: int) -> int | None:
    """Bytes of one request in all recurrent layers; None for a kind that is not known here."""
    each = _delta_net(text, tp) or _mamba2(text, tp) or _kimi_linear(text, tp)
    each = each or _mamba1(text, tp) or _compute_lightning_state(text, tp) or _short_conv(text, tp)
    return each * kinds.linear if each else None


def _delta_net(text: Config, tp: int) -> int:
    """Gated delta networks: Qwen3-Next, Qwen3.5."""
    names = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
    keys, values, key, value = (whole(text.get(f"linear_{name}")) for name in names)
    kernel = whole(text.get("linear_conv_kernel_dim"))
    if not (keys and values and key and value and kernel):
        return 0
    conv = (2 * keys * key + values * value) // tp * (kernel - 1) * 2
    return conv + -(-values // tp) * value * key * _STATE


def _mamba2(text: Config, tp: int) -> int:
    """Nemotron-H, Falcon-H1, Bamba, Granite 4."""
    heads = _first(text, "mamba_num_heads", "mamba_n_heads")
    dim = _first(text, "mamba_head_dim", "mamba_d_head")
    state = _first(text, "ssm_state_size", "mamba_d_state")
    groups = _first(text, "n_groups", "mamba_n_groups")
    kernel = _first(text, "conv_kernel", "mamba_d_conv")
    if not (heads and dim and state and groups and kernel):
        return 0
    conv = (heads * dim + 2 * max(groups, tp) * state) // tp * (kernel - 1) * 2
    return conv + -(-heads // tp) * dim * state * _STATE


def _mamba1(text: Config, tp: int) -> int:
    """Jamba."""
    inner = whole(text.get("mamba_expand")) * whole(text.get("hidden_size"))
    state, kernel = whole(text.get("mamba_d_state")), whole(text.get("mamba_d_conv"))
    if not (inner and state and kernel):
        return 0
    return inner // tp * ((kernel - 1) * 2 + state * _STATE)


def _kimi_linear(text: Config, tp: int) -> int:
    said = text.get("linear_attn_config")
    if not isinstance(said, Mapping):
        return 0
    heads, dim = whole(said.get("num_heads")), whole(said.get("head_dim"))
    kernel = whole(said.get("short_conv_kernel_size"))
    if not (heads and dim and kernel):
        return 0
    return 3 * heads * dim // tp * (kernel - 1) * 2 + -(-heads // tp) * dim * dim * _STATE


def _compute_lightning_state(text: Config, tp: int) -> int:
    """MiniMax-Text-01 and MiniMax-M1."""
    if not isinstance(text.get("attn_type_list"), list):
        return 0
    heads, dim = whole(text.get("num_attention_heads")), whole(text.get("head_dim"))
    return -(-heads // tp) * dim * dim * _STATE


def _short_conv(text: Config, tp: int) -> int:
    """LFM2."""
    return whole(text.get("conv_L_cache")) * whole(text.get("hidden_size")) // tp * 2


def _first(text: Config, *names: str) -> int:
    return next((found for name in names if (found := whole(text.get(name)))), 0)
