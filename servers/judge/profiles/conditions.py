"""The conditions of the lint's rules, in three values (None: not known), and in words.

A condition is a mapping of the kinds below, all of which must hold, or a list of such
mappings. `any` takes a list of which one must hold; `not` turns a condition round. What
depends on something unknown (no GPU seen, no version) is None, and so is everything that it
decides; a rule speaks as written only on True.

    flag: NAME [TEST]      as typed, in any spelling that the engine takes for this flag
    env: NAME [TEST]       what the container's environment will say
    launch: FIELD [TEST]   another field of the profile
    model: PATTERN         checkpoint, served name and config.json's own names
    image: PATTERN         gpu: PATTERN   a name among the GPUs that are used
    engine: KEY[, KEY]     version: ">=0.5.11 <0.5.14"    driver: "<575"
    sm: "12.0, 12.1"       sm_other_than: "9.0"           box: unified
    tp pp ep nodes gpu_count weights_gib: "> 1"
    others: true           something else holds GPU memory

TEST is one of: absent | on | off | is VALUE | in A, B | contains TEXT | matches PATTERN |
> >= < <= NUMBER. Without one it asks whether the thing is there. Patterns ignore case.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from servers.judge.profiles.facts import LaunchFacts, is_blank
from servers.launch.engines import ENGINES
from servers.launch.engines.flaglist import Release, read_release
from servers.launch.engines.launch import Launch

type Truth = bool | None
type Condition = Callable[[LaunchFacts], Truth]

ON = ("1", "true", "on", "yes", "enabled")
OFF = ("0", "false", "off", "no", "disabled", "")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_TEST = re.compile(
    r"(?P<name>\S+)(?: (?P<op>absent|on|off|is|in|contains|matches|[<>]=?)(?: (?P<operand>.+))?)?"
)
_PARTS = re.compile(r"([<>]=?)\s*([\d.]+)")


class ConditionError(ValueError):
    """A condition that cannot be read; the text says which and why."""


def compile_condition(said: Any) -> Condition:
    """The condition that a rule's `when` says. Raises ConditionError."""
    if isinstance(said, list) and said:
        return _all([compile_condition(each) for each in said])
    if isinstance(said, Mapping) and said:
        return _all([_one(str(key), value) for key, value in said.items()])
    raise ConditionError(f"a condition is a mapping or a list of them, not {said!r}")


def _one(key: str, value: Any) -> Condition:
    if key == "all":
        return compile_condition(_list(key, value))
    if key == "any":
        return _any([compile_condition(each) for each in _list(key, value)])
    if key == "not":
        inner = compile_condition(value)
        return lambda facts: None if (truth := inner(facts)) is None else not truth
    if key not in _KINDS:
        raise ConditionError(f"“{key}” is no kind of condition. Known: {', '.join(_KINDS)}")
    return _KINDS[key](value)


