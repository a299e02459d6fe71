"""Sampling parameters of a chat: one name here, and each engine's own."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from servers.launch.engines import SERVING
from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch
from servers.launch.tables import freeze, read_table

# texts: several, such as stop. object: a JSON object.
type Kind = Literal["number", "whole", "texts", "choice", "object"]

STOPS = 16
LONGEST_STOP = 1000  # characters


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """`names` says what each engine calls it; one that is absent does not take it."""

    name: str
    title: str
    kind: Kind = "number"
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_common: bool = False
    note: str = ""
    names: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)  # engine -> what differs there

    @property
    def range(self) -> str:
        """ "from 0 to 2", "of 1 or more", or "" where every number will do."""
        if self.low is None:
            return ""
        return (
            f"of {self.low:g} or more"
            if self.high is None
            else f"from {self.low:g} to {self.high:g}"
        )

    @property
    def taken_by(self) -> str:
        """Which engines take it, and under which name: "vLLM, SGLang: repetition_penalty ..."."""
        by_name: dict[str, list[str]] = {}
        for key, name in self.names.items():
            by_name.setdefault(name, []).append(SERVING[key].title)
        return "; ".join(f"{', '.join(titles)}: {name}" for name, titles in by_name.items())


PARAMETERS = tuple(
    Parameter(**{"names": dict.fromkeys(SERVING, said["name"])} | said)
    for said in freeze(read_table(__file__))
)
BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


def problem(given: Mapping[str, Any]) -> str:
    """What is wrong with the first value that is out of its range, as a sentence; "" if none is.

    Names that are not in PARAMETERS are not looked at.
    """
    for name, value in given.items():
        known = BY_NAME.get(name)
        if known is not None and not _CHECKS[known.kind](known, value):
            return f"{known.title} must be {_describe_range(known)}, not {value!r:.60}."
    return ""


def _describe_range(parameter: Parameter) -> str:
    match parameter.kind:
        case "choice":
            return f"one of {', '.join(parameter.choices)}"
        case "texts":
            return f"a text, or up to {STOPS} of them"
        case "object":
            return "a JSON object"
        case "whole":
            return f"a whole number {parameter.range}"
        case "number":
            return f"a number {parameter.range}"


def _is_in_range(parameter: Parameter, value: float) -> bool:
    above = parameter.low is None or value >= parameter.low
    return above and (parameter.high is None or value <= parameter.high)


def _is_number(parameter: Parameter, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return _is_in_range(parameter, value)


def _is_whole(parameter: Parameter, value: object) -> bool:
    if parameter.name == "logprobs" and isinstance(value, bool):
        return True  # as OpenAI's API says it
    return isinstance(value, int) and _is_number(parameter, value)


def _is_texts(parameter: Parameter, value: object) -> bool:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > STOPS:
        return False
    return all(isinstance(each, str) and 0 < len(each) <= LONGEST_STOP for each in texts)


_CHECKS: dict[str, Callable[[Parameter, Any], bool]] = {
    "number": _is_number,
    "whole": _is_whole,
    "texts": _is_texts,
    "choice": lambda parameter, value: value in parameter.choices,
    "object": lambda parameter, value: isinstance(value, dict),
}


def request(engine: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an OpenAI request with which this engine is asked for these parameters.

    Parameters that the engine does not take are left out; what is not in PARAMETERS goes as it
    stands. An unknown engine is spoken to as OpenAI's API is.
    """
    made: dict[str, Any] = {}
    template: dict[str, Any] = {}
    for name, value in given.items():
        known = BY_NAME.get(name)
        if known is None or engine not in SERVING:
            made[name] = value
        elif engine in known.names:
            made[known.names[engine]] = value
    if isinstance(given.get("logprobs"), int) and not isinstance(given["logprobs"], bool):
        made |= {"logprobs": True, "top_logprobs": given["logprobs"]}
    elif "logprobs" in given:
        made |= {"logprobs": given["logprobs"]}
        made["top_logprobs"] = given.get("top_logprobs", 0)
    if engine == "sglang" and given.get("top_k") == 0:
        made["top_k"] = -1
    thinking = given.get("thinking")
    made.pop("thinking", None)
    if thinking is not None:
        # Which of the two a model's template reads differs by model; it ignores the other.
        template |= dict.fromkeys(("enable_thinking", "thinking"), thinking == "on")
    effort = given.get("reasoning_effort")
    if engine == "llamacpp" and effort not in (None, "none"):
        del made["reasoning_effort"]
        template["reasoning_effort"] = effort
    if engine == "llamacpp" and isinstance(given.get("tool_choice"), dict):
        made |= _only_tool(given)
    template |= given.get("chat_template_kwargs") or {}
    made.pop("chat_template_kwargs", None)
    return made | ({"chat_template_kwargs": template} if template else {})


def _only_tool(given: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of one function by its name, for an engine that ignores such: it has no other, and
    is called once."""
    name = (given["tool_choice"].get("function") or {}).get("name")
    tools = [
        tool
        for tool in given.get("tools") or []
        if (tool.get("function") or {}).get("name") == name
    ]
    if not tools:
        return {}
    return {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False}


def table() -> list[dict[str, Any]]:
    """The same for a page's script: names and notes by engine."""
    return [
        {"name": each.name, "title": each.title, "kind": each.kind, "low": each.low}
        | {"high": each.high, "names": dict(each.names), "notes": dict(each.notes)}
        for each in PARAMETERS
    ]


FILE = "generation_config.json"


def describe_defaults(launch: Launch) -> str:
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
