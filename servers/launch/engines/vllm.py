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


# Builds for GPUs cannot say which flags they have where there is no GPU: "Failed to infer device
# type". Told to be on a CPU they can, as vLLM itself does it for `vllm bench`.
_HELP_WITHOUT_GPU = """
import sys
from vllm import platforms
if platforms.current_platform.is_unspecified():
    from vllm.platforms.cpu import CpuPlatform
    platforms.current_platform = CpuPlatform()
sys.argv = ["vllm", "serve", "--help=all"]
from vllm.entrypoints.cli.main import main
main()
"""


VLLM = Engine(
    key="vllm",
    title="vLLM",
    default_port=8000,
    image="vllm/vllm-openai",
    image_entrypoint=("vllm", "serve"),
    program=("vllm", "serve"),
    health_path="/health",
    version_path="/version",
    version_key="version",
    counts_when_asked=True,
    running_metric="vllm:num_requests_running",
    waiting_metric="vllm:num_requests_waiting",
    moving_metrics=(
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        "vllm:request_success_total",
        "vllm:kv_cache_usage_perc",  # with every piece of a long prompt
    ),
    sleep_flag="--enable-sleep-mode",
    sleep_variable="VLLM_SERVER_DEV_MODE",
    quiet_flag="--disable-access-log-for-endpoints",
    help_commands=(
        ("vllm", "serve", "--help=all"),
        ("python3", "-c", _HELP_WITHOUT_GPU),
        ("vllm", "serve", "--help"),
    ),
    sure_flags=("--model", "--tensor-parallel-size", "--max-model-len", "--port"),
    version_command=python_version("vllm"),
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
)
