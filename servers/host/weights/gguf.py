"""The header of a GGUF file, in the terms of a config.json.

Source: the GGUF specification, version 2 and 3 (ggml-org/ggml, docs/gguf.md): little endian, a
count of key-value pairs after the magic, each with the type of its value.
"""

import re
import struct
from typing import Any, BinaryIO

_MAGIC = b"GGUF"
# Formats of struct by the type's number; 8 is a text, 9 a list.
_PLAIN = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT, _LIST = 8, 9
# A header that wants more has been made to be read for ever.
_MOST_PAIRS = 4096
_LONGEST_TEXT = 1 << 20
_MOST_ITEMS = 1 << 20  # of all lists of texts: a sparse file has them for nothing
_LONGEST_LIST = 4 << 20
_KEPT_ITEMS = 1024
_LONGEST_KEPT = 16 << 20  # bytes of all texts that are kept
_MOST_TENSORS = 1 << 17
_MOST_DIMENSIONS = 8  # GGML_MAX_DIMS is 4

# Values a block and bytes a block, by the number of a tensor's type (ggml.h, GGML_TYPE_*).
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

_NAMES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "v_head_dim",
    "attention.key_length_swa": "swa_head_dim",
    "attention.value_length_swa": "swa_v_head_dim",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "attention.sliding_window": "sliding_window",
    "full_attention_interval": "full_attention_interval",
}


# Of so many layers one attends to everything and the others to a window, where the header does not
# say it: the defaults of llama.cpp (src/models, load_swa_pattern). In the second set the first of
# them is the one, else the last.
_ROUNDS = {
    "afmoe": 4, "cohere2": 4, "cohere2moe": 4, "exaone-moe": 4, "exaone4": 4, "gemma-embedding": 6,
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "llama4": 4, "mellum": 4, "olmo2": 4,
    "plamo3": 8, "smallthinker": 4,
}  # fmt: skip
_FIRST_OF_ROUND = frozenset(("cohere2moe", "smallthinker"))
_EMBEDDINGS, _OUTPUT = "token_embd.weight", "output.weight"
_PATTERN = "attention.sliding_window_pattern"


class GgufError(Exception):
    """The file is no GGUF file, or its header is cut off."""


def config(file: BinaryIO) -> dict[str, Any]:
    """What config.json would say: layers, heads, dimensions, context, the quantization.

    Latents (MLA) and recurrent states have names of their own in each architecture and are
    left out, and with them the layers, so that nobody takes the model for a plain one.
    `host_bytes` are those of the embeddings, which llama.cpp leaves in main memory where the output
    has weights of its own in this file (src/llama-model.cpp, dev_input). `file` is read from where
    it stands. Raises GgufError, and OSError when it cannot be read.
    """
    header = _Header(file)
    try:
        pairs, tensors = header.pairs()
    except (struct.error, UnicodeDecodeError) as error:
        raise GgufError("It ends within its header.") from error
    kind = str(pairs.get("general.architecture") or "")
    own = {name.removeprefix(f"{kind}."): value for name, value in pairs.items()}
    found: dict[str, Any] = {"model_type": kind}
    found |= {ours: own[name] for name, ours in _NAMES.items() if name in own}
    if (vocabulary := pairs.get("tokenizer.ggml.tokens")) is not None:
        found["vocab_size"] = vocabulary if isinstance(vocabulary, int) else len(vocabulary)
    found["quantization_config"] = {"quant_method": "gguf"}
    heads = found.get("num_key_value_heads")
    if isinstance(heads, list):
        # One number a layer; 0 for those without attention.
        found["num_key_value_heads"] = heads[0] if len(set(heads)) == 1 else heads
    if any(name.startswith(("ssm.", "attention.kv_lora")) for name in own):
        found.pop("num_hidden_layers", None)
    if kinds := _read_layer_types(kind, own):
        found["layer_types"] = kinds
    elif kind == "phi3":
        found.pop("sliding_window", None)  # llama.cpp does not use it (src/models/phi3.cpp)
    if size := header.measure_embeddings(tensors):
        found["host_bytes"] = size
    return found


def _read_layer_types(kind: str, own: dict[str, Any]) -> list[str]:
    """As config.json lists them; none where the model has no window, or it is not known where."""
    count, said = own.get("block_count"), own.get(_PATTERN, _ROUNDS.get(kind))
    if not own.get("attention.sliding_window") or not isinstance(count, int):
        return []
    if isinstance(said, list):
        windowed = said[:count]
    elif isinstance(said, int) and said > 0:
        full = 0 if kind in _FIRST_OF_ROUND else said - 1
        windowed = [layer % said != full for layer in range(min(count, _KEPT_ITEMS))]
    else:
        return []
    return ["sliding_attention" if each else "full_attention" for each in windowed]


