"""The form of a line of a recording.

The keys are those of docs/gpu-memory.md. Nearly all may be null or left out: what was not seen is
not known. What else is there is not looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from servers.launch.tables import read_table

# What the words of recording.yaml mean, for people and for Python.
_IS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "number": ("a number", (int, float)),
    "text": ("a text", (str,)),
    "flag": ("true or false", (bool,)),
    "moment": ("a number or a text", (int, float, str)),
}
# Stands for every key of an object.
_EACH = "*"
_LINE = read_table(__file__)


def wrong(said: object) -> str:
    """The first thing that makes a line none of a recording, in words; "" = nothing."""
    if not isinstance(said, Mapping):
        return "is not a JSON object"
    found = next(_faults(said, _LINE, ""), "")
    return found or ("" if "gpus" in said else "has no “gpus”")


def _faults(said: Any, form: Any, where: str) -> Iterator[str]:
    if isinstance(form, str):
        # True is a number to Python, and to nobody else.
        is_flag = isinstance(said, bool)
        words, types = _IS[form]
        if not isinstance(said, types) or is_flag != (form == "flag"):
            yield f"has {_format_value(said)} as “{where}”, where {words} belongs"
    elif isinstance(form, list):
        if not isinstance(said, list):
            yield f"has {_format_value(said)} as “{where}”, where a list belongs"
            return
        for at, each in enumerate(said):
            yield from _faults(each, form[0], f"{where}[{at}]")
    elif not isinstance(said, Mapping):
        yield f"has {_format_value(said)} as “{where}”, where an object belongs"
    else:
        yield from _members(said, form, f"{where}." if where else "")


def _members(said: Mapping[str, Any], form: Mapping[str, Any], before: str) -> Iterator[str]:
    if _EACH in form:
        form = dict.fromkeys(said, form[_EACH])
    for key, of in form.items():
        name = key.removesuffix("!")
        value = said.get(name)
        if value is not None:
            yield from _faults(value, of, before + name)
        elif name != key:
            yield f"has no “{before}{name}”"


def _format_value(said: object) -> str:
    text = "null" if said is None else repr(said)
    return text if len(text) <= 40 else f"{text[:40]}…"
