"""A checkpoint on disk in a few words, and what on its box could run it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servers.judge.messages import Sentence, say
from servers.judge.profiles.parallelism import WEIGHTS_SHARE
from servers.judge.weights.fit.attention import text_config, whole

GIB = 2**30
# Of one memory for everything: what the system and the engine's own process need at least.
_KEPT_OF_UNIFIED = 8 * GIB
_DTYPES = {"bfloat16": "BF16", "float16": "FP16", "float32": "FP32", "half": "FP16"}
_METHODS = {
    "fp8": "FP8", "awq": "AWQ", "gptq": "GPTQ", "mxfp4": "MXFP4", "gguf": "GGUF",
    "bitsandbytes": "bitsandbytes", "modelopt": "ModelOpt",
}  # fmt: skip
# Those of compressed-tensors that say the numbers by themselves.
_FORMATS = {
    "float-quantized": "FP8", "int-quantized": "INT8", "mxfp4-pack-quantized": "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WeightsFit:
    """How many GPUs of the box its weights need.

    `gpus` is the fewest equal GPUs that hold them with room for a KV cache, a power of two, as
    engines divide; None: it does not fit on all of them together. `words` say it for a person.
    """

    gpus: int | None
    words: str


def quantization(config: Mapping[str, Any] | None) -> str:
    """ "FP8", "NVFP4", "AWQ 4-bit", "BF16"; "" where config.json does not tell.

    Source: the quantization_config and dtype of Hugging Face's config.json.
    """
    if not config:
        return ""
    text = text_config(config)
    said = config.get("quantization_config") or text.get("quantization_config")
    if not isinstance(said, Mapping):
        dtype = config.get("torch_dtype") or config.get("dtype") or text.get("torch_dtype")
        return _DTYPES.get(str(dtype or text.get("dtype") or ""), "")
    algorithm = str(said.get("quant_algo") or said.get("format") or "").upper().replace("_", "-")
    if "NVFP4" in algorithm:
        return "NVFP4"
    method = str(said.get("quant_method") or "").casefold()
    if method == "compressed-tensors":
        return f"{_number_format(said)} compressed-tensors".strip()
    if algorithm == "FP8":
        return "FP8"
    named = _METHODS.get(method, method)
    bits = said.get("bits") or said.get("w_bit")
    return f"{named} {bits}-bit" if isinstance(bits, int) else named


def _number_format(said: Mapping[str, Any]) -> str:
    """ "FP8", "INT4" of compressed-tensors, of the largest numbers; "" where it does not tell.

    Source: compressed_tensors.quantization.QuantizationArgs, and the formats in its config/base.py.
    """
    groups = said.get("config_groups")
    weights = [
        each["weights"]
        for each in (groups.values() if isinstance(groups, Mapping) else ())
        if isinstance(each, Mapping) and isinstance(each.get("weights"), Mapping)
    ]
    bits = max((whole(each.get("num_bits")) for each in weights), default=0)
    if bits:
        of_it = next(each for each in weights if whole(each.get("num_bits")) == bits)
        return f"{'FP' if of_it.get('type') == 'float' else 'INT'}{bits}"
    return _FORMATS.get(str(said.get("format") or "").casefold(), "")


def context(config: Mapping[str, Any] | None) -> int | None:
    """Tokens that the model was made for; None where config.json does not tell."""
    if not config:
        return None
    found = whole(text_config(config).get("max_position_embeddings"))
    return found or whole(config.get("max_position_embeddings")) or None


def architecture(config: Mapping[str, Any] | None) -> str:
    """ "Qwen3ForCausalLM"; of a GGUF file its own word; "" where nothing tells."""
    named = (config or {}).get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return str((config or {}).get("model_type") or "")


def room(weights: int, cards: Sequence[Mapping[str, Any]] | None) -> WeightsFit | None:
    """What it takes to hold `weights` bytes on the box's `cards` (Box.gpus).

    None where nothing is known of the cards, or they have no memory to tell. The figure is of
    the weights alone: how long a context then fits is the profile form's to say.
    """
    known = [card for card in cards or () if card.get("total")]
    if not known or not weights:
        return None
    totals = [int(card["total"]) for card in known]
    if known[0].get("kind") == "unified":
        left = totals[0] - _KEPT_OF_UNIFIED
        if weights <= left * WEIGHTS_SHARE:
            return WeightsFit(gpus=1, words=say("weights.held-unified").text)
        said = say("weights.too-large-for-unified", gib=totals[0] / GIB)
        return WeightsFit(gpus=None, words=said.text)
    # The group of equal cards with the most memory.
    sizes = {total: totals.count(total) for total in totals}
    total, count = max(sizes.items(), key=lambda each: each[0] * each[1])
    gpus = 1
    while gpus <= count:
        if weights <= gpus * total * WEIGHTS_SHARE:
            return WeightsFit(gpus=gpus, words=_describe_needs(gpus, count).text)
        gpus *= 2
    said = say("weights.too-large", count=count, gib=total / GIB)
    return WeightsFit(gpus=None, words=said.text)


def _describe_needs(gpus: int, count: int) -> Sentence:
    if count == 1:
        return say("weights.held-by-gpu")
    if gpus == 1:
        return say("weights.held-by-one", count=count)
    return say("weights.held-by-several", gpus=gpus, count=count)
