"""Clean shutdowns, by an engine's last lines."""

import re
from collections.abc import Iterable

# uvicorn, which vLLM and SGLang serve with, says it after SIGINT and SIGTERM; llama.cpp its own.
_ORDERLY = {
    "vllm": re.compile(r"Shutting down|Application shutdown complete|SIGTERM|SIGINT"),
    "sglang": re.compile(r"Shutting down|Application shutdown complete|SIGTERM received"),
    "llamacpp": re.compile(r"cleaning up before exit|Received second interrupt"),
}
# It says the same when it gives up by itself: then an error stands before it.
_TROUBLE = re.compile(
    r"Traceback|\bERROR\b|EngineDeadError|CUDA error|out of memory|OutOfMemory|Segmentation fault|"
    r"exiting due to|ggml_abort|GGML_ASSERT|terminate called|Killed|core dumped",
)


def is_orderly(engine: str, lines: Iterable[str]) -> bool:
    """`lines` are the last ones of its log; none say nothing, and then it is not.

    Rule: the words that an engine prints on SIGINT or SIGTERM, and no error among the last lines.
    """
    words = _ORDERLY.get(engine)
    lines = list(lines)
    if words is None or any(_TROUBLE.search(line) for line in lines):
        return False
    return any(words.search(line) for line in lines)
