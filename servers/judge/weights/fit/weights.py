"""Bytes of a checkpoint's weights on each GPU."""

from collections.abc import Mapping
from typing import Any

from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit.layers import text_config, whole

GIB = 2**30

# Quantizations that the engines make themselves of weights stored in 16 bits: bytes a parameter.
_MADE = {"fp8": 1.0, "mxfp8": 1.06, "bitsandbytes": 0.56, "mxfp4": 0.53}
_STORED = {"float32": 4.0, "float": 4.0, "float16": 2.0, "bfloat16": 2.0, "half": 2.0}


def share(facts: LaunchFacts) -> int | None:
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
        return stored // max(1, len(facts.used_gpus or ()) or 1)
    size = stored * _shrink(facts)
    config = facts.subject.checkpoint_config or {}
    count = whole(text_config(config).get("num_hidden_layers"))
    stage = -(-count // pp) / count if count and pp > 1 else 1 / pp
    experts = _experts_part(config)
    attention_tp = tp
    if facts.engine == "sglang" and (facts.flag("--enable-dp-attention") or replicas(facts)):
        attention_tp = max(1, tp // (replicas(facts) or dp))
        spread = tp
    else:
        spread = tp * dp if experts else tp
    each = size * stage * ((1 - experts) / attention_tp + experts / spread)
    return max(0, int(each) - _read_offloaded(facts))


def replicas(facts: LaunchFacts) -> int:
    """How often SGLang repeats attention inside its tensor-parallel group; 0: it does not."""
    if facts.engine == "sglang" and facts.flag("--attn-dp-size"):
        return facts.number("--attn-dp-size") or 0
    return (facts.dp or 0) if facts.flag("--enable-dp-attention") else 0


def unknown(facts: LaunchFacts) -> tuple[str, ...]:
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
