"""The engines that inferdash can run. Adding one: docs/engines.md."""

from servers.launch.engines.engine import Engine as Engine
from servers.launch.engines.llamacpp import LLAMACPP
from servers.launch.engines.other import OTHER
from servers.launch.engines.sglang import SGLANG
from servers.launch.engines.vllm import VLLM

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
    return known_entrypoint(image) or ()


# Images whose entrypoint runs the words behind it, or that have none.
_RUN_WORDS = ("lmsysorg/sglang", "nvcr.io/nvidia/", "rocm/")


def known_entrypoint(image: str) -> tuple[str, ...] | None:
    """The entrypoint that an image is known to have; None where its name does not say it.

    () for one that has none, or one that runs the words behind it.
    """
    name = _repository(image).removeprefix("docker.io/")
    tag = image.partition("@")[0].removeprefix(_repository(image)).lstrip(":")
    if name in ("ghcr.io/ggml-org/llama.cpp", "ghcr.io/ggerganov/llama.cpp"):
        return ("/app/tools.sh",) if tag.startswith("full") else LLAMACPP.image_entrypoint
    if name == "rocm/llama.cpp":
        # AMD puts what llama.cpp writes first at the end: b6652.amd0_rocm7.0.0_ubuntu24.04_server.
        kinds = {"server": LLAMACPP.image_entrypoint, "full": ("/app/tools.sh",)}
        return kinds.get(tag.rpartition("_")[2])
    if name.startswith("vllm/vllm-openai"):
        return VLLM.image_entrypoint
    return () if name.startswith(_RUN_WORDS) else None


def _repository(image: str) -> str:
    """A reference without tag and digest; a registry's port is no tag."""
    folder, slash, name = image.partition("@")[0].rpartition("/")
    return folder + slash + name.partition(":")[0]
