"""The script of a simulated start: what the engine logs, when, and how it ends.

The lines are those of vLLM 0.20, SGLang 0.5 and llama.cpp, with figures for the launch at hand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class DemoModel:
    """What the demo knows of a checkpoint, per GPU of one that it fits on alone."""

    weights: float  # GiB of all of it
    kv: float = 0.00012  # GiB a token of context
    architecture: str = "Qwen3ForCausalLM"
    speed: float = 95.0  # tokens a second of one request
    longest: int = 131072


MODELS = {
    "openai/gpt-oss-120b": DemoModel(weights=60.8, architecture="GptOssForCausalLM", speed=168, kv=0.00007),
    "lukealonso/MiniMax-M2.5-NVFP4": DemoModel(
        weights=122, architecture="MiniMaxM2ForCausalLM", speed=104, kv=0.00024, longest=196608
    ),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": DemoModel(
        weights=67.7, architecture="LlamaForCausalLM", kv=0.000305, speed=24
    ),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": DemoModel(
        weights=57, architecture="Qwen3MoeForCausalLM", speed=142, kv=0.00009, longest=262144
    ),
    "zai-org/GLM-4.5-Air-FP8": DemoModel(weights=104, architecture="Glm4MoeForCausalLM", speed=96),
    "Qwen/Qwen3-Coder-Next-FP8": DemoModel(
        weights=76, architecture="Qwen3NextForCausalLM", speed=51, kv=0.00003, longest=262144
    ),
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)[bB]\b")


def find_model(name: str) -> DemoModel:
    """What is known of a checkpoint; of another one a guess by the size in its name."""
    if name in MODELS:
        return MODELS[name]
    sizes = [float(size) for size in _SIZE.findall(name)]
    return DemoModel(weights=max(1.0, (max(sizes) if sizes else 8.0) * 1.9))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a command line asks of an engine."""

    engine: Literal["vllm", "sglang", "llamacpp"]
    model: str
    served: str
    port: int
    ranks: int
    context: int | None
    share: float  # of each GPU's memory
    kv_factor: float = 1.0  # a half with --kv-cache-dtype fp8


@dataclass(frozen=True, kw_only=True)
class LogLine:
    text: str
    stream: Literal["o", "e"] = "o"


@dataclass(frozen=True, kw_only=True)
class ScriptPause:
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """Each GPU holds so many bytes from now on, got to within so many seconds."""

    size: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Exit:
    code: int


type Step = LogLine | ScriptPause | Load | Exit


def play_start(settings: Settings, memory: int, *, seconds: float) -> Iterator[Step]:
    """The steps of a start on GPUs of so many bytes, in about so many seconds."""
    if settings.engine == "vllm":
        return _vllm(settings, memory, seconds)
    return _other(settings, memory, seconds)


def _stamp() -> str:
    return datetime.now().strftime("%m-%d %H:%M:%S")


def _vllm(settings: Settings, memory: int, seconds: float) -> Iterator[Step]:
    model, ranks = find_model(settings.model), settings.ranks
    part = seconds / 12
    core = "EngineCore pid=271" if ranks == 1 else "Worker_TP0 pid=412"
    names = [core] if ranks == 1 else [f"Worker_TP{n} pid={412 + n}" for n in range(ranks)]

    def api(text: str) -> LogLine:
        return LogLine(text=f"(APIServer pid=1) INFO {_stamp()} {text}")

    def log(name: str, text: str, level: str = "INFO") -> LogLine:
        return LogLine(text=f"({name}) {level} {_stamp()} {text}")

    context = settings.context or model.longest
    yield api("[utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.20.2")
    yield api(
        f"[utils.py:233] non-default args: {{'model': '{settings.model}', 'max_model_len': {context}, 'tensor_parallel_size': {ranks}}}"
    )
    yield ScriptPause(seconds=part)
    yield api(f"[model.py:547] Resolved architecture: {model.architecture}")
    yield api(f"[model.py:1682] Using max model len {context}")
    yield ScriptPause(seconds=part)
    yield log(
        core,
        f"[core.py:105] Initializing a V1 LLM engine (v0.20.2) with config: model='{settings.model}', tensor_parallel_size={ranks}",
    )
    for rank, name in enumerate(names):
        yield log(
            name,
            f"[parallel_state.py:1400] rank {rank} in world size {ranks} is assigned as DP rank 0, PP rank 0, TP rank {rank}",
        )
    if ranks > 1:
        yield log(core, "[pynccl.py:111] vLLM is using nccl==2.28.9")
    yield ScriptPause(seconds=part)
    for name in names:
        yield log(name, f"[gpu_model_runner.py:4281] Starting to load model {settings.model}...")
    weights = model.weights / ranks
    shards = max(2, min(24, round(model.weights / 4.5)))
    for done in range(shards + 1):
        share = done / shards
        yield Load(size=int((0.6 + weights * share) * GIB), seconds=5 * part / shards)
        if done:
            yield ScriptPause(seconds=4.6 * part / shards)
        yield LogLine(
            text=f"({core}) Loading safetensors checkpoint shards: {share:4.0%} Completed | {done}/{shards} "
            f"[00:{round(4.6 * part * share):02}<00:{round(4.6 * part * (1 - share)):02}, {shards / 4.6 / part:5.2f}it/s]",
            stream="e",
        )
    for name in names:
        yield log(name, f"[default_loader.py:384] Loading weights took {4.6 * part:.2f} seconds")
        yield log(
            name,
            f"[gpu_model_runner.py:4370] Model loading took {weights:.2f} GiB memory and {4.8 * part:.2f} seconds",
        )
    yield ScriptPause(seconds=part)
    yield log(
        core,
        "[backends.py:988] Using cache directory: /root/.cache/vllm/torch_compile_cache/6a46c91f/rank_0_0/backbone for vLLM's torch.compile",
    )
    yield log(core, f"[backends.py:1048] Dynamo bytecode transform time: {0.4 * part:.2f} s")
    yield ScriptPause(seconds=part)
    yield log(core, f"[monitor.py:34] torch.compile took {1.2 * part:.2f} s in total")
    free = memory / GIB * settings.share - weights - 3.4
    needed = context * model.kv / ranks * settings.kv_factor
    if free <= 0:
        yield from _die(
            core,
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        )
        return
    yield log(core, f"[gpu_worker.py:456] Available KV cache memory: {free:.2f} GiB")
    if needed > free:
        fits = int(free / needed * context) // 16 * 16
        yield from _die(
            core,
            f"To serve at least one request with the models's max seq len ({context}), ({needed:.2f} GiB KV cache is needed, "
            f"which is larger than the available KV cache memory ({free:.2f} GiB). Based on the available memory, the "
            f"estimated maximum model length is {fits}. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine.",
        )
        return
    tokens = int(free / (model.kv / ranks * settings.kv_factor))
    yield log(core, f"[kv_cache_utils.py:1316] GPU KV cache size: {tokens:,} tokens")
    yield log(
        core,
        f"[kv_cache_utils.py:1321] Maximum concurrency for {context:,} tokens per request: {tokens / context:.2f}x",
    )
    yield Load(size=int(memory * settings.share), seconds=part / 2)
    for done in range(0, 52, 3):
        yield LogLine(
            text=f"({core}) Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): {done / 51:4.0%}|{'█' * (done // 5):<10}| {done}/51",
            stream="e",
        )
        yield ScriptPause(seconds=part / 14)
    yield log(
        core,
        f"[gpu_model_runner.py:5283] Graph capturing finished in {part:.0f} secs, took 0.84 GiB",
    )
    yield log(
        core,
        f"[core.py:281] init engine (profile, create kv cache, warmup model) took {3.4 * part:.2f} seconds",
    )
    yield api(f"[api_server.py:590] Starting vLLM server on http://0.0.0.0:{settings.port}")
    yield LogLine(text="(APIServer pid=1) INFO:     Started server process [1]", stream="e")
    yield LogLine(text="(APIServer pid=1) INFO:     Application startup complete.", stream="e")


