"""Any other program in a container: a port and a path that answers when it is ready, and no chat."""

from collections.abc import Mapping

from servers.launch.engines.engine import Engine, flag_value
from servers.launch.engines.launch import Launch
from servers.launch.tables import freeze, read_table


def _own_flags(launch: Launch, host: str, entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    return ()  # nobody knows how it is told its port


def _words_after_entrypoint(entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    return ()


OTHER = Engine(
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
    **freeze(read_table(__file__)),
)


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


def can_chat(launch: Launch) -> bool:
    """Whether to expect an answer to a chat; what launches do not say, such as that a checkpoint
    only embeds, is not known here."""
    if launch.engine == OTHER.key:
        return False
    for flag, values in _OTHER_TASKS.get(launch.engine, {}).items():
        said = flag_value(launch.flags, flag)
        if said is not None and (not values or said in values):
            return False
    return not any(launch.env.get(name, "").lower() in _ON for name in _VARIABLES)
