"""What the config.json of published models says of their size, and launches of them."""

from typing import Any

from servers.judge.memory.pools import GpuRoom
from servers.judge.profiles.facts import BoxKind, Subject, TargetGpu
from servers.launch.engines.launch import Launch

GIB = 2**30
GB = 10**9

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096, "intermediate_size": 14336,
    "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN3_8B: dict[str, Any] = {
    "model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
    "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
    "sliding_window": None, "use_sliding_window": False,
}  # fmt: skip
QWEN3_30B: dict[str, Any] = {
    "model_type": "qwen3_moe", "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151936, "max_position_embeddings": 262144, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN3_235B: dict[str, Any] = {
    "model_type": "qwen3_moe", "num_hidden_layers": 94, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
    "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "vocab_size": 129280, "max_position_embeddings": 163840,
    "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip
GLM_5: dict[str, Any] = {
    "model_type": "glm_moe_dsa", "num_hidden_layers": 78, "num_attention_heads": 64,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128, "hidden_size": 6144,
    "intermediate_size": 12288, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "vocab_size": 154880, "max_position_embeddings": 202752,
}  # fmt: skip
MINIMAX_M2: dict[str, Any] = {
    "model_type": "minimax_m2", "num_hidden_layers": 62, "num_attention_heads": 48,
    "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 3072, "intermediate_size": 1536,
    "num_local_experts": 256, "num_experts_per_tok": 8, "vocab_size": 200064,
    "max_position_embeddings": 196608, "attn_type_list": [1] * 62,
    "quantization_config": {"quant_method": "modelopt"},
}  # fmt: skip
QWEN36_35B: dict[str, Any] = {
    "model_type": "qwen3_5_moe",
    "text_config": {
        "model_type": "qwen3_5_moe_text", "num_hidden_layers": 40, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048, "vocab_size": 248320,
        "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "moe_intermediate_size": 512, "num_experts": 256, "num_experts_per_tok": 8,
        "max_position_embeddings": 262144,
    },
    "quantization_config": {"quant_method": "modelopt"},
}  # fmt: skip
GPT_OSS_120B: dict[str, Any] = {
    "model_type": "gpt_oss", "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
    "num_local_experts": 128, "num_experts_per_tok": 4, "vocab_size": 201088,
    "max_position_embeddings": 131072, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
NEMOTRON_H_8B: dict[str, Any] = {
    "model_type": "nemotron_h", "num_hidden_layers": 52, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096, "vocab_size": 131072,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
    "conv_kernel": 4, "max_position_embeddings": 8192,
}  # fmt: skip

RTX_6000 = ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 97250 << 20)
H100 = ("NVIDIA H100 80GB HBM3", "9.0", int(79.19 * GIB))
H200 = ("NVIDIA H200", "9.0", int(139.8 * GIB))
GB10 = ("NVIDIA GB10", "12.1", int(119.68 * GIB))


def subject(
    engine: str,
    *flags: str,
    config: dict[str, Any] | None = None,
    weights: float | None = None,  # bytes
    card: tuple[str, str, int] = RTX_6000,
    count: int = 1,
    free: tuple[float | None, ...] = (),  # GiB of each; all that there is where it is left out
    kind: BoxKind = "discrete",
    nodes: int = 1,
    **launch: Any,
) -> Subject:
    """A launch on a box of such cards."""
    name, capability, total = card
    says = {"image": "registry.example/engine", "checkpoint": "org/model", **launch}
    left = free or (total / GIB - 0.1,) * count
    return Subject(
        launch=Launch(engine=engine, flags=flags, **says),
        engine_version={"vllm": "0.33.0", "sglang": "0.5.23"}.get(engine, ""),
        gpus=tuple(
            TargetGpu(index=index, name=name, compute_capability=capability, memory=total)
            for index in range(count)
        ),
        box_kind=kind,
        nodes=nodes,
        checkpoint_config=config,
        weights=None if weights is None else int(weights),
        rooms=tuple(
            GpuRoom(
                index=index,
                total=total,
                free=None if size is None else int(size * GIB),
                is_unified=kind == "unified",
                others=0 if size is None else total - int(size * GIB),
            )
            for index, size in enumerate(left)
        ),
    )
