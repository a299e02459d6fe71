"""The purpose of a launch: chats, or other tasks, by flags and variables."""

from collections.abc import Mapping

from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch
from servers.launch.engines.other import OTHER

# Flag -> the values that mean another task; () is any, also none.
_OTHER_TASKS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "--task": ("embed", "embedding", "classify", "score", "reward", "transcription"),
        "--runner": ("pooling",),
        "--convert": ("embed", "classify", "reward"),
    },
    "sglang": {"--is-embedding": (), "--model-type": ("diffusion",)},
    "llamacpp": {"--embedding": (), "--embeddings": (), "--reranking": (), "--rerank": ()},
}
_VARIABLES = ("LLAMA_ARG_EMBEDDINGS", "LLAMA_ARG_RERANKING")
_ON = ("1", "true", "on", "enabled", "yes")


def chats(launch: Launch) -> bool:
    """Whether to expect an answer to a chat; what launches do not say, such as that a checkpoint
    only embeds, is not known here."""
    if launch.engine == OTHER.key:
        return False
    for flag, values in _OTHER_TASKS.get(launch.engine, {}).items():
        said = flag_value(launch.flags, flag)
        if said is not None and (not values or said in values):
            return False
    return not any(launch.env.get(name, "").lower() in _ON for name in _VARIABLES)
