"""Servers with an OpenAI path that are none of the engines here: known by the words that start them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from servers.launch.commandline.engine_words import find_program, is_program, program
from servers.launch.tables import freeze, read_table


@dataclass(frozen=True, kw_only=True)
class OtherServer:
    title: str
    words: tuple[str, ...] = ()  # its command begins with them, behind wrappers and shells
    port: int = 0  # 0: not known here
    ready_path: str = ""  # answers 200 when it serves; "": not known here


# Without a container, at the beginning of a line.
ALONE = re.compile(
    r"(?m)^[^#\n\"']*?(?<![\w/.-])(?P<name>trtllm-serve|lmdeploy serve|text-generation-launcher"
    r"|text-embeddings-router|aphrodite run|mlx_lm\.server|mistralrs(?:-server)?|koboldcpp"
    r"|python3? -m llama_cpp\.server|ollama (?:serve|run))\s"
)
_TABLE = freeze(read_table(__file__))
_SERVERS = tuple(OtherServer(**said) for said in _TABLE["commands"])
_IMAGES = {name: OtherServer(**said) for name, said in _TABLE["images"].items()}


def find_server(words: Sequence[str], image: str = "") -> OtherServer | None:
    """The one that an argv starts, however deep, or an image by itself; None for anything else."""
    found = find_program(words, _is_server)
    if found is not None:
        return _match(found)
    if words and is_program(words[0]):
        return None
    return next((server for name, server in _IMAGES.items() if name in image), None)


def _is_server(words: Sequence[str]) -> bool:
    return _match(words) is not None


def _match(words: Sequence[str]) -> OtherServer | None:
    start = (program(words[0]), *words[1:]) if words else ()
    behind = start[1:] if start and start[0].startswith("python") else start
    for each in _SERVERS:
        if each.words in (start[: len(each.words)], behind[: len(each.words)]):
            return each
    return None
