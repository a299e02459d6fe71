"""Rules on flags, values and variables that an engine does not know."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from servers.judge.messages import Sentence, say
from servers.judge.profiles.facts import (
    SECRET_FLAGS,
    LaunchFacts,
    Severity,
    Subject,
    TypedFlags,
    is_blank,
    is_json_object,
)
from servers.judge.profiles.lint_rules import Check, CheckHit, Fix, adapt_fix, list_checks
from servers.launch.engines import ENGINES, change
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.flaglist import (
    FlagList,
    Successor,
    all_shipped,
    find_partners,
    nearest_value,
)
from servers.launch.engines.launch import fill_parameters
from servers.launch.engines.spelling import list_vocabulary

# Images whose engine is the released one; another may be a fork with flags of its own.
_UPSTREAM = re.compile(
    r"(^|/)(lmsysorg/sglang|vllm/vllm-openai|ggml-org/llama\.cpp|ghcr\.io/ggml-org/)"
)
# How the names of an engine's own variables begin; others are read by libraries.
ENV_PREFIXES = {
    "vllm": ("VLLM_",),
    "sglang": ("SGLANG_", "SGL_"),
    "llamacpp": ("LLAMA_ARG_",),
}
_NUMBERS = {"int": re.compile(r"[+-]?\d+"), "float": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e-?\d+)?")}


def _stray_words(facts: LaunchFacts) -> Iterator[CheckHit]:
    words = []
    for word in facts.launch.flags:
        if word.startswith("-"):
            break
        words.append(word)
    if not words:
        return
    yield CheckHit(
        says=say("profiles.stray-words", words=" ".join(words)),
        about="flags",
    )


def _unknown_flags(facts: LaunchFacts) -> Iterator[CheckHit]:
    own = facts.flaglist
    title = ENGINES[facts.engine].title
    lists = (own,) if own else all_shipped(facts.engine)
    for typed in facts.typed:
        if typed.flag is not None:
            continue
        of, several = next(
            ((each, found) for each in lists if (found := each.matches(typed.word))), (lists[0], ())
        )
        if several:
            hit = _ambiguous(facts, typed, several, f"{title} {of.version}".strip())
        elif own:
            hit = _unknown(facts, typed, own, f"{title} {own.version} has no".replace("  ", " "))
        else:
            versions = ", ".join(each.version for each in reversed(lists))
            hit = _unknown(
                facts, typed, of, f"{title} {versions} {'have' if len(lists) > 1 else 'has'} no"
            )
        yield hit if own else _doubt(facts, hit)


def _ambiguous(
    facts: LaunchFacts, typed: TypedFlags, several: tuple[str, ...], title: str
) -> CheckHit:
    shortest = min(several, key=len)
    return CheckHit(
        says=say(
            "profiles.flag-ambiguous",
            engine=title,
            flag=typed.word,
            several=", ".join(several),
        ),
        about=typed.word,
        fix=_find_rename(facts, typed, shortest),
        typed=typed,
        instead=shortest,
    )


def _unknown(facts: LaunchFacts, typed: TypedFlags, flags: FlagList, has_no: str) -> CheckHit:
    beside = _list_beside(facts, typed)
    told = flags.successor(typed.word, beside)
    near = told.only if told else flags.nearest(typed.word, typed.values)
    known = {"has_no": has_no, "flag": typed.word}
    if told is not None:
        said = _say_successor(told, **known)
    elif near:
        said = say("profiles.flag-misspelled", **known, near=near)
    else:
        said = say("profiles.flag-unknown", **known)
    fix = adapt_fix(Fix(change=LaunchChange(drop_flags=(typed.word,))), facts, reason="")
    if near:
        fix = _find_rename(facts, typed, near, find_partners(typed.name, beside) if told else ())
    elif told is not None and told.write:
        fix = None  # which of them is meant is not for us to say
    return CheckHit(says=said, about=typed.word, fix=fix, typed=typed, instead=near or "")


def _list_beside(facts: LaunchFacts, typed: TypedFlags) -> tuple[str, ...]:
    return tuple(each.name for each in facts.typed if each is not typed)


def _say_successor(told: Successor, **known: str) -> Sentence:
    if told.only:
        return say("profiles.flag-renamed", **known, near=_name(told))
    if told.write:
        return say("profiles.flag-renamed-to-several", **known, several=_name(told))
    if told.says:
        return say("profiles.flag-gone", **known, why=told.says)
    return say("profiles.flag-removed", **known)


def _name(told: Successor) -> str:
    *first, last = (each.replace("=", " ") for each in told.write)
    return f"{', '.join(first)} or {last}" if first else last


def _doubt(facts: LaunchFacts, hit: CheckHit) -> CheckHit:
    """Of an image whose flags are not known: the flag may only be younger or older."""
    return replace(
        hit,
        says=say("profiles.flag-in-no-list", why=hit.says.text),
        fix=None,  # it would say that the flag is wrong
        severity="warning" if _UPSTREAM.search(facts.launch.image) else "info",
        unknown=("the flags of this image",),
    )


def _only_elsewhere(facts: LaunchFacts) -> Iterator[CheckHit]:
    """Flags of older versions, where the image may be a newer one."""
    newest, *older = all_shipped(facts.engine)
    title = ENGINES[facts.engine].title
    for typed in facts.typed if facts.flaglist is None else ():
        if typed.flag is None or newest.matches(typed.word):
            continue
        has = next(each.version for each in older if each.find(typed.word))
        told = newest.successor(typed.name, _list_beside(facts, typed))
        near = told.only if told else None
        known = {"has": f"{title} {has}", "flag": typed.word, "newest": newest.version}
        said = say("profiles.flag-dropped", **known)
        if told and told.write:
            said = say("profiles.flag-replaced", **known, near=_name(told))
        elif told and told.says:
            said = say("profiles.flag-dropped-because", **known, why=told.says)
        hit = CheckHit(
            says=said,
            about=typed.word,
            typed=typed,
            instead=near or "",
        )
        yield replace(_doubt(facts, hit), severity=None)


def _find_rename(
    facts: LaunchFacts, typed: TypedFlags, name: str, partners: tuple[str, ...] = ()
) -> LaunchChange | None:
    fix = Fix(rename_flags=dict.fromkeys((typed.word, *partners), name))
    return adapt_fix(fix, facts, reason="")


def _values(facts: LaunchFacts) -> Iterator[CheckHit]:
    """What the engine's own parser refuses; only with the list of exactly this version."""
    if facts.flaglist is None:
        return
    for typed in facts.typed:
        if typed.flag is None or is_blank(typed.value) or typed.is_part:
            continue
        yield from _number_of_values(facts, typed)
        for at, value in enumerate(typed.values):
            yield from _choice(facts, typed, at, value)


