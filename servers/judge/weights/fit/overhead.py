"""The overhead of an engine beside weights and KV cache: an estimate, good to 1 or 2 GiB.

What logs say: gpt-oss-120b on one H100 80 GB 7.4 GiB (vllm#23278), Qwen3-235B-A22B-FP8 on
four 7.8 (vllm#21348), Qwen3-8B on two small GPUs 2.8 (vllm#27313).
"""

from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit.demand import GIB, MIB, LaunchDemand
from servers.judge.weights.fit.layers import text_config, whole

# The driver's context, libraries' workspaces, and what several GPUs exchange data through.
_CONTEXT = int(1.2 * GIB)
_EXCHANGE = int(0.7 * GIB)
_VLLM_GRAPHS = int(0.7 * GIB)
# Bytes a request and word of the vocabulary when all requests' answers are drawn at once:
# logits and probabilities, sorted, with their places.
_SAMPLER = 20
_LLAMA_GRAPH = 300 * MIB


def overhead(facts: LaunchFacts, asked: LaunchDemand) -> int:
    """Bytes on each GPU. What config.json does not say is left out."""
    text = text_config(facts.subject.checkpoint_config or {})
    if facts.engine == "llamacpp":
        vocabulary = whole(text.get("vocab_size")) * asked.chunk * 4
        return _CONTEXT // 2 + _LLAMA_GRAPH + vocabulary
    tp = facts.tp or 1
    size = _CONTEXT + (_EXCHANGE if tp * (facts.pp or 1) > 1 else 0)
    size += activations(facts, asked)
    if asked.has_graphs:
        size += asked.most_graphs * 2 * MIB if facts.engine == "sglang" else _VLLM_GRAPHS
    if facts.engine == "vllm":
        size += asked.sequences * whole(text.get("vocab_size")) * _SAMPLER
    return size


def activations(facts: LaunchFacts, asked: LaunchDemand) -> int:
    """Bytes between the layers while prompts are read."""
    text = text_config(facts.subject.checkpoint_config or {})
    hidden, inner = whole(text.get("hidden_size")), whole(text.get("intermediate_size"))
    if top := whole(text.get("num_experts_per_tok")):
        inner = top * (whole(text.get("moe_intermediate_size")) or inner)
    return asked.chunk * 2 * (8 * hidden + 3 * inner // (facts.tp or 1))
