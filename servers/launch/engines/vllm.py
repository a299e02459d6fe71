"""vLLM: `vllm serve MODEL`."""

from servers.launch.engines.engine import (
    Engine,
    flag_value,
    is_python,
    names,
    python_version,
    unless_set,
)
from servers.launch.engines.launch import Launch
from servers.launch.tables import freeze, read_table

# What `vllm serve` took the place of. It knows its model by a flag alone.
_API_SERVER = "vllm.entrypoints.openai.api_server"


def _own_flags(launch: Launch, host: str, entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    named = flag_value(launch.flags, "--model") is not None
    model: tuple[str, ...] = () if named or not launch.checkpoint else (launch.checkpoint,)
    if model and _is_api_server(entrypoint):
        model = ("--model", *model)
    return model + unless_set(
        launch,
        (("--revision",), launch.revision),
        (("--served-model-name",), launch.served_name),
        (("--host",), host),
        (("--port",), str(VLLM.port(launch))),
    )


def _is_api_server(entrypoint: tuple[str, ...]) -> bool:
    return _API_SERVER in entrypoint or names(entrypoint)[-1:] == ["api_server.py"]


def _words_after_entrypoint(entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    said = names(entrypoint)
    if said[-2:] == ["vllm", "serve"] or _is_api_server(entrypoint):
        return ()
    if said[-2:] == ["vllm.entrypoints.cli.main", "serve"]:
        return ()
    if said[-1:] in (["vllm"], ["vllm.entrypoints.cli.main"]):
        return ("serve",)
    if said and is_python(said[-1]):
        return ("-m", "vllm.entrypoints.cli.main", "serve")
    return VLLM.program


VLLM = Engine(
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
    version_command=python_version("vllm"),
    **freeze(read_table(__file__)),
)
