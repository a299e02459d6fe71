"""Conditions of rules in words, for where it is not known whether they hold."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_BOXES = {
    "unified": "where GPU and machine share one memory",
    "discrete": "where the GPU has memory of its own",
    "numa": "where the GPU's memory is a NUMA node of the machine",
}
_ABSENT = re.compile(r"(\S+) absent")
_ON_OFF = re.compile(r"(\S+) (on|off)")


def describe_condition(said: Any) -> str:
    """A condition as a part of a sentence: "on a GPU of SM 12.0, and where --tp is set".

    Raises ValueError for one that has no words here.
    """
    if isinstance(said, list):
        return ", and ".join(describe_condition(each) for each in said)
    if not isinstance(said, Mapping):
        raise ValueError(f"{said!r} is no condition")
    return ", and ".join(_describe(str(key), value) for key, value in said.items())


def _describe(key: str, value: Any) -> str:
    if key == "any":
        return ", or ".join(describe_condition(each) for each in value)
    if key == "all":
        return describe_condition(value)
    if key == "not":
        return f"not {describe_condition(value)}"
    if key not in _WORDS:
        raise ValueError(f"a condition on {key} has no words")
    return _WORDS[key](str(value))


def _list_or(text: str) -> str:
    *first, last = [each.strip() for each in re.split(r"[,|]", text)]
    return f"{', '.join(first)} or {last}" if first else last


# In the order of their years.
_CAPABILITIES = (
    *("5.0", "5.2", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0"),
    *("10.0", "10.3", "12.0", "12.1"),
)


def _list_capabilities(text: str) -> str:
    """As “SM 7.0 or before”, “SM 12.0 or later”, “SM 7.5 to 9.0”, or each by itself."""
    named = [each.strip() for each in text.split(",")]
    known = sorted(_CAPABILITIES.index(each) for each in named if each in _CAPABILITIES)
    is_row = len(known) == len(named) > 1 and known[-1] - known[0] == len(known) - 1
    if is_row and known[0] == 0:
        return f"SM {_CAPABILITIES[known[-1]]} or before"
    if is_row and known[-1] == len(_CAPABILITIES) - 1:
        return f"SM {_CAPABILITIES[known[0]]} or later"
    if is_row and len(known) > 2:
        return f"SM {_CAPABILITIES[known[0]]} to {_CAPABILITIES[known[-1]]}"
    return f"SM {_list_or(text)}"


def _plain(pattern: str) -> str:
    """What a simple pattern finds."""
    return re.sub(r"\\(.)|\(\?i\)|\?", r"\1", pattern)


def _describe_named(text: str) -> str:
    if found := _ABSENT.fullmatch(text):
        return f"where {found[1]} is not set"
    if found := _ON_OFF.fullmatch(text):
        return f"where {found[1]} is {found[2]}"
    return f"where {_spell_out(text)}" if " " in text else f"where {text} is set"


_COMPARED = {"<": "is below", "<=": "is at most", ">": "is above", ">=": "is at least"}


def _spell_out(text: str) -> str:
    """ "--x > 1" as “--x is above 1”."""
    name, operator, operand = text.split(" ", 2)
    if operator == "in":
        return f"{name} is {_list_or(operand)}"
    return f"{name} {_COMPARED.get(operator, operator)} {operand}"


def _sizes(what: str) -> Callable[[str], str]:
    return lambda text: f"where the {what} {_spell_out(f'x {text}')[2:]}"


_BOUNDS = {
    ">=": "version {} or later",
    ">": "a version after {}",
    "<=": "version {} or before",
    "<": "a version before {}",
}


def _describe_versions(text: str) -> str:
    bounds = re.findall(r"([<>]=?)\s*(\S+)", text)
    return "with " + ", and ".join(_BOUNDS[operator].format(of) for operator, of in bounds)


_WORDS: dict[str, Callable[[str], str]] = {
    "version": _describe_versions,
    "driver": lambda text: _describe_versions(text).replace("version", "driver"),
    "box": lambda text: _BOXES[text],
    "sm": lambda text: f"on a GPU of {_list_capabilities(text)}",
    "sm_other_than": lambda text: f"on a GPU that is not of {_list_capabilities(text)}",
    "gpu": lambda text: f"on a GPU named {_list_or(_plain(text))}",
    "image": lambda text: f"where the image is {_list_or(_plain(text))}",
    "model": lambda text: f"where the model is {_list_or(_plain(text))}",
    "flag": _describe_named,
    "env": _describe_named,
    "launch": _describe_named,
    "tp": _sizes("tensor-parallel size"),
    "pp": _sizes("pipeline-parallel size"),
    "ep": _sizes("expert-parallel size"),
    "nodes": _sizes("number of machines"),
    "gpu_count": _sizes("number of GPUs"),
}
