"""The form of a line of a recording.

The keys are those of docs/gpu-memory.md. Nearly all may be null or left out: what was not seen is
not known. What else is there is not looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_NUMBER, _TEXT, _FLAG, _MOMENT = "a number", "a text", "true or false", "a number or a text"
_IS: Mapping[str, tuple[type, ...]] = {
    _NUMBER: (int, float),
    _TEXT: (str,),
    _FLAG: (bool,),
    _MOMENT: (int, float, str),
}
# Stands for every key of an object.
_EACH = "*"


def _numbers(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), _NUMBER)


# A list has what each of its entries must be; “!” marks what each must have.
_PROCESS = {
    "pid": _NUMBER, "start": _MOMENT, "ppid": _NUMBER, "name": _TEXT, "title": _TEXT,
    "state": _TEXT, "container": _TEXT, "own": _NUMBER,
}  # fmt: skip
_CARD = {
    **_numbers(
        "index total free used reserved util mem_util power_w power_limit_w sm_mhz sm_max_mhz "
        "temperature_c margin_c slowdown_c shutdown_c pcie_gen pcie_gen_max pcie_width "
        "pcie_width_max pcie_replays"
    ),
    "uuid": _TEXT,
    "name": _TEXT,
    "kind": _TEXT,
    "processes": [{"pid": _NUMBER, "used": _NUMBER}],
    "node_meminfo": {_EACH: _NUMBER},
    "throttle": [_TEXT],
    "ecc": {_EACH: _NUMBER},
    "rows": {"failed!": _FLAG, "pending!": _FLAG, "without_spare": _NUMBER},
    "retired": {"pages!": _NUMBER, "pending!": _FLAG},
}
_LINE: Mapping[str, Any] = {
    "t!": _NUMBER,
    "uptime_s": _NUMBER,
    "stale_s": _NUMBER,
    "driver": _TEXT,
    "driver_params": {},
    "sees_host_pids": _FLAG,
    "collector_ok": _FLAG,
    "meminfo": {_EACH: _NUMBER},
    "gpus": [_CARD],
    "processes": [_PROCESS],
    "containers": [
        {"id!": _TEXT, "ours": _FLAG, "state": _TEXT, "stopped_at": _MOMENT},
    ],
    "shm": [{"path!": _TEXT, "bytes": _NUMBER, "mapped": _FLAG}],
    "events": [{"type": _TEXT, "level": _NUMBER}],
    "pending": {"engine": _TEXT, "needs": _NUMBER},
    "pressure": {"some!": _NUMBER, "full!": _NUMBER},
    "disks": {_EACH: {"path!": _TEXT, "free!": _NUMBER, "total!": _NUMBER}},
    "swap": {"in!": _NUMBER, "out!": _NUMBER},
    "happened": [
        {"what!": _TEXT, "first!": _NUMBER, "last!": _NUMBER, "count!": _NUMBER},
    ],
}


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
        if not isinstance(said, _IS[form]) or is_flag != (form == _FLAG):
            yield f"has {_format_value(said)} as “{where}”, where {form} belongs"
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
