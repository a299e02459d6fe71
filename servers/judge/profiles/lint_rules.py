"""The lint's rules that are data (rules/*.yaml, a list of rules a file), its checks, and their fixes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml

from servers.judge.messages import Sentence
from servers.judge.profiles.conditions import Condition, ConditionError, compile_condition
from servers.judge.profiles.facts import (
    SEVERITIES,
    LaunchFacts,
    LintFinding,
    RuleSource,
    Severity,
    TypedFlags,
    is_json_object,
)
from servers.launch.engines import change
from servers.launch.engines.change import FlagValue, LaunchChange
from servers.launch.tables import FastLoader, freeze, load_yaml, read_table


@dataclass(frozen=True, kw_only=True)
class Fix:
    """A Change, and names whose values are only known from the launch."""

    change: LaunchChange = field(default_factory=LaunchChange)
    rename_flags: Mapping[str, str] = field(default_factory=dict)  # "--new", "--new=value"
    rename_env: Mapping[str, str] = field(default_factory=dict)
    # Fields of Launch that keep what they hold: {"cap_add": ["SYS_NICE"]}.
    add: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises ValueError for a key that neither this nor Change has."""
        rest = dict(said)
        own = {key: rest.pop(key, {}) for key in ("rename_flags", "rename_env", "add")}
        LaunchChange.from_json({"fields": own["add"]})  # refuses what is no field
        return cls(change=LaunchChange.from_json(rest), **own)


def adapt_fix(fix: Fix, facts: LaunchFacts, *, reason: str) -> LaunchChange | None:
    """The change for this launch, flags in the spelling that stands there; None: it changes nothing.

    Flags that this version of the engine does not have are not set.
    """
    set_flags: dict[str, FlagValue] = {}
    drop_flags: list[str] = []
    for name, value in fix.change.set_flags.items():
        if facts.flaglist is not None and facts.flaglist.find(name) is None:
            continue
        typed = facts.all_typed(name)
        if any(each.is_part for each in typed):
            continue  # would lose the other keys
        words = list(dict.fromkeys(each.word for each in typed))
        held = typed[-1].value if typed else ""
        set_flags[words[0] if words else name] = _merge(value, held)
        # What stands behind another spelling of it is as good as what stands behind this one.
        drop_flags += [] if change.is_list_flag(name) else words[1:]
    for name in fix.change.drop_flags:
        drop_flags += [each.word for each in facts.all_typed(name)]
    for old, new in fix.rename_flags.items():
        if typed := facts.all_typed(old):
            set_flags |= _rename(typed, new)
            drop_flags += [each.word for each in typed]
    made = replace(
        fix.change,
        set_flags=set_flags,
        drop_flags=tuple(dict.fromkeys(drop_flags)),
        **_rest(fix, facts),
    )
    if made.apply(facts.launch) == facts.launch:
        return None
    why = dict.fromkeys((*made.set_flags, *made.set_env), reason) if reason else {}
    return replace(made, reasons={**why, **made.reasons})


def _merge(value: Any, held: str) -> FlagValue:
    """A JSON object keeps the keys that the launch says and the fix does not."""
    if value is None or isinstance(value, tuple):
        return value
    if is_json_object(str(value)) and is_json_object(held):
        return json.dumps(json.loads(held) | json.loads(str(value)))
    return str(value)


def _rename(typed: Sequence[TypedFlags], new: str) -> dict[str, FlagValue]:
    """The flag under its new name, with all of its values; of several flags the last counts."""
    name, equals, value = new.partition("=")
    if equals:
        return {name: value}
    counted = typed if change.is_list_flag(name) else typed[-1:]
    values = tuple(value for each in counted for value in each.values)
    return {name: values if len(values) > 1 else values[0] if values else None}


def _rest(fix: Fix, facts: LaunchFacts) -> dict[str, Any]:
    env, secret = facts.launch.env, facts.launch.secret_env
    set_env = {name: str(value) for name, value in fix.change.set_env.items()}
    dropped = [*fix.change.drop_env, *(old for old in fix.rename_env if old in env)]
    for old, new in fix.rename_env.items():
        if old in env and new not in env:
            set_env[new] = env[old]
    changed = dict(fix.change.fields) | _add_variables(fix, facts)
    if any(name in secret for name in dropped):
        changed["secret_env"] = {name: pk for name, pk in secret.items() if name not in dropped}
    return {
        "set_env": set_env,
        "drop_env": tuple(name for name in dropped if name in env),
        "fields": changed,
    }


