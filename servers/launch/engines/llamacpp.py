"""llama.cpp: `llama-server -m FILE` or `-hf USER/REPO`."""

from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import Engine, names, unless_set
from servers.launch.engines.launch import Launch

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


def _words_after_entrypoint(entrypoint: tuple[str, ...]) -> tuple[str, ...]:
    last = names(entrypoint)[-1:]
    if last == ["llama-server"]:
        return ()
    # Of the images with all of its tools, which it chooses from.
    return ("--server",) if last == ["tools.sh"] else LLAMACPP.program


LLAMACPP = Engine(
    key="llamacpp",
    title="llama.cpp",
    default_port=8080,
    newer_port=9931,
    image="ghcr.io/ggml-org/llama.cpp:server-cuda",
    image_entrypoint=("/app/llama-server",),
    program=("/app/llama-server",),
    health_path="/health",
    version_path="/props",
    version_key="build_info",
    running_metric="llamacpp:requests_processing",
    waiting_metric="llamacpp:requests_deferred",
    moving_metrics=(
        "llamacpp:tokens_predicted_total",  # at the end of a request only
        "llamacpp:prompt_tokens_total",
        "llamacpp:n_decode_total",
    ),
    slots_path="/slots",
    # /metrics answers 501 without it, and the card could not say how fast tokens come.
    env={"LLAMA_ARG_ENDPOINT_METRICS": "1"},
    help_commands=(("/app/llama-server", "--help"),),
    sure_flags=("--model", "--ctx-size", "--port"),
    version_command=("/app/llama-server", "--version"),
    # "version: 6123 (0c1e570)"; since 0.x "version: 0.7.0 (build 11669, commit Debian)".
    version_pattern=(
        r"version: (?:[0-9.]{1,20} \(build )?([0-9]{1,9})(?: \(|, commit )([\w.+-]{1,40})\)"
    ),
    version_form=r"b\1-\2",  # as its build_info says it
    log_flag="--log-file",
    log_variable="LLAMA_ARG_LOG_FILE",
    own_flags=_own_flags,
    behind=_words_after_entrypoint,
)
