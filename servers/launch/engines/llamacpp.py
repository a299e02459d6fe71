"""llama.cpp: `llama-server -m FILE` or `-hf USER/REPO`."""

import re

from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import Engine, names, unless_set
from servers.launch.engines.launch import Launch
from servers.launch.tables import freeze, read_table

_HF_FILE = ("--hf-file", "-hff")


def _own_flags(launch: Launch, host: str, entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    is_file = launch.checkpoint.startswith("/") or launch.checkpoint.endswith(".gguf")
    model = ("-m", "--model") if is_file else ("-hf", "-hfr", "--hf-repo")
    return unless_set(
        launch,
        (model, launch.checkpoint),
        (("--alias", "-a"), launch.served_name),
        (("--host",), host),
        (("--port",), str(LLAMACPP.port(launch))),
    )


def of_hub(launch: Launch) -> tuple[str, str] | None:
    """The repository of a launch, and which file or quantization of it; None: it names a path.

    "" as the second leaves the choice to llama.cpp.
    """
    name, _colon, quantization = launch.checkpoint.partition(":")
    if name.startswith("/") or name.endswith(".gguf"):
        return None
    for flag, values in split_flags(launch.flags):
        if flag in _HF_FILE and values:
            return name, values[-1]
    return name, quantization


# Its own build, that of its guide, and AMD's, which has the kind at the end.
_LIGHT = re.compile(
    r"(?P<name>(?:.{0,200}/)?(?:(?:ggml-org|ggerganov|local)/llama\.cpp:|rocm/llama\.cpp:\S{1,120}_))"
    r"light(?P<rest>(?:-[\w.-]{0,80})?)(?:@.{1,200})?"
)


def name_with_server(image: str) -> str:
    """The image with llama-server in place of one that holds the command line alone; "": it is none.

    By the tag: docs/docker.md of llama.cpp, on the kinds full, light and server.
    """
    match = _LIGHT.fullmatch(image)
    return f"{match['name']}server{match['rest']}" if match else ""


# By the first word that tools.sh gets, in the images that hold all tools: .devops/tools.sh of llama.cpp.
_TOOLS = {
    ("--run", "-r"): "llama-cli",
    ("--run-legacy", "-l"): "llama-completion",
    ("--bench", "-b"): "llama-bench",
    ("--perplexity", "-p"): "llama-perplexity",
    ("--quantize", "-q"): "llama-quantize",
    ("--convert", "-c"): "the converter of checkpoints to GGUF",
    ("--all-in-one", "-a"): "the converter of checkpoints to GGUF, and llama-quantize",
}


def other_tool(word: str, entrypoint: tuple[str, ...]) -> str:
    """What starts instead of llama-server by the first word behind an image; "": nothing else.

    The long words are no options of the server. Short ones are, where the image starts no tools.sh.
    """
    is_chosen = names(entrypoint)[-1:] == ["tools.sh"]
    for (long, short), tool in _TOOLS.items():
        if word == long or (is_chosen and word == short):
            return tool
    return ""


def _words_after_entrypoint(entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    last = names(entrypoint)[-1:]
    if last == ["llama-server"]:
        return ()
    # Of the images with all of its tools, which it chooses from.
    return ("--server",) if last == ["tools.sh"] else LLAMACPP.program


LLAMACPP = Engine(
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
    **freeze(read_table(__file__)),
)
