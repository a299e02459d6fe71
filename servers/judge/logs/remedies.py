"""Remedies of known failures: a change of the launch, an action on the box, or advice."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from servers.judge.profiles.conditions import Condition, compile_condition
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.fixes import Fix, adapt_fix
from servers.launch.engines.change import LaunchChange, is_flag, value_words
from servers.launch.engines.flaglist import all_shipped

# What is done on a box, not in a profile.
BOX_ACTIONS = ("reboot", "reclaim", "residual", "wait", "jit", "redownload", "pull")

_OWN = {"engine", "when", "says", "box", "adjust", "respell"}
_BLANK = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Adjust:
    """A number of a flag, moved from what stands there; else from `start`, the usual one."""

    flag: str
    by: float = 0
    times: float = 1
    to: float | None = None
    start: float | None = None
    least: float | None = None
    most: float | None = None

    def value(self, held: str | None) -> str | None:
        """None where nothing is known to move from, or it has come to its bound."""
        try:
            now = float(held) if held is not None else self.start
        except ValueError:
            return None
        if now is None:
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
            return f"Halve {self.flag}." if self.times == 0.5 else f"Lower {self.flag}."
        return f"{'Raise' if self.by > 0 else 'Lower'} {self.flag} by {_number(abs(self.by))}."


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, kw_only=True)
class Remedy:
    says: str = ""
    engine: str = ""  # only for this one; "": any
    when: Condition | None = None  # only for launches like this
    when_version: str = ""  # the same for people, where it is about the version alone
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
        when = said.get("when")
        made = cls(
            says=said.get("says", ""),
            engine=said.get("engine", ""),
            when=compile_condition(when) if when else None,
            when_version=when.get("version", "") if isinstance(when, Mapping) else "",
            box=box,
            adjust=Adjust(**adjust) if adjust else None,
            respell=said.get("respell", ""),
            change=rest,
        )
        if not (made.says or made.respell or made.adjust or made.change):
            raise ValueError("a fix says nothing and changes nothing")
        return made

    @property
    def needs(self) -> frozenset[str]:
        """Groups of the failure's pattern without which it has nothing to say."""
        return frozenset(_BLANK.findall(json.dumps(self.change) + self.says + self.respell))

    def fits(self, engine: str | None, groups: Mapping[str, str]) -> bool:
        return self.engine in ("", engine or self.engine) and self.needs <= set(groups)

    def text(self, groups: Mapping[str, str]) -> str:
        """One or two sentences."""
        parts = [self.adjust.text] if self.adjust else []
        parts += _change_words(_fill_groups(self.change, groups))
        if self.when_version:
            parts[-1:] = [
                f"{each.rstrip('.')} (version {self.when_version})." for each in parts[-1:]
            ]
        if self.says:
            parts.append(fill(self.says, groups))
        return " ".join(parts)

    def apply(self, facts: LaunchFacts, groups: Mapping[str, str]) -> LaunchChange | None:
        """The change for this launch; None where it has none, or it would change nothing."""
        if self.when is not None and self.when(facts) is not True:
            return None
        said = _fill_groups(self.change, groups)
        if self.adjust is not None:
            typed = facts.flag(self.adjust.flag)
            value = self.adjust.value(typed.value if typed else None)
            if value is None:
                return None
            said = {**said, "set_flags": {self.adjust.flag: value}}
        if self.respell:
            said = {**said, "rename_flags": _respelt(fill(self.respell, groups).split(), facts)}
        return adapt_fix(Fix.from_json(said), facts, reason="") if said else None


def _respelt(words: Sequence[str], facts: LaunchFacts) -> dict[str, str]:
    """Flags that this engine does not have, and the ones that were probably meant."""
    lists = [facts.flaglist] if facts.flaglist else all_shipped(facts.engine)
    found: dict[str, str] = {}
    for word in words:
        name = word.partition("=")[0]
        near = [each.nearest(name) for each in lists] if is_flag(name) else []
        if meant := next(filter(None, near), None):
            found[name] = meant
    return found


def fill(text: str, groups: Mapping[str, str]) -> str:
    return _BLANK.sub(lambda blank: groups.get(blank[1], blank[0]), text)


def _fill_groups(said: Mapping[str, Any], groups: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = _deep(said, groups)
    if "drop_flags" in made:
        # An engine names what it does not know together with the values.
        words = [word for each in made["drop_flags"] for word in str(each).split()]
        made["drop_flags"] = [word.partition("=")[0] for word in words if is_flag(word)]
    return made


def _deep(said: Any, groups: Mapping[str, str]) -> Any:
    if isinstance(said, str):
        return fill(said, groups)
    if isinstance(said, Mapping):
        return {key: _deep(value, groups) for key, value in said.items()}
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
    words += [f"Write {new} for {old}." for old, new in said.get("rename_flags", {}).items()]
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
