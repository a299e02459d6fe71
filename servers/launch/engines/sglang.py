"""SGLang: `python3 -m sglang.launch_server`, which every release understands."""

from servers.launch.engines.engine import Engine, is_python, names, python_version, unless_set
from servers.launch.engines.launch import Launch
from servers.launch.tables import freeze, read_table


def _own_flags(launch: Launch, host: str, entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    return unless_set(
        launch,
        (("--model-path", "--model"), launch.checkpoint),
        (("--revision",), launch.revision),
        (("--served-model-name",), launch.served_name),
        (("--host",), host),
        (("--port",), str(SGLANG.port(launch))),
    )


def _words_after_entrypoint(entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    said = names(entrypoint)
    if "sglang.launch_server" in said or said[-1:] == ["launch_server.py"]:
        return ()
    if said[-2:] == ["sglang", "serve"]:
        return ()
    if said[-1:] == ["sglang"]:
        return ("serve",)
    if said and is_python(said[-1]):
        return SGLANG.program[1:]
    return SGLANG.program


SGLANG = Engine(
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
    version_command=python_version("sglang"),
    **freeze(read_table(__file__)),
)
