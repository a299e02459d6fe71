"""Any other program in a container: a port and a path that answers when it is ready, and no chat."""

from servers.launch.engines.engine import Engine
from servers.launch.engines.launch import Launch


def _own_flags(launch: Launch, host: str, entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    return ()  # nobody knows how it is told its port


def _words_after_entrypoint(entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    return ()


OTHER = Engine(
    key="other",
    title="Other",
    default_port=8080,
    image="",
    program=(),
    health_path="/",
    models_path="",
    version_path="",
    version_key="",
    running_metric="",
    waiting_metric="",
    moving_metrics=(),
    metrics_path="",
    help_commands=(),
    sure_flags=(),
    version_command=(),
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
    serves_models=False,
)
