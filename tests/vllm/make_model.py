"""Writes a Qwen3 of a few million random weights, and a tokenizer, for vLLM to serve."""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = Path(sys.argv[1])
HIDDEN, LAYERS, HEADS, KV_HEADS, INNER, VOCABULARY = 128, 2, 4, 2, 256, 512
HEAD_DIM = 64  # vLLM's attention on the CPU has no kernel for smaller ones
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Which parsers look for. What stands in an answer is no special token, which engines leave out.
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
TEXT = [
    "The quick brown fox jumps over the lazy dog while the engine loads its weights.",
    "user assistant system What is the capital of France? Paris is the capital.",
    "0123456789 def main(): return None # comment",
]
# As Qwen3's: calls stand in tags, thinking is begun for the model, and ended where none is wanted.
TEMPLATE = """\
{% for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or "" }}{% for call in message.tool_calls or [] %}<tool_call>
{{ call.function | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% if enable_thinking is defined and not enable_thinking %}
</think>

{% endif %}{% endif %}"""

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
tokenizer.train_from_iterator(
    TEXT,
    trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet),
)
tokenizer.add_tokens([AddedToken(token, special=False) for token in ADDED])
tokenizer.save(str(OUT / "tokenizer.json"))
(OUT / "tokenizer_config.json").write_text(
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
(OUT / "config.json").write_text(
    json.dumps(
        {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
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
    )
)
torch.manual_seed(7)


def weight(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) * 0.05


tensors = {
    "model.embed_tokens.weight": weight(VOCABULARY, HIDDEN),
    "model.norm.weight": torch.ones(HIDDEN),
}
for layer in range(LAYERS):
    name = f"model.layers.{layer}"
    tensors |= {
        f"{name}.self_attn.q_proj.weight": weight(HEADS * HEAD_DIM, HIDDEN),
        f"{name}.self_attn.k_proj.weight": weight(KV_HEADS * HEAD_DIM, HIDDEN),
        f"{name}.self_attn.v_proj.weight": weight(KV_HEADS * HEAD_DIM, HIDDEN),
        f"{name}.self_attn.o_proj.weight": weight(HIDDEN, HEADS * HEAD_DIM),
        f"{name}.self_attn.q_norm.weight": torch.ones(HEAD_DIM),
        f"{name}.self_attn.k_norm.weight": torch.ones(HEAD_DIM),
        f"{name}.mlp.gate_proj.weight": weight(INNER, HIDDEN),
        f"{name}.mlp.up_proj.weight": weight(INNER, HIDDEN),
        f"{name}.mlp.down_proj.weight": weight(HIDDEN, INNER),
        f"{name}.input_layernorm.weight": torch.ones(HIDDEN),
        f"{name}.post_attention_layernorm.weight": torch.ones(HIDDEN),
    }
save_file(tensors, str(OUT / "model.safetensors"), metadata={"format": "pt"})