def _die(core: str, text: str) -> Iterator[Step]:
    trace = (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py", line 1082, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
        '  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/core/kv_cache_utils.py", line 1570, in get_kv_cache_configs',
        "    check_enough_kv_cache_memory(vllm_config, kv_cache_spec, available_memory)",
        f"ValueError: {text}",
    )
    for line in trace:
        yield LogLine(text=f"({core}) ERROR {_stamp()} [core.py:1108] {line}", stream="e")
    yield ScriptPause(seconds=0.6)
    yield LogLine(
        text="(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
        stream="e",
    )
    yield Exit(code=1)


def _other(settings: Settings, memory: int, seconds: float) -> Iterator[Step]:
    """SGLang's and llama.cpp's, shorter."""
    model, part = find_model(settings.model), seconds / 10
    weights = model.weights / settings.ranks
    if settings.engine == "llamacpp":
        yield LogLine(text="build: 7120 (0c1e570) with GNU 13.3.0 for Linux", stream="e")
        yield LogLine(text="main: loading model", stream="e")
        yield Load(size=int(weights * GIB), seconds=7 * part)
        yield LogLine(
            text="load_tensors: loading model tensors, this can take a while...", stream="e"
        )
        yield ScriptPause(seconds=7 * part)
        yield LogLine(text="main: model loaded", stream="e")
        yield LogLine(
            text=f"main: server is listening on http://0.0.0.0:{settings.port} - starting the main loop",
            stream="e",
        )
        return
    yield LogLine(
        text=f"[{datetime.now():%Y-%m-%d %H:%M:%S}] server_args=ServerArgs(model_path='{settings.model}', tp_size={settings.ranks})"
    )
    yield ScriptPause(seconds=2 * part)
    for rank in range(settings.ranks):
        yield LogLine(
            text=f"[{datetime.now():%Y-%m-%d %H:%M:%S} TP{rank}] Load weight begin. avail mem={memory / GIB:.2f} GB"
        )
    yield Load(size=int(weights * GIB), seconds=5 * part)
    for done in range(0, 11):
        yield ScriptPause(seconds=part / 2)
        yield LogLine(
            text=f"Loading safetensors checkpoint shards: {done / 10:4.0%} Completed | {done}/10 [00:0{done // 3}<00:03,  1.65it/s]",
            stream="e",
        )
    for rank in range(settings.ranks):
        yield LogLine(
            text=f"[{datetime.now():%Y-%m-%d %H:%M:%S} TP{rank}] Load weight end. type={model.architecture}, dtype=torch.bfloat16, avail mem={memory / GIB - weights:.2f} GB, mem usage={weights:.2f} GB."
        )
    yield Load(size=int(memory * settings.share), seconds=part)
    yield LogLine(
        text=f"[{datetime.now():%Y-%m-%d %H:%M:%S} TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.11 GB"
    )
    yield ScriptPause(seconds=2 * part)
    yield LogLine(
        text=f"[{datetime.now():%Y-%m-%d %H:%M:%S} TP0] Capture cuda graph end. Time elapsed: {2 * part:.2f} s. mem usage=0.84 GB. avail mem=8.27 GB."
    )
    yield LogLine(
        text=f"[{datetime.now():%Y-%m-%d %H:%M:%S}] The server is fired up and ready to roll!"
    )