def _add_variables(fix: Fix, facts: LaunchFacts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, more in fix.add.items():
        held = getattr(facts.launch, name)
        if isinstance(held, dict):
            found[name] = {**more, **held}
        else:
            found[name] = (*held, *(each for each in more if each not in held))
    return found


FOLDER = Path(__file__).with_name("rules")
SOURCES = "sources.yaml"

_KEYS = {"id", "severity", "unknown", "when", "about", "says", "fix", "source"}
_OF_GPUS = {"sm", "sm_other_than", "gpu", "gpu_count"}
_NEEDED = _KEYS - {"unknown", "fix"}


class _Strict(FastLoader):
    """YAML that refuses a key written twice: the first one would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise yaml.YAMLError(f"{', '.join(twice)} is written twice, {node.start_mark}")
        return super().construct_mapping(node, deep)


class LintRuleError(Exception):
    """A rule file that cannot be used; the text names file, rule and key."""


@dataclass(frozen=True, kw_only=True)
class LintRule:
    """`unknown` is how loud it is while what decides is not known; None: silent."""

    id: str
    severity: Severity
    unknown: Severity | None
    when: Condition
    kinds: frozenset[str]  # of condition that `when` uses
    about: tuple[str, ...]  # the first of these that the launch says
    says: str
    fix: Fix
    sources: tuple[RuleSource, ...]

    def judge(self, facts: LaunchFacts) -> LintFinding | None:
        truth = self.when(facts)
        if truth is False or (truth is None and self.unknown is None):
            return None
        unknown = () if truth else not_known(self.kinds, facts)
        # A new name of a flag would stop a version that still has the old one.
        is_safe = truth or not self.fix.rename_flags
        reason = self.says.split(". ")[0].rstrip(".")
        return LintFinding(
            rule=self.id,
            code=self.id,
            severity=self.severity if truth else self.unknown or self.severity,
            says=self.says
            if truth
            else f"{self.says} It depends on {' and '.join(unknown)}: not known.",
            about=_place(self.about, facts),
            fix=adapt_fix(self.fix, facts, reason=reason) if is_safe else None,
            sources=self.sources,
            unknown=unknown,
        )


def _place(names: tuple[str, ...], facts: LaunchFacts) -> str:
    for name in names:
        if typed := facts.flag(name) if name.startswith("-") else None:
            return typed.word
        if name in facts.env:
            return name
    return "flags" if names[-1].startswith("-") else names[-1]


def not_known(kinds: frozenset[str], facts: LaunchFacts) -> tuple[str, ...]:
    """What of these kinds of conditions nobody has told, in words."""
    subject = facts.subject
    missing = {
        "the engine's version": "version" in kinds and facts.version is None,
        "the GPUs": bool(_OF_GPUS & kinds) and facts.used_gpus is None,
        "the driver": "driver" in kinds and not subject.driver,
        "the kind of box": "box" in kinds and not subject.box_kind,
        "what else runs on the box": "others" in kinds and subject.others is None,
        "the size of the weights": "weights_gib" in kinds and subject.weights is None,
    }
    found = tuple(name for name, is_missing in missing.items() if is_missing)
    return found or ("a value that is still to be filled in",)


@cache
def load_shipped() -> tuple[LintRule, ...]:
    return load(FOLDER)


def load(folder: Path) -> tuple[LintRule, ...]:
    """Every rule of a folder, by file name. Raises RuleError at the first that cannot be used."""
    sources = _sources(folder / SOURCES)
    rules: dict[str, LintRule] = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name == SOURCES:
            continue
        for position, said in enumerate(_list(path), start=1):
            rule = _rule(path.name, position, said, sources)
            if rule.id in rules:
                raise LintRuleError(f"{path.name}: rule {rule.id}: id is taken by an earlier rule.")
            rules[rule.id] = rule
    return tuple(rules.values())


def _list(path: Path) -> list[Any]:
    try:
        said = yaml.load(path.read_text(), Loader=_Strict)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise LintRuleError(f"{path.name} is not valid YAML: {error}") from error
    if not isinstance(said, list):
        raise LintRuleError(f"{path.name} must be a list of rules.")
    return said


def _rule(file: str, position: int, said: Any, sources: Mapping[str, RuleSource]) -> LintRule:
    if not isinstance(said, Mapping):
        raise LintRuleError(f"{file}: rule {position} must be a mapping.")
    where = f"{file}: rule {said.get('id', position)}"
    for key in sorted(set(said) - _KEYS):
        raise LintRuleError(f"{where}: {key} is no key. Known: {', '.join(sorted(_KEYS))}.")
    for key in sorted(_NEEDED - set(said)):
        raise LintRuleError(f"{where}: {key} is missing.")
    for key in ("severity", "unknown"):
        if key in said and said[key] not in SEVERITIES:
            raise LintRuleError(f"{where}: {key} must be one of {', '.join(SEVERITIES)}.")
    if said.get("unknown") == "error":
        raise LintRuleError(f"{where}: unknown must not be error: what is not known blocks nobody.")
    try:
        when = compile_condition(said["when"])
    except ConditionError as error:
        raise LintRuleError(f"{where}: when: {error}.") from error
    try:
        fix = Fix.from_json(said.get("fix") or {})
    except (ValueError, TypeError) as error:
        raise LintRuleError(f"{where}: fix: {error}") from error
    named = said["source"] if isinstance(said["source"], list) else [said["source"]]
    for name in named:
        if name not in sources:
            raise LintRuleError(f"{where}: source: {name} is not in {SOURCES}.")
    return LintRule(
        id=said["id"],
        severity=said["severity"],
        unknown=said.get("unknown"),
        when=when,
        kinds=frozenset(_kinds(said["when"])),
        about=tuple(said["about"]) if isinstance(said["about"], list) else (said["about"],),
        says=" ".join(str(said["says"]).split()),
        fix=fix,
        sources=tuple(sources[name] for name in named),
    )


def _kinds(said: Any) -> Iterator[str]:
    if isinstance(said, list):
        for each in said:
            yield from _kinds(each)
    elif isinstance(said, Mapping):
        for key, value in said.items():
            yield str(key)
            yield from _kinds(value)


@cache
def sources() -> dict[str, RuleSource]:
    return _sources(FOLDER / SOURCES)


def _sources(path: Path) -> dict[str, RuleSource]:
    try:
        said = load_yaml(path.read_text())
        return {name: RuleSource(**each) for name, each in said.items()}
    except (OSError, yaml.YAMLError, TypeError, AttributeError) as error:
        raise LintRuleError(
            f"{path.name} must name each source's title and url: {error}"
        ) from error


@dataclass(frozen=True, kw_only=True)
class CheckHit:
    """What a check found. `severity` is None for the check's own."""

    says: Sentence
    about: str
    fix: LaunchChange | None = None
    severity: Severity | None = None
    unknown: tuple[str, ...] = ()
    # For the form, which marks the word: the flag, which of its values, what to write instead.
    typed: TypedFlags | None = None
    value: int | None = None
    instead: str = ""


type Hits = Callable[[LaunchFacts], Iterator[CheckHit]]


@dataclass(frozen=True, kw_only=True)
class Check:
    id: str
    severity: Severity
    source: tuple[str, ...]  # names in rules/sources.yaml
    hits: Hits
    # It says less than a rule about the same flag or variable, and gives way to one that is at
    # least this loud; None: to none.
    gives_way: Severity | None = None

    def judge(self, facts: LaunchFacts) -> list[LintFinding]:
        known = sources()
        return [
            LintFinding(
                rule=self.id,
                severity=hit.severity or self.severity,
                says=f"{hit.says.text} {hit.says.advice}".rstrip(),
                code=hit.says.code,
                params=hit.says.params,
                about=hit.about,
                fix=hit.fix,
                sources=tuple(known[name] for name in self.source),
                unknown=hit.unknown,
            )
            for hit in self.hits(facts)
        ]


def list_checks(hits: Mapping[str, Hits]) -> tuple[Check, ...]:
    """The checks of these ids, with what lint_rules.yaml says of each."""
    table = freeze(read_table(__file__))
    return tuple(Check(id=id, hits=each, **table[id]) for id, each in hits.items())


DANGEROUS = ("privileged", "devices", "security_opt", "cap_add", "pid", "user")
HARMLESS_CAPABILITIES = {"SYS_NICE", "IPC_LOCK"}


def opens_the_box(values: Mapping[str, Any]) -> list[str]:
    """Which of a launch's values only an admin may set."""
    given = {name: values.get(name) for name in DANGEROUS}
    given["cap_add"] = set(given["cap_add"] or ()) - HARMLESS_CAPABILITIES
    return [name for name, value in given.items() if value]
