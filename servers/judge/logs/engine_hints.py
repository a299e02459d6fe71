"""The engine that wrote a log, by its files and words, where no start-up names it."""

import re
from collections.abc import Iterable

_HINTS = (
    (
        "sglang",
        re.compile(
            r"/sglang/|sgl-workspace|sglang\.srt|sgl_kernel|sglang serve|^\[[\d :-]{19} [TDE]P\d|"
            r"\blaunch_server\.py: error: |Received sigquit from a child proces|SIGQUIT received\. signum=|Scheduler hit an exception"
        ),
    ),
    (
        "vllm",
        re.compile(
            r"/vllm/|bin/vllm\b|\bvllm[.:] ?|\bvllm serve|VLLM_\w|EngineCore|"
            r"(?:INFO|WARNING|ERROR) \d\d-\d\d [\d:]{8} \[?\w{1,60}\.py:\d|"
            r"(?:gpu_model_runner|gpu_worker|multiproc_executor|core_client)\.py:\d"
        ),
    ),
    (
        "llamacpp",
        re.compile(r"\bllama_\w|\bggml_\w|/ggml/|llama-server|llama runner|gguf_init_from_file"),
    ),
)


def guess_engine(lines: Iterable[tuple[int, str]]) -> str:
    """A key of ENGINES; "": nothing tells. SGLang speaks of vLLM, not the reverse."""
    named = {engine for _number, line in lines for engine, hint in _HINTS if hint.search(line)}
    return next((engine for engine, _hint in _HINTS if engine in named), "")
