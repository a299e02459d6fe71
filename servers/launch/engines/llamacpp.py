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
