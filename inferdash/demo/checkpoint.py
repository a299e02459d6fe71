"""Checkpoints in the Hugging Face cache of a simulated box: real headers, and files without content.

They take next to no room: the files are as long as they say, and have holes where weights would be.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from inferdash.demo.script import GIB, MODELS

_PART = 5 * GIB
_HEADS: dict[str, Any] = {
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "hidden_size": 5120, "vocab_size": 151936, "torch_dtype": "bfloat16",
}  # fmt: skip
_CONFIGS: dict[str, dict[str, Any]] = {
    "openai/gpt-oss-120b": {"model_type": "gpt_oss", "num_hidden_layers": 36, "num_local_experts": 128,
                            "head_dim": 64, "quantization_config": {"quant_method": "mxfp4"}},
    "lukealonso/MiniMax-M2.5-NVFP4": {"model_type": "minimax_m2", "num_hidden_layers": 62, "num_local_experts": 256,
                                      "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": {"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192,
                       "quantization_config": {"quant_method": "compressed-tensors"}},
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": {"model_type": "qwen3_moe", "num_hidden_layers": 48, "num_key_value_heads": 4},
    "zai-org/GLM-4.5-Air-FP8": {"model_type": "glm4_moe", "num_hidden_layers": 46,
                                "quantization_config": {"quant_method": "compressed-tensors"}},
    "Qwen/Qwen3-Coder-Next-FP8": {"model_type": "qwen3_next", "num_hidden_layers": 48, "num_key_value_heads": 2,
                                  "head_dim": 256, "quantization_config": {"quant_method": "fp8"}},
}  # fmt: skip


def write(hub: Path, name: str) -> None:
    """One of the demo's models, as huggingface_hub lays it out."""
    model = MODELS[name]
    commit = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    folder = hub / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True, exist_ok=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs/main").write_text(commit)
    config = {"architectures": [model.architecture], "max_position_embeddings": model.longest}
    (snapshot / "config.json").write_text(json.dumps({**_HEADS, **config, **_CONFIGS[name]}))
    size = int(model.weights * GIB)
    count = -(-size // _PART)
    files = [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    places = {}
    for n, file in enumerate(files):
        tensor = f"model.layers.{n}.weight"
        places[tensor] = file
        _write_part(snapshot / file, tensor, min(_PART, size - n * _PART))
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_part(path: Path, tensor: str, size: int) -> None:
    told = {tensor: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    header = json.dumps(told).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
