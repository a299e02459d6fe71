"""Remedies of known failures: a change of the launch, an action on the box, or advice.

engine   only for this one
part     only where this ran out of memory, see circumstances.PARTS: one of them, or several;
         unknown: only where the log does not tell
where    {group: pattern}: only where a group of the failure's pattern says so
when     a condition on launch, version and card, see conditions.py; where it is not known whether it
         holds, the remedy is told with the condition in words, and is no button
says     a sentence, with the pattern's groups filled in
box      an action on the box, one of BOX_ACTIONS
adjust   {flag, by | times | to, from, least, most}: a number that is moved from what stands there,
         else from `from`, which may be a group: "{n}"
respell  words among which flags are misspelt
The rest is a change of the launch: set_flags, drop_flags, set_env, fields … (fixes.py).

What would change nothing, says nothing, or leaves less than the weights need is not offered.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from servers.judge.logs import circumstances
from servers.judge.profiles.conditions import Truth, compile_condition, describe_condition
from servers.judge.profiles.facts import LaunchFacts, Subject, TargetGpu
from servers.judge.profiles.lint_rules import Fix, adapt_fix
from servers.launch.engines import ENGINES
from servers.launch.engines.change import LaunchChange, is_flag, value_words
from servers.launch.engines.flaglist import all_shipped
from servers.launch.engines.launch import Launch

# What is done on a box, not in a profile.
BOX_ACTIONS = ("reboot", "reclaim", "residual", "wait", "jit", "redownload", "pull")
# Parts of a GPU in which the weights must find room.
SHARE_FLAGS = ("--gpu-memory-utilization", "--mem-fraction-static")

_OWN = {"engine", "when", "says", "box", "adjust", "respell", "part", "where"}
_BLANK = re.compile(r"\{(\w+)\}")
_NONE = re.compile(r"-?0+(?:\.0*)?")
# What a log alone can tell of a launch.
_OF_LOGS = {"engine", "version", "sm", "sm_other_than"}


@dataclass(frozen=True, kw_only=True)
class Adjust:
    """A number of a flag, moved from what stands there; else from `start`, the usual one."""

    flag: str
    by: float = 0
    times: float = 1
    to: float | None = None
    start: float | str | None = None  # a text is a group to fill in
    least: float | None = None
    most: float | None = None

    def value(self, held: str | None, groups: Mapping[str, str] | None = None) -> str | None:
        """None where nothing is known to move from, or it has come to its bound."""
        if held is None and isinstance(self.start, str):
            held = fill(self.start, groups or {})
        try:
            now = float(held) if held is not None else self.start
        except ValueError:
            return None
        if now is None or isinstance(now, str):
            return _number(self.to) if self.to is not None else None
        new = self.to if self.to is not None else now * self.times + self.by
        if self.least is not None:
            new = max(new, min(self.least, now))
        if self.most is not None:
            new = min(new, max(self.most, now))
        is_whole = held is not None and "." not in held and self.times != 1
        made = _number(int(new) if is_whole else new)
        return None if abs(float(made) - now) < 1e-9 else made

    @property
    def text(self) -> str:
        if self.to is not None:
            return f"Set {self.flag} to {_number(self.to)}."
        if self.times != 1:
            verb = {0.5: "Halve", 2: "Double"}.get(self.times)
            return f"{verb or ('Raise' if self.times > 1 else 'Lower')} {self.flag}."
        return f"{'Raise' if self.by > 0 else 'Lower'} {self.flag} by {_number(abs(self.by))}."


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, kw_only=True)
class Remedy:
    says: str = ""
    engine: str = ""  # only for this one; "": any
    parts: frozenset[str] = frozenset()  # of circumstances.PARTS; none: whatever ran out
    where: Mapping[str, re.Pattern[str]] = field(default_factory=dict)  # group -> what it says
    when: Any = None  # a condition, only for launches like this; None: any
    condition: str = ""  # the same for people
    box: str = ""  # one of BOX_ACTIONS
    adjust: Adjust | None = None
    respell: str = ""  # words among which flags are misspelt, with {groups} to fill in
    change: Mapping[str, Any] = field(default_factory=dict)  # Fix, with {groups} to fill in

    @classmethod
    def from_data(cls, said: Any) -> Self:
        """Raises ValueError or TypeError for what is none of the above."""
        if isinstance(said, str):
            return cls(says=said)
        rest = {key: value for key, value in said.items() if key not in _OWN}
        Fix.from_json(json.loads(json.dumps(rest)))  # refuses unknown keys
        box = said.get("box", "")
        if box and box not in BOX_ACTIONS:
            raise ValueError(f"box: {box} is none of {', '.join(BOX_ACTIONS)}")
        adjust = dict(said.get("adjust") or {})
        if "from" in adjust:
            adjust["start"] = adjust.pop("from")
        parts = said.get("part", [])
        parts = frozenset(parts if isinstance(parts, list) else [parts])
        if unknown := parts - {*circumstances.PARTS, circumstances.UNKNOWN}:
            raise ValueError(f"part: {', '.join(sorted(unknown))} is none of {circumstances.PARTS}")
        when = said.get("when")
        if when:
            compile_condition(when)  # refuses what is none
        made = cls(
            says=said.get("says", ""),
            engine=said.get("engine", ""),
            parts=parts,
            where={name: re.compile(text) for name, text in (said.get("where") or {}).items()},
            when=when,
            condition=describe_condition(when) if when else "",
            box=box,
            adjust=Adjust(**adjust) if adjust else None,
            respell=said.get("respell", ""),
            change=rest,
        )
        if not (made.says or made.respell or made.adjust or made.change):
            raise ValueError("a fix says nothing and changes nothing")
        if box == "reboot" and "reboot" not in made.says.casefold():
            raise ValueError(f"box: reboot, and its words do not name it: {made.says}")
        return made

    @property
    def needs(self) -> frozenset[str]:
        """Groups of the failure's pattern without which it has nothing to say."""
        start = self.adjust.start if self.adjust and isinstance(self.adjust.start, str) else ""
        said = json.dumps(self.change) + self.says + self.respell + start
        return frozenset(_BLANK.findall(said)) | self.where.keys()

    @property
    def is_change(self) -> bool:
        return bool(self.change or self.adjust or self.respell)

    def judge(
        self, engine: str | None, groups: Mapping[str, str], facts: LaunchFacts | None = None
    ) -> Truth:
        """Whether it is one for this case; None: that depends on what is not known.

        `engine` is "" or None where it is not known, and `facts` None of a log from anywhere.
        """
        if self.engine not in ("", engine or self.engine) or not self.needs <= set(groups):
            return False
        if not all(said.search(groups[name]) for name, said in self.where.items()):
            return False
        told = groups.get(circumstances.PART, circumstances.UNKNOWN)
        if self.parts and not self._is_for_part(told, engine or ""):
            return False
        if not self._text(groups, engine or "", facts) or self._is_too_little(groups, facts):
            return False
        around = _fill_in(facts, engine or "", groups)
        return True if self.when is None else _judge(self.when, around, is_log=facts is None)

    def _is_for_part(self, told: str, engine: str) -> bool:
        """Where the log does not tell what ran out, each may be it: of the engine, if that is known.

        What only says which part it was is left out then.
        """
        if told != circumstances.UNKNOWN or circumstances.UNKNOWN in self.parts:
            return told in self.parts
        return self.is_change and (bool(engine) or not self.engine)

    def fits(
        self, engine: str | None, groups: Mapping[str, str], facts: LaunchFacts | None = None
    ) -> bool:
        return self.judge(engine, groups, facts) is not False

    def text(
        self,
        groups: Mapping[str, str],
        *,
        engine: str = "",
        facts: LaunchFacts | None = None,
    ) -> str:
        """One or two sentences, with the condition where it is not known whether it holds."""
        condition = ""
        if self.when is not None:
            around = _fill_in(facts, engine, groups)
            is_sure = _judge(self.when, around, is_log=facts is None)
            condition = "" if is_sure else self.condition
        said = self._text(groups, engine, facts)
        if not condition:
            return said
        return f"{condition[0].upper()}{condition[1:]}: {_begin_inside(said)}"

    def apply(self, facts: LaunchFacts, groups: Mapping[str, str]) -> LaunchChange | None:
        """The change for this launch; None where it has none, or it would change nothing."""
        if self.when is not None:
            around = _fill_in(facts, facts.engine, groups)
            if _judge(self.when, around, is_log=False) is not True:
                return None
        said = _fill_groups(self.change, groups)
        if self.adjust is not None:
            typed = facts.flag(self.adjust.flag)
            value = self.adjust.value(typed.value if typed else None, groups)
            if value is None:
                return None
            said = {**said, "set_flags": {self.adjust.flag: value}}
        if self.respell:
            words = fill(self.respell, groups).split()
            said = {**said, "rename_flags": _respelt(words, facts.engine, facts)}
        return adapt_fix(Fix.from_json(said), facts, reason="") if said else None

    def _text(self, groups: Mapping[str, str], engine: str, facts: LaunchFacts | None) -> str:
        """What it says without its condition; empty where it has nothing to say of this case."""
        said = _fill_groups(self.change, groups)
        if any(_is_none(value) for value in said.get("set_flags", {}).values()):
            return ""
        if self.respell:
            words = fill(self.respell, groups).split()
            said = {**said, "rename_flags": _respelt(words, engine, facts)}
        parts = [self.adjust.text] if self.adjust else []
        parts += _change_words(said)
        if self.is_change and not parts:
            return ""
        if self.says:
            parts.append(fill(self.says, groups))
        return " ".join(parts)

    def _is_too_little(self, groups: Mapping[str, str], facts: LaunchFacts | None) -> bool:
        """Whether it would leave the weights less of a GPU than they take."""
        needed = facts.weights_share if facts is not None else None
        needed = needed or circumstances.compute_weights_share(groups)
        if needed is None:
            return False
        made = {
            name: value
            for name, value in _fill_groups(self.change, groups).get("set_flags", {}).items()
            if name in SHARE_FLAGS
        }
        if self.adjust is not None and self.adjust.flag in SHARE_FLAGS:
            typed = facts.flag(self.adjust.flag) if facts is not None else None
            made[self.adjust.flag] = self.adjust.value(typed.value if typed else None, groups)
        try:
            return any(float(value) <= needed for value in made.values() if value is not None)
        except ValueError:
            return False


