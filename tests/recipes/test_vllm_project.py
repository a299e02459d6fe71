import pytest

from servers.launch.recipes.document import read, write
from servers.launch.recipes.notation import DocumentError
from servers.launch.recipes.vllm_project import documents

MODEL = """\
meta:
  title: "Heron-90B"
  description: "A mixture of experts."
  tasks: [text]
  hardware:
    h200: verified
    mi300x: unsupported
model:
  model_id: "heron/Heron-90B"
  min_vllm_version: "0.20.0"
  architecture: moe
  base_args:
    - "--trust-remote-code"
    - "--max-model-len"
    - "32768"
  base_env:
    VLLM_USE_DEEP_GEMM: "0"
dependencies:
  - command: "pip install heron-kernels"
  - note: "Download the checkpoint first"
    install_modes: [pip, docker]
features:
  tool_calling:
    args: ["--enable-auto-tool-choice", "--tool-call-parser", "heron"]
  encoder:
    args: ["--encoder", "any"]
    env: {ENCODER: any}
    hardware_overrides:
      nvidia:
        args: ["--encoder", "flashinfer"]
      amd:
        args: ["--encoder", "aiter"]
        env: {ENCODER: aiter}
  spec_decoding:
    default_mode: mtp
    modes:
      mtp:
        args: ["--speculative-config", '{"method":"mtp"}']
        env: {HERON_MTP: "1"}
      eagle:
        variants: [small]
        args: ["--speculative-config", '{"method":"eagle"}']
  long_context:
    args: ["--max-model-len", "131072"]
opt_in_features: [spec_decoding, long_context]
variants:
  default:
    precision: bf16
    vram_minimum_gb: 216
  nvfp4:
    model_id: "heron/Heron-90B-NVFP4"
    precision: nvfp4
    vram_minimum_gb: 54
    extra_args: ["--kv-cache-dtype", "fp8", "--max-model-len", "65536"]
    extra_env: {HERON_FP4: "1"}
    default_modes: {spec_decoding: mtp}
    tp: {nvidia: 2, amd: 8}
    docker_image: "vllm/vllm-openai:heron"
  small:
    precision: int4
    default_modes: {spec_decoding: eagle}
    supported_hardware: [h100]
hardware_overrides:
  blackwell:
    extra_args: ["--moe-backend", "heron_fp4"]
    extra_env: {HERON_SM: "120"}
  gb10:
    docker_image: "heron/vllm-spark:1"
  nvidia:
    extra_args: ["--moe-backend", "triton"]
strategy_overrides:
  single_node_tp:
    tp: 4
compatible_strategies: [single_node_tp]
guide: |
  ## Overview
"""


def test_each_variant_becomes_a_profile() -> None:
    default, nvfp4, small = documents(MODEL, where="Heron-90B.yaml", gpus=8)

    assert [each.name for each in (default, nvfp4, small)] == [
        "Heron-90B",
        "Heron-90B nvfp4",
        "Heron-90B small",
    ]
    assert default.source.url == "https://recipes.vllm.ai/heron/Heron-90B"
    assert default.tags == ("moe", "bf16")
    assert default.launch.engine == "vllm"
    assert default.launch.image == "vllm/vllm-openai:latest"
    assert default.launch.checkpoint == "heron/Heron-90B"
    assert default.launch.expected == {"GPU memory": "at least 216 GB"}
    assert default.launch.env == {"VLLM_USE_DEEP_GEMM": "0", "ENCODER": "any"}
    assert default.launch.flags == (
        "--trust-remote-code",
        "--max-model-len",
        "32768",
        "--moe-backend",
        "triton",
        "--tensor-parallel-size",
        "4",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "heron",
        "--encoder",
        "flashinfer",
    )
    assert default.notes == (
        "A mixture of experts.\n\n"
        "- Needs vLLM 0.20.0 or newer.\n"
        "- The model is spread over 4 GPUs.\n"
        "- Verified by its authors on h200.\n"
        "- Wants more than the image has: Download the checkpoint first\n"
        "- Left out, as optional: spec_decoding, long_context.\n"
    )


def test_a_variant_has_a_checkpoint_image_and_flags_of_its_own() -> None:
    _default, nvfp4, small = documents(MODEL, where="x", gpus=8, generation="blackwell")

    assert nvfp4.launch.checkpoint == "heron/Heron-90B-NVFP4"
    assert nvfp4.launch.image == "vllm/vllm-openai:heron"
    assert nvfp4.launch.flags == (
        "--trust-remote-code",
        "--kv-cache-dtype",
        "fp8",
        "--max-model-len",
        "65536",
        "--moe-backend",
        "heron_fp4",
        "--tensor-parallel-size",
        "2",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "heron",
        "--encoder",
        "flashinfer",
        "--speculative-config",
        '{"method":"mtp"}',
    )
    assert nvfp4.launch.env == {
        "VLLM_USE_DEEP_GEMM": "0",
        "HERON_FP4": "1",
        "ENCODER": "any",
        "HERON_SM": "120",
        "HERON_MTP": "1",
    }
    assert '{"method":"eagle"}' in small.launch.flags
    assert "- Published for h100 only." in small.notes


def test_one_gpu_needs_no_parallelism() -> None:
    for document in documents(MODEL, where="x"):
        assert "--tensor-parallel-size" not in document.launch.flags
        assert document.launch.ipc == ""


def test_what_was_imported_can_be_shared() -> None:
    for document in documents(MODEL, where="x", gpus=8):
        assert read(write(document), where="x") == document


def test_images_may_be_named_by_brand() -> None:
    pinned = MODEL.replace(
        '  architecture: moe',
        '  docker_image: {amd: "vllm/vllm-openai-rocm:a", nvidia: "vllm/vllm-openai:b"}\n'
        "  architecture: moe",
    )  # fmt: skip

    assert documents(pinned, where="x")[0].launch.image == "vllm/vllm-openai:b"
    assert documents(pinned, where="x", generation="gb10")[1].launch.image == "heron/vllm-spark:1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a", "h.yaml, line 1: meta is missing: this is no model file"),
        ("meta: {}\nmodel: {}\nvariants: {}", "model: model_id is missing"),
        (MODEL.replace("    tp: 4", "    tp: four"), "tp: “four” is not a whole number"),
        (MODEL.replace("base_args:\n", "base_args: x\n  other:\n"), "base_args: Write a list"),
    ],
)
def test_other_files_are_refused_with_the_line(text: str, says: str) -> None:
    with pytest.raises(DocumentError, match=says):
        documents(text, where="h.yaml", gpus=8)