def _list(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConditionError(f"“{key}” takes a list")
    return value


def _all(parts: list[Condition]) -> Condition:
    def judge(facts: LaunchFacts) -> Truth:
        truths = [part(facts) for part in parts]
        return False if False in truths else None if None in truths else True

    return judge


def _any(parts: list[Condition]) -> Condition:
    def judge(facts: LaunchFacts) -> Truth:
        truths = [part(facts) for part in parts]
        return True if True in truths else None if None in truths else False

    return judge


# Texts and their tests


class _Test:
    """What is asked of a named text."""

    def __init__(self, said: Any) -> None:
        found = _TEST.fullmatch(str(said))
        if found is None:
            raise ConditionError(f"“{said}” is not NAME [TEST]")
        self.name, self._op, operand = found["name"], found["op"], found["operand"]
        takes_none = self._op in (None, "absent", "on", "off")
        if takes_none != (operand is None):
            raise ConditionError(f"“{said}”: {self._op} takes {'no' if operand else 'a'} value")
        self._of_text = _test_of_text(self._op, operand or "")

    def judge(self, is_there: bool, text: str | None) -> Truth:
        """`text` is None when the thing is there but hidden."""
        if self._op in (None, "absent"):
            return is_there is (self._op is None)
        if not is_there:
            return False
        return None if text is None or is_blank(text) else self._of_text(text)


def _test_of_text(op: str | None, operand: str) -> Callable[[str], Truth]:
    if op in (None, "absent"):
        return lambda text: True
    if op in ("on", "off"):
        words = ON if op == "on" else OFF
        return lambda text: text.casefold() in words
    if op == "is":
        return lambda text: text == operand
    if op == "in":
        values = [each.strip() for each in operand.split(",")]
        return lambda text: text in values
    if op == "contains":
        return lambda text: operand in text
    if op == "matches":
        pattern = _pattern(operand)
        return lambda text: bool(pattern.search(text))
    compare, limit = _COMPARE[str(op)], _number(operand)
    return lambda text: None if (n := _as_number(text)) is None else compare(n, limit)


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _number(text: str) -> float:
    number = _as_number(text)
    if number is None:
        raise ConditionError(f"“{text}” is no number")
    return number


def _pattern(said: Any) -> re.Pattern[str]:
    try:
        return re.compile(str(said), re.IGNORECASE)
    except re.error as error:
        raise ConditionError(f"“{said}” is no pattern: {error}") from error


# Kinds


def _flag(said: Any) -> Condition:
    test = _Test(said)
    if not test.name.startswith("-"):
        raise ConditionError(f"“{test.name}” is no flag")

    def judge(facts: LaunchFacts) -> Truth:
        typed = facts.flag(test.name)
        return test.judge(typed is not None, "" if typed is None else typed.value)

    return judge


def _env(said: Any) -> Condition:
    test = _Test(said)
    return lambda facts: test.judge(test.name in facts.env, facts.env.get(test.name))


def _launch(said: Any) -> Condition:
    test = _Test(said)
    if test.name not in {each.name for each in fields(Launch)}:
        raise ConditionError(f"a launch has no field “{test.name}”")

    def judge(facts: LaunchFacts) -> Truth:
        value = getattr(facts.launch, test.name)
        if isinstance(value, tuple | dict):
            return test.judge(bool(value), "\n".join(value))
        if isinstance(value, int):  # bool too
            return test.judge(True, str(int(value)))
        return test.judge(bool(value), value)

    return judge


def _matches(read: Callable[[LaunchFacts], list[str] | None]) -> Callable[[Any], Condition]:
    """Whether one of these texts has the pattern; None where they are not known."""

    def kind(said: Any) -> Condition:
        pattern = _pattern(said)
        return lambda facts: (
            None if (texts := read(facts)) is None else any(map(pattern.search, texts))
        )

    return kind


def _gpu_names(facts: LaunchFacts) -> list[str] | None:
    return None if facts.used_gpus is None else [gpu.name for gpu in facts.used_gpus]


def _engine(said: Any) -> Condition:
    keys = [each.strip() for each in str(said).split(",")]
    if unknown := set(keys) - set(ENGINES):
        raise ConditionError(f"“{', '.join(unknown)}” is no engine")
    return lambda facts: facts.engine in keys


def _releases(read: Callable[[LaunchFacts], Release | None]) -> Callable[[Any], Condition]:
    def kind(said: Any) -> Condition:
        parts = [
            (_COMPARE[op], read_release(number) or (int(number),))
            for op, number in _PARTS.findall(str(said))
        ]
        if not parts or _PARTS.sub("", str(said)).strip():
            raise ConditionError(f"“{said}” is no range of versions")

        def judge(facts: LaunchFacts) -> Truth:
            if (mine := read(facts)) is None:
                return None
            return all(compare(_order(mine, bound), 0) for compare, bound in parts)

        return judge

    return kind


def _order(one: Release, other: Release) -> int:
    """-1, 0 or 1; 0.24 is 0.24.0."""
    length = max(len(one), len(other))
    first, second = (each + (0,) * (length - len(each)) for each in (one, other))
    return (first > second) - (first < second)


def _capabilities(*, are_named: bool) -> Callable[[Any], Condition]:
    """Whether a GPU that is used has one of the named compute capabilities, or another."""

    def kind(said: Any) -> Condition:
        wanted = [each.strip() for each in str(said).split(",")]
        if not all(re.fullmatch(r"\d+\.\d", each) for each in wanted):
            raise ConditionError(f"“{said}” is no list of compute capabilities like 12.0")

        def judge(facts: LaunchFacts) -> Truth:
            mine = _list_capabilities(facts)
            return None if mine is None else any((each in wanted) is are_named for each in mine)

        return judge

    return kind


def _list_capabilities(facts: LaunchFacts) -> set[str] | None:
    """The compute capabilities of the GPUs that are used, None unless all are known."""
    if facts.used_gpus is None:
        return None
    found = {gpu.compute_capability for gpu in facts.used_gpus}
    return None if "" in found else found


def _box(said: Any) -> Condition:
    if said not in ("discrete", "unified", "numa"):
        raise ConditionError(f"“{said}” is no kind of box")
    return lambda facts: None if not facts.subject.box_kind else facts.subject.box_kind == said


def _others(said: Any) -> Condition:
    if not isinstance(said, bool):
        raise ConditionError("“others” is true or false")
    return lambda facts: (
        None if facts.subject.others is None else bool(facts.subject.others) is said
    )


def _count(read: Callable[[LaunchFacts], float | None]) -> Callable[[Any], Condition]:
    def kind(said: Any) -> Condition:
        found = _PARTS.fullmatch(str(said))
        if found is None:
            raise ConditionError(f"“{said}” is no comparison like “> 1”")
        compare, limit = _COMPARE[found[1]], float(found[2])
        return lambda facts: None if (n := read(facts)) is None else compare(n, limit)

    return kind


def _weights_gib(facts: LaunchFacts) -> float | None:
    return None if facts.subject.weights is None else facts.subject.weights / 2**30


_KINDS: dict[str, Callable[[Any], Condition]] = {
    "flag": _flag,
    "env": _env,
    "launch": _launch,
    "model": _matches(lambda facts: [facts.model_text]),
    "image": _matches(lambda facts: [facts.launch.image]),
    "gpu": _matches(_gpu_names),
    "engine": _engine,
    "version": _releases(lambda facts: facts.version),
    "driver": _releases(lambda facts: read_release(facts.subject.driver)),
    "sm": _capabilities(are_named=True),
    "sm_other_than": _capabilities(are_named=False),
    "box": _box,
    "others": _others,
    "tp": _count(lambda facts: facts.tp),
    "pp": _count(lambda facts: facts.pp),
    "ep": _count(lambda facts: facts.ep),
    "nodes": _count(lambda facts: facts.nodes),
    "gpu_count": _count(lambda facts: facts.gpu_count),
    "weights_gib": _count(_weights_gib),
}


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


def _describe_capabilities(text: str) -> str:
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
    "sm": lambda text: f"on a GPU of {_describe_capabilities(text)}",
    "sm_other_than": lambda text: f"on a GPU that is not of {_describe_capabilities(text)}",
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