def _number_of_values(facts: LaunchFacts, typed: TypedFlags) -> Iterator[CheckHit]:
    takes, count = typed.flag.takes if typed.flag else "unknown", len(typed.values)
    if takes == "none" and count:
        yield CheckHit(
            says=say("profiles.flag-takes-no-value", flag=typed.word, value=typed.value),
            about=typed.word,
            fix=adapt_fix(Fix(change=LaunchChange(set_flags={typed.word: None})), facts, reason=""),
            typed=typed,
            value=0,
        )
    elif takes == "one" and count != 1:
        yield CheckHit(
            says=say("profiles.flag-takes-one-value", flag=typed.word, count=count)
            if count
            else say("profiles.flag-needs-a-value", flag=typed.word),
            about=typed.word,
            fix=adapt_fix(
                Fix(change=LaunchChange(set_flags={typed.word: typed.values[0]})), facts, reason=""
            )
            if count
            else adapt_fix(Fix(change=LaunchChange(drop_flags=(typed.word,))), facts, reason=""),
            typed=typed,
            value=0,
        )


def _equals(facts: LaunchFacts) -> Iterator[CheckHit]:
    if facts.engine != "llamacpp":
        return
    for word in facts.launch.flags:
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            yield CheckHit(
                says=say("profiles.llamacpp-equals", flag=name),
                about=name,
                fix=adapt_fix(Fix(change=LaunchChange(set_flags={name: value})), facts, reason=""),
            )


def _choice(facts: LaunchFacts, typed: TypedFlags, at: int, value: str) -> Iterator[CheckHit]:
    flag = typed.flag
    if flag is None or flag.takes == "none":
        return
    title = f"{ENGINES[facts.engine].title} {facts.flaglist.version if facts.flaglist else ''}"
    allowed = flag.choices or flag.known
    if allowed and value not in allowed:
        near = nearest_value(value, allowed)
        some = near or (", ".join(allowed[:6]) + (" …" if len(allowed) > 6 else ""))
        known = {"engine": title.strip(), "value": value, "flag": typed.word}
        said = say("profiles.value-unknown", **known, known=some)
        if near:
            said = say("profiles.value-misspelled", **known, near=near)
        yield CheckHit(
            says=said,
            about=typed.word,
            fix=adapt_fix(Fix(change=LaunchChange(set_flags={typed.word: near})), facts, reason="")
            if near and len(typed.values) == 1
            else None,
            severity=None if flag.choices else "warning",
            typed=typed,
            value=at,
            instead=near or "",
        )
    elif flag.type in _NUMBERS and not _NUMBERS[flag.type].fullmatch(value.casefold()):
        what = "whole number" if flag.type == "int" else "number"
        yield CheckHit(
            says=say("profiles.value-not-a-number", flag=typed.word, what=what, value=value),
            about=typed.word,
            typed=typed,
            value=at,
        )
    elif value.startswith("{") and "json" in flag.type and not is_json_object(value):
        yield CheckHit(
            says=say("profiles.value-not-json", flag=typed.word),
            about=typed.word,
            typed=typed,
            value=at,
        )