def list_texts(
    remedies: Iterable[Remedy],
    engine: str,
    groups: Mapping[str, str],
    facts: LaunchFacts | None = None,
) -> Iterator[str]:
    """What to do in words, best first."""
    for each in remedies:
        truth = each.judge(engine, groups, facts)
        if truth is False:
            continue
        if facts is not None and truth and each.is_change and each.apply(facts, groups) is None:
            continue  # the profile says so already
        yield each.text(groups, engine=engine, facts=facts)


def _begin_inside(said: str) -> str:
    """A sentence as it begins behind a colon: a name such as FlashAttention keeps its capital."""
    word = said.split(maxsplit=1)[0]
    return f"{said[0].lower()}{said[1:]}" if word[1:].islower() else said


def _is_none(value: object) -> bool:
    """Whether an engine's own number says that nothing is there: a length of 0 is no cure."""
    return isinstance(value, str) and bool(_NONE.fullmatch(value))


def _fill_in(facts: LaunchFacts | None, engine: str, groups: Mapping[str, str]) -> LaunchFacts:
    """What is known of the launch, with the version and the card that its log tells."""
    version = groups.get(circumstances.VERSION, "")
    capability = groups.get(circumstances.CAPABILITY, "")
    card = TargetGpu(index=0, name="", compute_capability=capability, memory=None)
    if facts is None:
        key = engine if engine in ENGINES else "other"
        launch = Launch.from_json({"engine": key, "image": "", "checkpoint": ""})
        subject = Subject(
            launch=launch, engine_version=version, gpus=(card,) if capability else None
        )
        return LaunchFacts(subject)
    subject = facts.subject
    if facts.version is None and version:
        subject = replace(subject, engine_version=version)
    if subject.gpus is None and capability:
        subject = replace(subject, gpus=(card,))
    return facts if subject is facts.subject else LaunchFacts(subject)


