"""Default sampling of an engine."""

from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch

FILE = "generation_config.json"


def says(launch: Launch) -> str:
    """A sentence for people, about the flags of this launch; "" for engines that nobody knows.

    vLLM and SGLang take the defaults that stand beside the weights, unless flags say otherwise;
    llama.cpp has its own, which its flags change.
    """
    if launch.engine == "vllm":
        return _vllm(launch.flags)
    if launch.engine == "sglang":
        own = flag_value(launch.flags, "--sampling-defaults") == "openai"
        return _of_openai("SGLang") if own else _of_model("SGLang")
    if launch.engine == "llamacpp":
        return "Empty fields: llama.cpp’s own defaults, or what its flags say."
    return ""


def _vllm(flags: tuple[str, ...]) -> str:
    source = flag_value(flags, "--generation-config")
    said = {None: _of_model("vLLM"), "auto": _of_model("vLLM"), "vllm": _of_openai("vLLM")}
    words = said.get(source) or f"Empty fields: what {FILE} in {source} says."
    changed = flag_value(flags, "--override-generation-config")
    return f"{words} The profile’s flags change that to {changed}." if changed else words


def _of_model(engine: str) -> str:
    return f"Empty fields: what the model’s own {FILE} says, else {engine}’s defaults."


def _of_openai(engine: str) -> str:
    return f"Empty fields: {engine}’s own defaults, not those of the model’s {FILE}."
