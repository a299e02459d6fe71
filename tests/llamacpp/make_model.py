"""A Qwen3 of half a million weights as a GGUF file, for llama.cpp to serve.

Each token has one that follows it, whatever came before: it thinks, answers and ends, always in
the same words.
"""

from array import array
from pathlib import Path
from random import Random

from tests.llamacpp import gguf_file

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INNER = 128, 2, 4, 2, 32, 256
CONTEXT = 32768
# No word twice: the one that follows would be the same.
THOUGHT = "The user asks about engines"
ANSWER = (
    "An engine loads its weights, warms up once and then listens for requests on one port while "
    "somebody else counts every token that was made."
)
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# What stands in an answer is no control token, which engines leave out.
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
# As Qwen3's: calls stand in tags, and thinking is ended for the model where none is wanted.
TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n' }}
{{- '# Tools\\n\\nYou may call functions. They are within <tools></tools>:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '\\n</tools>\\n\\nFor each call, return a JSON object within <tool_call></tool_call>:\\n' }}
{{- '<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' }}
{{- '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}
{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"""
NORMAL, IS_CONTROL, USER_DEFINED = 1, 3, 4


def write(path: Path, layers: int = LAYERS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(gguf_file.whole(*_model(layers)))
    part.rename(path)


def _model(layers: int) -> tuple[gguf_file.Pairs, gguf_file.Tensors]:
    tokens, merges = _vocabulary()
    kinds = [IS_CONTROL] * len(CONTROL) + [USER_DEFINED] * len(TAGS)
    pairs: gguf_file.Pairs = {
        "general.architecture": "qwen3",
        "general.name": "Tiny Qwen3",
        "general.size_label": "0.5M",
        "general.file_type": 0,
        "qwen3.block_count": layers,
        "qwen3.context_length": CONTEXT,
        "qwen3.embedding_length": HIDDEN,
        "qwen3.feed_forward_length": INNER,
        "qwen3.attention.head_count": HEADS,
        "qwen3.attention.head_count_kv": KV_HEADS,
        "qwen3.attention.key_length": HEAD_DIM,
        "qwen3.attention.value_length": HEAD_DIM,
        "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
        "qwen3.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds + [NORMAL] * (len(tokens) - len(kinds)),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    return pairs, _tensors(tokens, layers)


def _byte_letters() -> list[str]:
    """The letter that stands for each byte, as GPT-2's tokenizer has them."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in seen else next(others)) for byte in range(256)]


def _words(text: str) -> list[str]:
    """Words as tokens: the space before one belongs to it, a comma and a full stop do not."""
    parted = text.replace(",", " ,").replace(".", " .").split()
    words = [parted[0], *("Ġ" + word for word in parted[1:])]
    return [word.removeprefix("Ġ") if word[-1] in ",." else word for word in words]


def _chain() -> list[str]:
    """From the prompt's last token on, what follows it each time."""
    return ["Ċ", *_words(THOUGHT), "</think>", "ĊĊ", *_words(ANSWER), "<|im_end|>"]


def _vocabulary() -> tuple[list[str], list[str]]:
    tokens = [*CONTROL, *TAGS, *_byte_letters()]
    merges = []
    for word in _chain():
        for end in range(2, len(word) + 1):
            if word not in tokens[: len(CONTROL + TAGS)] and word[:end] not in tokens:
                tokens.append(word[:end])
                merges.append(f"{word[: end - 1]} {word[end - 1]}")
    return tokens, merges


def _tensors(tokens: list[str], layers: int) -> gguf_file.Tensors:
    random = Random(7)  # noqa: S311 - no secret

    def weights(*shape: int, scale: float) -> tuple[tuple[int, ...], array[float]]:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return shape, array("f", [random.gauss(0, scale) for _ in range(count)])

    def ones(size: int) -> tuple[tuple[int, ...], array[float]]:
        return (size,), array("f", [1.0] * size)

    embedded = weights(HIDDEN, len(tokens), scale=1.0)
    output = weights(HIDDEN, len(tokens), scale=0.01)
    chain = [tokens.index(word) for word in _chain()]
    follows = [(this, following, 0.3) for this, following in zip(chain, chain[1:], strict=False)]
    # Where it may not end, as its grammar says when a tool must be called, it calls one.
    call = tokens.index("<tool_call>")
    follows += [(chain[-2], call, 0.2), (call, chain[0], 0.3)]
    for this, following, likely in follows:
        for at in range(HIDDEN):
            output[1][following * HIDDEN + at] = likely * embedded[1][this * HIDDEN + at]
    tensors = {
        "token_embd.weight": embedded,
        "output_norm.weight": ones(HIDDEN),
        "output.weight": output,
    }
    wide, narrow = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    for layer in range(layers):
        name = f"blk.{layer}"
        tensors |= {
            f"{name}.attn_norm.weight": ones(HIDDEN),
            f"{name}.attn_q.weight": weights(HIDDEN, wide, scale=0.05),
            f"{name}.attn_k.weight": weights(HIDDEN, narrow, scale=0.05),
            f"{name}.attn_v.weight": weights(HIDDEN, narrow, scale=0.05),
            f"{name}.attn_q_norm.weight": ones(HEAD_DIM),
            f"{name}.attn_k_norm.weight": ones(HEAD_DIM),
            # These two write into what the last token is read from: little.
            f"{name}.attn_output.weight": weights(wide, HIDDEN, scale=0.001),
            f"{name}.ffn_norm.weight": ones(HIDDEN),
            f"{name}.ffn_gate.weight": weights(HIDDEN, INNER, scale=0.05),
            f"{name}.ffn_up.weight": weights(HIDDEN, INNER, scale=0.05),
            f"{name}.ffn_down.weight": weights(INNER, HIDDEN, scale=0.001),
        }
    return tensors
