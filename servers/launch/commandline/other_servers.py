"""Servers with an OpenAI path that are none of the engines here: known by the words that start them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from servers.launch.commandline.engine_words import find_program, is_program, program


@dataclass(frozen=True, kw_only=True)
class OtherServer:
    words: tuple[str, ...]  # its command begins with them, behind wrappers and shells
    title: str
    port: int = 0  # 0: not known here
    ready_path: str = ""  # answers 200 when it serves; "": not known here


# Without a container, at the beginning of a line.
ALONE = re.compile(
    r"(?m)^[^#\n\"']*?(?<![\w/.-])(?P<name>trtllm-serve|lmdeploy serve|text-generation-launcher"
    r"|text-embeddings-router|aphrodite run|mlx_lm\.server|mistralrs(?:-server)?|koboldcpp"
    r"|python3? -m llama_cpp\.server|ollama (?:serve|run))\s"
)
_SERVERS = (
    OtherServer(
        words=("trtllm-serve",), title="TensorRT-LLM’s server", port=8000, ready_path="/health"
    ),
    OtherServer(
        words=("lmdeploy", "serve"), title="LMDeploy’s server", port=23333, ready_path="/health"
    ),
    OtherServer(words=("text-generation-launcher",), title="TGI", ready_path="/health"),
    OtherServer(words=("text-embeddings-router",), title="TEI", ready_path="/health"),
    OtherServer(words=("aphrodite", "run"), title="Aphrodite"),
    OtherServer(words=("mlx_lm.server",), title="MLX’s server"),
    OtherServer(words=("ktransformers",), title="KTransformers"),
    OtherServer(words=("-m", "dynamo.frontend"), title="Dynamo’s frontend"),
    OtherServer(words=("-m", "tensorrt_llm.commands.serve"), title="TensorRT-LLM’s server"),
    OtherServer(words=("-m", "llama_cpp.server"), title="llama-cpp-python’s server"),
    OtherServer(words=("-m", "fastchat.serve.openai_api_server"), title="FastChat’s server"),
    OtherServer(words=("-m", "mlx_lm.server"), title="MLX’s server"),
)


# By a part of the image's name, where its own entrypoint is the server.
_IMAGES = (
    (
        "/text-generation-inference",
        OtherServer(words=(), title="TGI", port=80, ready_path="/health"),
    ),
    (
        "/text-embeddings-inference",
        OtherServer(words=(), title="TEI", port=80, ready_path="/health"),
    ),
    ("localai/localai", OtherServer(words=(), title="LocalAI", port=8080, ready_path="/readyz")),
    (
        "nvcr.io/nim/",
        OtherServer(words=(), title="NIM", port=8000, ready_path="/v1/health/ready"),
    ),
)


def find_server(words: Sequence[str], image: str = "") -> OtherServer | None:
    """The one that an argv starts, however deep, or an image by itself; None for anything else."""
    found = find_program(words, _is_server)
    if found is not None:
        return _match(found)
    if words and is_program(words[0]):
        return None
    return next((server for name, server in _IMAGES if name in image), None)


def _is_server(words: Sequence[str]) -> bool:
    return _match(words) is not None


def _match(words: Sequence[str]) -> OtherServer | None:
    start = (program(words[0]), *words[1:]) if words else ()
    behind = start[1:] if start and start[0].startswith("python") else start
    for each in _SERVERS:
        if each.words in (start[: len(each.words)], behind[: len(each.words)]):
            return each
    return None