def _judge(said: Any, facts: LaunchFacts, *, is_log: bool) -> Truth:
    """A condition on what is known. Of a launch a log tells little: all else is not known."""
    if not is_log:
        return compile_condition(said)(facts)
    if isinstance(said, list):
        return _all([_judge(each, facts, is_log=True) for each in said])
    truths: list[Truth] = []
    for key, value in said.items():
        if key == "not":
            inner = _judge(value, facts, is_log=True)
            truths.append(None if inner is None else not inner)
        elif key == "any":
            each = [_judge(part, facts, is_log=True) for part in value]
            truths.append(True if True in each else None if None in each else False)
        elif key == "all":
            truths.append(_judge(value, facts, is_log=True))
        else:
            truths.append(compile_condition({key: value})(facts) if key in _OF_LOGS else None)
    return _all(truths)


def _all(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def _respelt(words: Sequence[str], engine: str, facts: LaunchFacts | None) -> dict[str, str]:
    """Flags that this engine does not have, and the ones that were probably meant."""
    lists = all_shipped(engine) if engine in ENGINES else ()
    if facts is not None and facts.flaglist:
        lists = (facts.flaglist,)
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        name = word.partition("=")[0]
        if not is_flag(name) or any(each.find(name) for each in lists):
            continue
        near = [each.nearest(name, _list_values(words, at)) for each in lists]
        if meant := next(filter(None, near), None):
            found[name] = meant
    return found


def _list_values(words: Sequence[str], at: int) -> tuple[str, ...] | None:
    """What stands behind a flag; None where nothing does, and the engine may have left it out."""
    name, equals, value = words[at].partition("=")
    values = [value] if equals else []
    for word in words[at + 1 :]:
        if is_flag(word):
            break
        values.append(word)
    return tuple(values) or None


def fill(text: str, groups: Mapping[str, str]) -> str:
    return _BLANK.sub(lambda blank: groups.get(blank[1], blank[0]).strip(), text)


def _fill_groups(said: Mapping[str, Any], groups: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = _deep(said, groups)
    if "drop_flags" in made:
        # An engine names what it does not know together with the values.
        words = [word for each in made["drop_flags"] for word in str(each).split()]
        flags = (word.partition("=")[0] for word in words if is_flag(word))
        made["drop_flags"] = [flag for flag in flags if flag.strip("-")]
    return made


def _deep(said: Any, groups: Mapping[str, str]) -> Any:
    if isinstance(said, str):
        return fill(said, groups)
    if isinstance(said, Mapping):
        return {fill(str(key), groups): _deep(value, groups) for key, value in said.items()}
    if isinstance(said, list | tuple):
        return [_deep(each, groups) for each in said]
    return said


_FIELD_WORDS = {
    "gpus": "Give the container GPUs: {}.",
    "ipc": "Set the container's IPC to {}.",
    "shm_size": "Give the container 16 GiB of shared memory.",
    "host_port": "Let inferdash choose the port.",
    "image": "Use the image {}.",
    "network": "Give the container the {}'s network.",
    "runtime": "Leave the container's runtime to Docker.",
    "pass_hf_token": "Pass the box's Hugging Face token to the container.",
    "revision": "Leave the model's revision out.",
    "devices": "Pass no devices in.",
}


def _change_words(said: Mapping[str, Any]) -> list[str]:
    set_flags = said.get("set_flags", {})
    words = [f"Set {f'{name} {value}'.strip()}." for name, value in _values(set_flags)]
    if drop := said.get("drop_flags"):
        words.append(f"Remove {_join_names(drop)}.")
    renamed = said.get("rename_flags", {}).items()
    words += [f"Write {new.replace('=', ' ')} for {old}." for old, new in renamed]
    words += [f"Set {name}={value}." for name, value in said.get("set_env", {}).items()]
    if drop := said.get("drop_env"):
        words.append(f"Remove {_join_names(drop)} from the environment.")
    words += [_FIELD_WORDS[name].format(value) for name, value in said.get("fields", {}).items()]
    for name, more in said.get("add", {}).items():
        what = ", ".join(f"{k}={v}" for k, v in more.items()) if isinstance(more, dict) else more
        words.append(f"Add to the container's {name}: {what}.")
    return words


def _join_names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _values(flags: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, " ".join(value_words(value))) for name, value in flags.items()]
