"""Chat features that a launch leaves out: tool calls, reasoning, cached tokens, metrics."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.messages import Sentence, say
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.launch.engines import ENGINES, parsers
from servers.launch.engines.change import FlagValue, LaunchChange

OFF = ("0", "false", "off", "none", "disabled")
# Keys of config.json that only models with eyes have.
_EYES = ("vision_config", "visual", "vision_tower", "mm_vision_tower", "image_token_id")
_EYES_TOO = ("image_token_index", "img_processor", "vision_model_config")


@dataclass(frozen=True, kw_only=True)
class MissingFeature:
    """`fix` is None where inferdash does not know what to write."""

    key: str  # tools, reasoning, cached, metrics
    says: Sentence
    fix: LaunchChange | None = None


def lacks(subject: Subject) -> tuple[MissingFeature, ...]:
    """What chats with this launch go without, in the order in which a page says it.

    Source: the engines' chat APIs; each names the flag that switches the feature on.
    """
    facts = LaunchFacts(subject)
    found = (_tools(facts), _check_reasoning(facts), _check_cached(facts), _metrics(facts))
    return tuple(each for each in found if each is not None)


def _tools(facts: LaunchFacts) -> MissingFeature | None:
    title = _title(facts)
    if facts.engine == "llamacpp":
        return _without_jinja(facts)
    if facts.engine not in ("vllm", "sglang"):
        return None
    parser, auto = facts.flag("--tool-call-parser"), facts.flag("--enable-auto-tool-choice")
    if parser is not None and (facts.engine == "sglang" or auto is not None):
        return None
    is_vllm = facts.engine == "vllm"
    name = parser.value if parser is not None else _parser(facts, "tools")
    if not name:
        vllm, other = "profiles.lacks-tools-unknown-vllm", "profiles.lacks-tools-unknown"
        return MissingFeature(key="tools", says=say(vllm if is_vllm else other, engine=title))
    flags: dict[str, FlagValue] = {"--tool-call-parser": name}
    if is_vllm:
        flags = {"--enable-auto-tool-choice": None} | flags
    vllm, other = "profiles.lacks-tools-vllm", "profiles.lacks-tools"
    return MissingFeature(
        key="tools",
        says=say(vllm if is_vllm else other, engine=title),
        fix=_build_change(facts, flags, say("profiles.for-tools")),
    )


def _without_jinja(facts: LaunchFacts) -> MissingFeature | None:
    if not _is_off(facts, "--jinja", "LLAMA_ARG_JINJA"):
        return None
    fix = LaunchChange(
        set_flags={"--jinja": None},
        drop_flags=("--no-jinja",),
        drop_env=("LLAMA_ARG_JINJA",),
        reasons={"--jinja": say("profiles.for-tools").text},
    )
    return MissingFeature(key="tools", says=say("profiles.lacks-jinja"), fix=fix)


def _check_reasoning(facts: LaunchFacts) -> MissingFeature | None:
    if facts.engine == "llamacpp":
        flag = facts.flag("--reasoning-format")
        if flag is None or flag.value != "none":
            return None
        fix = LaunchChange(drop_flags=("--reasoning-format",))
        says = say("profiles.lacks-reasoning-format")
        return MissingFeature(key="reasoning", says=says, fix=fix)
    if facts.engine not in ("vllm", "sglang") or facts.flag("--reasoning-parser") is not None:
        return None
    name, engine = _parser(facts, "reasoning"), _title(facts)
    if not name:
        says = say("profiles.lacks-reasoning-unknown", engine=engine)
        return MissingFeature(key="reasoning", says=says)
    return MissingFeature(
        key="reasoning",
        says=say("profiles.lacks-reasoning", engine=engine),
        fix=_build_change(facts, {"--reasoning-parser": name}, say("profiles.for-reasoning")),
    )


_CACHED = {"vllm": "--enable-prompt-tokens-details", "sglang": "--enable-cache-report"}


def _check_cached(facts: LaunchFacts) -> MissingFeature | None:
    name = _CACHED.get(facts.engine)
    if name is None or facts.flag(name) is not None:
        return None
    says = say("profiles.lacks-cached", engine=_title(facts), flag=name)
    why = say("profiles.for-cached")
    return MissingFeature(key="cached", says=says, fix=_build_change(facts, {name: None}, why))


def _metrics(facts: LaunchFacts) -> MissingFeature | None:
    why = say("profiles.for-metrics")
    if facts.engine == "sglang" and facts.flag("--enable-metrics") is None:
        says = say("profiles.lacks-metrics-sglang")
        return MissingFeature(
            key="metrics", says=says, fix=_build_change(facts, {"--enable-metrics": None}, why)
        )
    said = facts.env.get("LLAMA_ARG_ENDPOINT_METRICS") or ""
    if facts.engine == "llamacpp" and facts.flag("--metrics") is None and said in OFF:
        says = say("profiles.lacks-metrics-llamacpp")
        return MissingFeature(
            key="metrics", says=says, fix=_build_change(facts, {"--metrics": None}, why)
        )
    flag = facts.flag("--disable-log-stats")
    if facts.engine == "vllm" and flag is not None:
        says = say("profiles.lacks-metrics-vllm")
        fix = LaunchChange(drop_flags=(flag.word,))
        return MissingFeature(key="metrics", says=says, fix=fix)
    return None


def calls_tools(subject: Subject, missing: tuple[MissingFeature, ...]) -> bool:
    """Whether calls of tools come as such. `missing` is what it lacks."""
    is_known = LaunchFacts(subject).engine in ("vllm", "sglang", "llamacpp")
    return is_known and all(each.key != "tools" for each in missing)


def takes_pictures(subject: Subject) -> bool | None:
    """Whether questions to this launch may hold pictures; None when nobody can tell.

    Source: the checkpoint's config.json; for llama.cpp whether it is given a projector.
    """
    facts, config = LaunchFacts(subject), subject.checkpoint_config
    if facts.engine == "llamacpp":
        if facts.flag("--mmproj") is not None or "LLAMA_ARG_MMPROJ" in facts.env:
            return True
        # One from the Hub may come with its projector, and llama.cpp then loads it by itself.
        is_alone = (
            subject.launch.checkpoint.startswith("/") or facts.flag("--no-mmproj") is not None
        )
        is_off = _is_off(facts, "--mmproj-auto", "LLAMA_ARG_MMPROJ_AUTO")
        return False if is_alone or is_off else None
    if facts.flag("--language-model-only") is not None or _allows_none(facts):
        return False
    return None if config is None else _has_eyes(config)


def _has_eyes(config: Mapping[str, Any]) -> bool:
    return any(config.get(key) for key in (*_EYES, *_EYES_TOO))


def _allows_none(facts: LaunchFacts) -> bool:
    """vLLM's --limit-mm-per-prompt with 0 pictures, whole or in parts (.image 0, .image.count 0)."""
    limit: Any = None
    for typed in facts.all_typed("--limit-mm-per-prompt"):
        for name, _equals, count in (word.partition("=") for word in typed.values):
            if name in ("image", "image.count"):
                limit = count
        try:
            said = json.loads(typed.value)
        except ValueError:
            continue
        if isinstance(said, dict):
            limit = said.get("image")  # what stood before it counts no more
    if isinstance(limit, dict):
        limit = limit.get("count")
    return str(limit) == "0"