def _twice(facts: LaunchFacts) -> Iterator[CheckHit]:
    names = [typed.name for typed in facts.typed]
    for typed in {each.name: each for each in facts.typed}.values():
        is_many = typed.flag is not None and typed.flag.takes == "many"
        if (
            names.count(typed.name) < 2
            or change.is_list_flag(typed.name)
            or is_many
            or typed.is_part
        ):
            continue
        last = typed.value if typed.values else None
        is_shown = last and typed.name not in SECRET_FLAGS
        shown, count = f", “{last}”" if is_shown else "", names.count(typed.name)
        yield CheckHit(
            says=say("profiles.flag-twice", flag=typed.word, count=count, last=shown),
            about=typed.word,
            fix=adapt_fix(Fix(change=LaunchChange(set_flags={typed.word: last})), facts, reason="")
            if len(typed.values) < 2
            else None,
            typed=typed,
        )


def _check_deprecated(facts: LaunchFacts) -> Iterator[CheckHit]:
    for typed in facts.typed if facts.flaglist else ():
        if typed.flag is not None and typed.flag.is_deprecated:
            engine = f"{ENGINES[facts.engine].title} {facts.version_text}"
            known = {"engine": engine, "flag": typed.word, "help": typed.flag.help}
            yield CheckHit(
                says=say("profiles.flag-deprecated", **known),
                about=typed.word,
                typed=typed,
            )


def _variables(facts: LaunchFacts) -> Iterator[CheckHit]:
    is_certain = facts.flaglist is not None or facts.known_env is not None
    lists = [each for each in all_shipped(facts.engine) if each.env is not None]
    known = (
        facts.known_env if is_certain else frozenset().union(*(each.env or () for each in lists))
    )
    if not known:
        return
    words = list_vocabulary(known)
    versions = facts.version_text if is_certain else ", ".join(each.version for each in lists[::-1])
    title = f"{ENGINES[facts.engine].title} {versions}".strip()
    for name in (*facts.launch.env, *facts.launch.secret_env):
        # SGLang reads SGL_X as SGLANG_X; llama.cpp's LLAMA_ARG_NO_X switches X off.
        meant = re.sub(r"^SGL_", "SGLANG_", name).replace("LLAMA_ARG_NO_", "LLAMA_ARG_")
        if not name.startswith(ENV_PREFIXES.get(facts.engine, ())) or {name, meant} & known:
            continue
        near = nearest_value(meant, tuple(sorted(known)), vocabulary=words)
        does = "does" if len(lists) == 1 else "do"
        said = (
            say("profiles.variable-unread", engine=title, name=name)
            if is_certain
            else say("profiles.variable-in-no-list", engine=title, does=does, name=name)
        )
        if near:
            said = say("profiles.variable-misspelled", why=said.text, near=near)
        hit = CheckHit(
            says=said,
            about=name,
            instead=near or "",
        )
        if is_certain:
            fix = Fix(change=LaunchChange(drop_env=(name,)))
            if near and name in facts.launch.env:
                fix = Fix(rename_env={name: near})
            yield replace(hit, fix=adapt_fix(fix, facts, reason=""))
        else:
            unknown = ("the variables that this image reads",)
            yield replace(hit, severity="info", unknown=unknown)


CHECKS = list_checks(
    {
        "stray-words": _stray_words,
        "unknown-flag": _unknown_flags,
        "flag-elsewhere": _only_elsewhere,
        "flag-value": _values,
        "llamacpp-equals": _equals,
        "flag-twice": _twice,
        "flag-deprecated": _check_deprecated,
        "unknown-variable": _variables,
    }
)

type TextBox = Literal["flags", "env"]

_BOXES: dict[TextBox, tuple[Check, ...]] = {"flags": CHECKS[:-1], "env": CHECKS[-1:]}
# More are not told of one box: each misspelled word is compared with every name.
MARKED = 50


@dataclass(frozen=True, kw_only=True)
class WordMark:
    """A hit, and the word in the form's box of flags or variables that it is about."""

    box: TextBox
    severity: Severity
    says: str
    word: str  # flag or variable, as typed; "": what stands before the first flag
    nth: int = 0  # of those that are typed alike
    values: tuple[str, ...] | None = None  # the flag's; None where it is marked itself
    value: int = 0  # which of them
    instead: str = ""  # what to write for the word


def find_marks(subject: Subject) -> list[WordMark]:
    """What each word is told by itself, whoever else says it better of the launch."""
    facts = LaunchFacts(replace(subject, launch=fill_parameters(subject.launch)))
    if not ENGINES[facts.engine].serves_models:
        return []
    found: list[WordMark] = []
    for box, checks in _BOXES.items():
        hits = (_mark(box, each, hit) for each in checks for hit in each.hits(facts))
        found += islice(hits, MARKED)
    return found


def _mark(box: TextBox, check: Check, hit: CheckHit) -> WordMark:
    typed = hit.typed
    return WordMark(
        box=box,
        severity=hit.severity or check.severity,
        says=hit.says.text,
        word="" if hit.about == "flags" else hit.about,
        nth=typed.nth if typed else 0,
        values=typed.values if typed and hit.value is not None else None,
        value=hit.value or 0,
        instead=hit.instead,
    )
