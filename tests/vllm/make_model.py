"""Writes two tiny models for vLLM to serve, of random weights: a Qwen3, and one with eyes.

The one with eyes, in the folder `eyes`, is an Idefics3, of whose family SmolVLM is: vLLM serves it
without torchvision, which the image lacks, and its pictures take tokens by their shape.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = Path(sys.argv[1])
HIDDEN, LAYERS, HEADS, KV_HEADS, INNER, VOCABULARY = 128, 2, 4, 2, 256, 512
HEAD_DIM = 64  # vLLM's attention on the CPU has no kernel for smaller ones
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Which parsers look for. What stands in an answer is no special token, which engines leave out.
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
# A picture is looked at whole, and in square tiles: up to two in a row, up to two rows.
TILE, PATCH, MERGED, TILES = 56, 14, 2, 2
TOKENS_OF_A_TILE = (TILE // PATCH // MERGED) ** 2
PICTURE = [
    "<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>",
    *(f"<row_{row + 1}_col_{column + 1}>" for row in range(TILES) for column in range(TILES)),
]  # fmt: skip
TEXT = [
    "The quick brown fox jumps over the lazy dog while the engine loads its weights.",
    "user assistant system What is the capital of France? Paris is the capital.",
    "0123456789 def main(): return None # comment",
]
# As Qwen3's: calls stand in tags, thinking is begun for the model, and ended where none is wanted.
TEMPLATE = """\
{% for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% elif message.content %}\
{% for part in message.content %}{{ "<image>" if part.type == "image" else part.text }}\
{% endfor %}{% endif %}{% for call in message.tool_calls or [] %}<tool_call>
{{ call.function | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% if enable_thinking is defined and not enable_thinking %}
</think>

{% endif %}{% endif %}"""
SPEAKS = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "attention_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}
LOOKS = {
    "model_type": "idefics3_vision",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": TILE,
    "patch_size": PATCH,
}


def main() -> None:
    eyes, words = OUT / "eyes", tokenizer(PICTURE)
    eyes.mkdir(exist_ok=True)
    write(
        eyes,
        words,
        {
            "architectures": ["Idefics3ForConditionalGeneration"],
            "model_type": "idefics3",
            "text_config": SPEAKS | {"model_type": "llama"},
            "vision_config": LOOKS,
            "scale_factor": MERGED,
            "image_token_id": words.token_to_id("<image>"),
            "pad_token_id": 0,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
        },
        speaking("model.text_model", words, is_normed=False) | looking(),
    )
    (eyes / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": TILES * TILE},
                "max_image_size": {"longest_edge": TILE},
            }
        )
    )
    (eyes / "processor_config.json").write_text(
        json.dumps({"processor_class": "Idefics3Processor", "image_seq_len": TOKENS_OF_A_TILE})
    )
    text, words = (
        SPEAKS | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
        tokenizer(),
    )
    # Last: where this one is, both are.
    write(OUT, words, text, speaking("model", words, is_normed=True))


def write(
    folder: Path, words: Tokenizer, config: dict[str, Any], weights: dict[str, torch.Tensor]
) -> None:
    words.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "model_max_length": 4096,
                "chat_template": TEMPLATE,
            }
        )
    )
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})


def tokenizer(special: Sequence[str] = ()) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet
        ),
    )
    made.add_tokens([AddedToken(token, special=False) for token in ADDED])
    made.add_special_tokens([AddedToken(token, special=True) for token in special])
    return made


def weight(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) * 0.05


def speaking(prefix: str, words: Tokenizer, *, is_normed: bool) -> dict[str, torch.Tensor]:
    torch.manual_seed(7)
    embedded = weight(VOCABULARY, HIDDEN)
    # What is said is random, but never a token without a text: a picture's mark would want a
    # picture in the next prompt, and the end would cut an answer by chance. This part of the state
    # is positive after whatever was said, so that its sign makes a token likely or not.
    texts = [words.decode([token]) for token in range(VOCABULARY)]
    embedded[:, 0] = torch.tensor([1.0 if text else -1.0 for text in texts])
    made = {
        f"{prefix}.embed_tokens.weight": embedded,
        f"{prefix}.norm.weight": torch.ones(HIDDEN),
    }
    for layer in range(LAYERS):
        name = f"{prefix}.layers.{layer}"
        made |= {
            f"{name}.self_attn.q_proj.weight": weight(HEADS * HEAD_DIM, HIDDEN),
            f"{name}.self_attn.k_proj.weight": weight(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{name}.self_attn.v_proj.weight": weight(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{name}.self_attn.o_proj.weight": weight(HIDDEN, HEADS * HEAD_DIM),
            f"{name}.mlp.gate_proj.weight": weight(INNER, HIDDEN),
            f"{name}.mlp.up_proj.weight": weight(INNER, HIDDEN),
            f"{name}.mlp.down_proj.weight": weight(HIDDEN, INNER),
            f"{name}.input_layernorm.weight": torch.ones(HIDDEN),
            f"{name}.post_attention_layernorm.weight": torch.ones(HIDDEN),
        }
        if is_normed:
            made[f"{name}.self_attn.q_norm.weight"] = torch.ones(HEAD_DIM)
            made[f"{name}.self_attn.k_norm.weight"] = torch.ones(HEAD_DIM)
    return made


def looking() -> dict[str, torch.Tensor]:
    width, inner = LOOKS["hidden_size"], LOOKS["intermediate_size"]
    assert isinstance(width, int)
    assert isinstance(inner, int)
    made = {
        "model.vision_model.embeddings.patch_embedding.weight": weight(width, 3, PATCH, PATCH),
        "model.vision_model.embeddings.patch_embedding.bias": weight(width),
        "model.vision_model.embeddings.position_embedding.weight": weight(
            (TILE // PATCH) ** 2, width
        ),
        "model.connector.modality_projection.proj.weight": weight(HIDDEN, width * MERGED**2),
        **normed("model.vision_model.post_layernorm", width),
    }
    for layer in range(int(LOOKS["num_hidden_layers"])):
        name = f"model.vision_model.encoder.layers.{layer}"
        made |= normed(f"{name}.layer_norm1", width) | normed(f"{name}.layer_norm2", width)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            made |= linear(f"{name}.self_attn.{part}", width, width)
        made |= linear(f"{name}.mlp.fc1", inner, width) | linear(f"{name}.mlp.fc2", width, inner)
    return made


def linear(name: str, out: int, into: int) -> dict[str, torch.Tensor]:
    return {f"{name}.weight": weight(out, into), f"{name}.bias": weight(out)}


def normed(name: str, width: int) -> dict[str, torch.Tensor]:
    return {f"{name}.weight": torch.ones(width), f"{name}.bias": torch.zeros(width)}


if __name__ == "__main__":
    main()