def _parser(facts: LaunchFacts, kind: parsers.Kind) -> str:
    """The parser that this release of the engine has for the model; "" where none is known."""
    launch, config = facts.launch, facts.subject.checkpoint_config or {}
    model = " ".join((launch.checkpoint, launch.served_name, str(config.get("model_type", ""))))
    name = parsers.parser(facts.engine, kind, model)
    _spelled, flag = facts.resolve_spelling(parsers.FLAGS[kind])
    listed = (*flag.choices, *flag.known) if flag is not None else ()
    if not listed:
        return name
    if name in listed:
        return name
    return "auto" if "auto" in listed and kind == "tools" else ""


def _is_off(facts: LaunchFacts, name: str, variable: str) -> bool:
    said = (facts.env.get(variable) or "").lower()
    return facts.flag(f"--no-{name[2:]}") is not None or said in OFF


def _build_change(
    facts: LaunchFacts, flags: Mapping[str, FlagValue], why: Sentence
) -> LaunchChange | None:
    """None where this release of the engine does not have one of the flags."""
    if facts.flaglist is not None and any(facts.flaglist.find(name) is None for name in flags):
        return None
    return LaunchChange(set_flags=flags, reasons=dict.fromkeys(flags, why.text))


def _title(facts: LaunchFacts) -> str:
    return ENGINES[facts.engine].title
