"""Layers of a model by kind: full attention, window, state."""

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