def length(file: BinaryIO) -> int:
    """Bytes that the file has when it is whole, by the places of its tensors.

    Of a tensor whose type is not known only its beginning counts. Raises GgufError, and OSError
    when the file cannot be read.
    """
    header = _Header(file)
    try:
        pairs, tensors = header.pairs()
        end = max((header.tensor_end() for _ in range(tensors)), default=0)
    except (struct.error, UnicodeDecodeError) as error:
        raise GgufError("It ends within its header.") from error
    alignment = pairs.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise GgufError(f"An alignment of {alignment!r} is none.")
    size = file.tell()
    # One without tensors is a vocabulary, and ends where its header does.
    return -(-size // alignment) * alignment + end if tensors else size


class _Header:
    """What stands before the data of a model, as far as its budgets last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._items = _MOST_ITEMS
        self._kept = _LONGEST_KEPT

    def pairs(self) -> tuple[dict[str, Any], int]:
        """The values of the header, and how many tensors are described after them."""
        if self._file.read(4) != _MAGIC:
            raise GgufError("It does not begin as a GGUF file does.")
        version = self._number("I")
        if version not in (2, 3):
            raise GgufError(f"Version {version} of GGUF is not known.")
        tensors, count = self._number("Q"), self._number("Q")
        if count > _MOST_PAIRS or tensors > _MOST_TENSORS:
            raise GgufError(f"A header of {count} values and {tensors} tensors is not read.")
        found = {}
        for _ in range(count):
            name = self._text()
            found[name] = self._value(self._number("I"))
        return found, tensors

    def measure_embeddings(self, tensors: int) -> int:
        """Bytes of the embeddings, where the output does not use the same ones; else 0."""
        sizes = {}
        try:
            for _ in range(tensors):
                name = self._text()
                sizes[name] = self._measure_tensor()[1]
                if {_EMBEDDINGS, _OUTPUT} <= sizes.keys():
                    return sizes[_EMBEDDINGS]
        except (struct.error, UnicodeDecodeError):
            return 0  # the file is still being written
        return 0

    def tensor_end(self) -> int:
        """Where the data of the next tensor ends, counted from the beginning of all data."""
        self._skip_text()
        return sum(self._measure_tensor())

    def _measure_tensor(self) -> tuple[int, int]:
        """Where its data begins, and how many bytes they are; 0 for a type that is not known."""
        dimensions = self._number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise GgufError(f"A tensor of {dimensions} dimensions is none.")
        values = 1
        for _ in range(dimensions):
            values *= self._number("Q")
        kind, offset = self._number("I"), self._number("Q")
        per_block, size = _BLOCKS.get(kind, (1, 0))
        return int(offset), int(values // per_block * size)

    def _value(self, kind: int) -> Any:
        """A number or text; of a long list how many there are."""
        if kind in _PLAIN:
            return self._number(_PLAIN[kind])
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            raise GgufError(f"Values of type {kind} are not known.")
        of, count = self._number("I"), self._number("Q")
        if count > _LONGEST_LIST or (of != _TEXT and of not in _PLAIN):
            raise GgufError(f"A list of {count} values of type {of} is not read.")
        if of in _PLAIN and count > _KEPT_ITEMS:
            self._file.seek(count * struct.calcsize(_PLAIN[of]), 1)
            return count
        self._items -= count
        if self._items < 0:
            raise GgufError(f"A header with more than {_MOST_ITEMS} values is not read.")
        if count <= _KEPT_ITEMS:
            return [self._value(of) for _ in range(count)]
        for _ in range(count):
            self._skip_text()
        return count

    def _number(self, kind: str) -> Any:
        size = struct.calcsize(f"<{kind}")
        return struct.unpack(f"<{kind}", self._file.read(size))[0]

    def _length(self) -> int:
        length: int = self._number("Q")
        if length > _LONGEST_TEXT:
            raise GgufError(f"A text of {length} bytes is not read.")
        return length

    def _text(self) -> str:
        length = self._length()
        self._kept -= length
        if self._kept < 0:
            raise GgufError(f"A header with more than {_LONGEST_KEPT >> 20} MiB is not read.")
        said = self._file.read(length)
        if len(said) < length:
            raise GgufError("It ends within its header.")
        return said.decode()

    def _skip_text(self) -> None:
        self._file.seek(self._length(), 1)


# The safetensors format allows no longer header.
_LONGEST_HEADER = 100_000_000
_BEGINNING = 64  # bytes, after which one knows whether the rest is worth reading
_ENDS = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d{1,19})\s*\]')


def read_expected_size(file: BinaryIO, suffix: str) -> int | None:
    """Bytes that the file has when it is whole; None for a format that does not tell.

    0 for a file of such a format whose header itself is cut off or is none. Raises OSError when
    it cannot be read. Sources: the safetensors format (eight bytes of length, a JSON header,
    data by offsets) and GGUF (see host.weights.gguf).
    """
    if suffix == ".safetensors":
        return _safetensors(file)
    if suffix == ".gguf":
        try:
            return length(file)
        except (GgufError, MemoryError):
            return 0
    return None


def _safetensors(file: BinaryIO) -> int:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > _LONGEST_HEADER:
        return 0
    header = file.read(min(length, _BEGINNING))
    if not header.lstrip().startswith(b"{"):
        return 0
    header += file.read(length - len(header))
    if len(header) < length:
        return 0
    return 8 + length + max((int(end) for end in _ENDS.findall(header)), default=0)
