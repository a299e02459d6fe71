"""SGLang: `python3 -m sglang.launch_server`, which every release understands."""

from servers.launch.engines.engine import Engine, is_python, names, python_version, unless_set
from servers.launch.engines.launch import Launch

_GENERATES = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"


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
    key="sglang",
    title="SGLang",
    default_port=30000,
    image="lmsysorg/sglang",
    program=("python3", "-m", "sglang.launch_server"),
    health_path="/health",
    health_generates=_GENERATES,
    version_path="/server_info",
    version_key="version",
    counts_when_asked=True,
    running_metric="sglang:num_running_reqs",
    waiting_metric="sglang:num_queue_reqs",
    moving_metrics=(
        "sglang:generation_tokens_total",  # at the end of a request only
        "sglang:prompt_tokens_total",
        "sglang:realtime_tokens_total",
        "sglang:num_requests_total",
        "sglang:num_used_tokens",
        "sglang:gen_throughput",
    ),
    settles=35.0,  # it tells every 30 s that it is idle
    quiet_flag="--uvicorn-access-log-exclude-prefixes",
    # Otherwise every health check generates a token and waits up to 20 s for it.
    env={_GENERATES: "0"},
    help_commands=(("python3", "-m", "sglang.launch_server", "--help"),),
    sure_flags=("--model-path", "--mem-fraction-static", "--port"),
    hidden_flags=("--forward-pass-metrics-worker-id", "--forward-pass-metrics-ipc-name"),
    version_command=python_version("sglang"),
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
)
