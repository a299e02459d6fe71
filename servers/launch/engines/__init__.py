"""The engines that inferdash can run. Adding one: docs/engines.md."""

from servers.launch.engines.engine import Engine
from servers.launch.engines.llamacpp import LLAMACPP
from servers.launch.engines.other import OTHER
from servers.launch.engines.sglang import SGLANG
from servers.launch.engines.vllm import VLLM

__all__ = ["ENGINES", "SERVING", "Engine", "choices", "official_image", "usual_entrypoint"]

SERVING: dict[str, Engine] = {engine.key: engine for engine in (VLLM, SGLANG, LLAMACPP)}
ENGINES: dict[str, Engine] = {**SERVING, OTHER.key: OTHER}


def choices() -> list[tuple[str, str]]:
    """Keys and titles, in the order in which a form offers them."""
    return [(engine.key, engine.title) for engine in ENGINES.values()]


def official_image(key: str) -> str:
    """What people run this engine from when they have no reason for another image."""
    return ENGINES[key].image


def usual_entrypoint(image: str) -> tuple[str, ...]:
    """The entrypoint of an official image; () for others. For people to read: a start asks Docker."""
    name = _repository(image)
    for engine in SERVING.values():
        if name == _repository(engine.image):
            return engine.image_entrypoint
    return ()


def _repository(image: str) -> str:
    """A reference without tag and digest; a registry's port is no tag."""
    folder, slash, name = image.partition("@")[0].rpartition("/")
    return folder + slash + name.partition(":")[0]
