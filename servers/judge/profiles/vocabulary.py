"""Rules on flags, values and variables that an engine does not know."""

import re
from collections.abc import Iterator

from servers.judge.messages import say
from servers.judge.profiles.facts import (
    SECRET_FLAGS,
    LaunchFacts,
    TypedFlags,
    is_blank,
    is_json_object,
)
from servers.judge.profiles.fixes import Fix, adapt_fix
from servers.judge.profiles.lint_rules import Check, CheckHit
from servers.launch.engines import ENGINES, change
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.flaglist import FlagList, all_shipped, nearest_value

# Images whose engine is the released one; another may be a fork with flags of its own.
_UPSTREAM = re.compile(
    r"(^|/)(lmsysorg/sglang|vllm/vllm-openai|ggml-org/llama\.cpp|ghcr\.io/ggml-org/)"
)
# Flags that count each time they are given.
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
    for typed in facts.typed:
        if typed.flag is not None:
            continue
        lists = (own,) if own else all_shipped(facts.engine)
        several = next((found for each in lists if (found := each.matches(typed.word))), ())
        if own and several:
            yield _ambiguous(facts, typed, several, f"{title} {own.version}".strip())
        elif own:
            yield _unknown(facts, typed, own, f"{title} {own.version} has no".replace("  ", " "))
        else:
            yield _in_no_list(facts, typed, lists)


def _ambiguous(
    facts: LaunchFacts, typed: TypedFlags, several: tuple[str, ...], title: str
) -> CheckHit:
    return CheckHit(
        says=say(
            "profiles.flag-ambiguous",
            engine=title,
            flag=typed.word,
            several=", ".join(several),
        ),
        about=typed.word,
        fix=_find_rename(facts, typed, min(several, key=len)),
    )


def _unknown(facts: LaunchFacts, typed: TypedFlags, flags: FlagList, has_no: str) -> CheckHit:
    near = flags.nearest(typed.word)
    was_there = typed.name in flags.removed
    known = {"has_no": has_no, "flag": typed.word}
    if near:
        code = "profiles.flag-renamed" if was_there else "profiles.flag-misspelled"
        said = say(code, **known, near=near)
    else:
        said = say("profiles.flag-removed" if was_there else "profiles.flag-unknown", **known)
    return CheckHit(
        says=said,
        about=typed.word,
        fix=_find_rename(facts, typed, near)
        if near
        else adapt_fix(Fix(change=LaunchChange(drop_flags=(typed.word,))), facts, reason=""),
    )


def _in_no_list(facts: LaunchFacts, typed: TypedFlags, lists: tuple[FlagList, ...]) -> CheckHit:
    versions = ", ".join(each.version for each in reversed(lists))
    title = ENGINES[facts.engine].title
    hit = _unknown(
        facts, typed, lists[0], f"{title} {versions} {'have' if len(lists) > 1 else 'has'} no"
    )
    is_upstream = bool(_UPSTREAM.search(facts.launch.image))
    return CheckHit(
        says=say("profiles.flag-in-no-list", why=hit.says.text),
        about=hit.about,
        # A fix would say that the flag is wrong; here it may only be younger or older.
        severity="warning" if is_upstream else "info",
        unknown=("the flags of this image",),
    )


def _find_rename(facts: LaunchFacts, typed: TypedFlags, name: str) -> LaunchChange | None:
    fix = Fix(rename_flags={typed.word: name})
    return adapt_fix(fix, facts, reason="")


def _values(facts: LaunchFacts) -> Iterator[CheckHit]:
    """What the engine's own parser refuses; only with the list of exactly this version."""
    if facts.flaglist is None:
        return
    for typed in facts.typed:
        if typed.flag is None or is_blank(typed.value) or typed.is_part:
            continue
        yield from _number_of_values(facts, typed)
        for value in typed.values:
            yield from _choice(facts, typed, value)


def _number_of_values(facts: LaunchFacts, typed: TypedFlags) -> Iterator[CheckHit]:
    takes, count = typed.flag.takes if typed.flag else "unknown", len(typed.values)
    if takes == "none" and count:
        yield CheckHit(
            says=say("profiles.flag-takes-no-value", flag=typed.word, value=typed.value),
            about=typed.word,
            fix=adapt_fix(Fix(change=LaunchChange(set_flags={typed.word: None})), facts, reason=""),
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


def _choice(facts: LaunchFacts, typed: TypedFlags, value: str) -> Iterator[CheckHit]:
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
        )
    elif flag.type in _NUMBERS and not _NUMBERS[flag.type].fullmatch(value.casefold()):
        what = "whole number" if flag.type == "int" else "number"
        said = say("profiles.value-not-a-number", flag=typed.word, what=what, value=value)
        yield CheckHit(says=said, about=typed.word)
    elif value.startswith("{") and "json" in flag.type and not is_json_object(value):
        yield CheckHit(
            says=say("profiles.value-not-json", flag=typed.word),
            about=typed.word,
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
        )


def _check_deprecated(facts: LaunchFacts) -> Iterator[CheckHit]:
    for typed in facts.typed if facts.flaglist else ():
        if typed.flag is not None and typed.flag.is_deprecated:
            engine = f"{ENGINES[facts.engine].title} {facts.version_text}"
            known = {"engine": engine, "flag": typed.word, "help": typed.flag.help}
            yield CheckHit(
                says=say("profiles.flag-deprecated", **known),
                about=typed.word,
            )


def _variables(facts: LaunchFacts) -> Iterator[CheckHit]:
    known = facts.known_env
    if known is None:
        return
    title = f"{ENGINES[facts.engine].title} {facts.version_text}".strip()
    for name in (*facts.launch.env, *facts.launch.secret_env):
        # SGLang reads SGL_X as SGLANG_X; llama.cpp's LLAMA_ARG_NO_X switches X off.
        meant = re.sub(r"^SGL_", "SGLANG_", name).replace("LLAMA_ARG_NO_", "LLAMA_ARG_")
        if not name.startswith(ENV_PREFIXES.get(facts.engine, ())) or {name, meant} & known:
            continue
        near = nearest_value(meant, tuple(sorted(known)), likeness=0.9)
        said = say("profiles.variable-unknown", engine=title, name=name)
        if near:
            said = say("profiles.variable-misspelled", engine=title, name=name, near=near)
        yield CheckHit(
            says=said,
            about=name,
            fix=adapt_fix(
                Fix(rename_env={name: near})
                if near and name in facts.launch.env
                else Fix(change=LaunchChange(drop_env=(name,))),
                facts,
                reason="",
            ),
        )


_FLAGS = ("engine-flags",)

CHECKS = (
    Check(id="stray-words", severity="error", source=_FLAGS, hits=_stray_words),
    Check(
        id="unknown-flag", severity="error", source=_FLAGS, hits=_unknown_flags, gives_way="error"
    ),
    Check(id="flag-value", severity="error", source=_FLAGS, hits=_values, gives_way="error"),
    Check(id="llamacpp-equals", severity="error", source=("llamacpp-server",), hits=_equals),
    Check(id="flag-twice", severity="warning", source=_FLAGS, hits=_twice),
    Check(
        id="flag-deprecated",
        severity="info",
        source=_FLAGS,
        hits=_check_deprecated,
        gives_way="info",
    ),
    Check(
        id="unknown-variable",
        severity="warning",
        source=("engine-variables",),
        hits=_variables,
        gives_way="info",
    ),
)
