"""The engines that inferdash can run. Adding one: docs/engines.md."""

from servers.engines.engine import Engine
from servers.engines.llamacpp import LLAMACPP
from servers.engines.sglang import SGLANG
from servers.engines.vllm import VLLM

__all__ = ["ENGINES", "Engine", "choices"]

ENGINES: dict[str, Engine] = {engine.key: engine for engine in (VLLM, SGLANG, LLAMACPP)}


def choices() -> list[tuple[str, str]]:
    """Keys and titles, in the order in which a form offers them."""
    return [(engine.key, engine.title) for engine in ENGINES.values()]
