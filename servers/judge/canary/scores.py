"""Scores of a canary's items: whether a reply is right, and what is wrong about it."""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servers.host.canary.replies import CanaryReply
from servers.judge.canary.items import CanaryItem
from servers.judge.messages import Sentence, say
from servers.judge.runs.smoke_test import noise

LONGEST_QUOTE = 60  # characters of an answer in a sentence
_SCRIPT = 0.6  # of an answer's letters, which are of the script of its language
_WORDS = 8  # in a row: who says so many twice, repeats
_LOOPED = 0.5  # of an answer's rows of words that it has said before
_CJK = ("CJK", "HIRAGANA", "KATAKANA")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_REFUSED = range(400, 500)
# By what judge.runs.smoke_test finds in a first answer.
_OF_NOISE = {
    "runs.answer-repeats": "canary.repeats",
    "runs.answer-stuck": "canary.stuck",
    "runs.answer-not-decoded": "canary.not-decoded",
    "runs.answer-no-letters": "canary.no-letters",
    "runs.answer-many-alphabets": "canary.many-alphabets",
}
# Who reckons in signs has hardly any letters.
_OF_NUMBERS, _NO_LETTERS = ("arithmetic", "needle", "turns"), "canary.no-letters"


@dataclass(frozen=True, kw_only=True)
class ItemScore:
    """`is_right` None: it cannot be told, which `why` says. `why` None: it is right."""

    is_right: bool | None
    why: Sentence | None = None


RIGHT = ItemScore(is_right=True)


def _deny(code: str, **params: Any) -> ItemScore:
    return ItemScore(is_right=False, why=say(code, **params))


def score_replies(item: CanaryItem, replies: Sequence[CanaryReply]) -> ItemScore:
    """`replies`: of each turn of one try, in their order."""
    last = replies[-1]
    if last.error:
        is_refused = last.status in _REFUSED
        said = say("canary.refused" if is_refused else "canary.failed", error=last.error)
        return ItemScore(is_right=None if is_refused else False, why=said)
    for reply in replies:
        fault = find_noise(reply.text or reply.reasoning)
        if fault and not (fault.code == _NO_LETTERS and item.kind in _OF_NUMBERS):
            return ItemScore(is_right=False, why=fault)
    if not last.text and not last.tool_calls:
        if last.reasoning and last.finish == "length":
            return ItemScore(is_right=None, why=say("canary.reasoned-only"))
        return _deny("canary.empty")
    return _SCORERS[item.kind](item, last)


def find_noise(text: str) -> Sentence | None:
    """What makes it no language; None where it may be one. See judge.runs.smoke_test."""
    found = noise(text)
    if found is None:
        return None
    return say(_OF_NOISE[found.code], **found.params)


def _score_language(item: CanaryItem, reply: CanaryReply) -> ItemScore:
    letters = [each for each in reply.text if each.isalpha()]
    mine = sum(_is_of(item.script, each) for each in letters)
    if mine < _SCRIPT * max(1, len(letters)):
        return _deny("canary.other-language", text=quote(reply.text))
    return RIGHT


def _is_of(script: str, letter: str) -> bool:
    name = unicodedata.name(letter, "?")
    return name.startswith(_CJK if script == "CJK" else script)


def _score_repetition(_item: CanaryItem, reply: CanaryReply) -> ItemScore:
    looped = find_loop(reply.text)
    return _deny("canary.loops", text=quote(looped)) if looped else RIGHT


def find_loop(text: str) -> str:
    """The words that come again and again in most of it; "" where it goes on."""
    words = text.split()
    rows = [" ".join(words[at : at + _WORDS]) for at in range(len(words) - _WORDS + 1)]
    if len(rows) < 4 * _WORDS or len(set(rows)) > (1 - _LOOPED) * len(rows):
        return ""
    return max(set(rows), key=rows.count)


def _score_schema(item: CanaryItem, reply: CanaryReply) -> ItemScore:
    try:
        said = json.loads(reply.text)
    except (ValueError, RecursionError):
        return _deny("canary.no-json", text=quote(reply.text))
    schema = item.extra["response_format"]["json_schema"]["schema"]
    if broken := find_broken_rule(said, schema):
        return _deny("canary.other-schema", rule=broken, text=quote(reply.text))
    if wrong := [name for name, value in item.expected.items() if said[name] != value]:
        return _deny("canary.other-values", names=", ".join(wrong), text=quote(reply.text))
    return RIGHT


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
}


def find_broken_rule(said: Any, schema: Mapping[str, Any], name: str = "it") -> str:
    """The first rule of the schema that it breaks, of those that items.yaml uses; "" for none."""
    kind = schema["type"]
    if not isinstance(said, _TYPES[kind]) or isinstance(said, bool):
        return f"{name} is no {kind}"
    if isinstance(said, list):
        for each in said:
            if broken := find_broken_rule(each, schema["items"], f"an entry of {name}"):
                return broken
    if isinstance(said, dict):
        known = schema["properties"]
        if missing := [each for each in schema["required"] if each not in said]:
            return f"{name} lacks {', '.join(missing)}"
        if odd := [each for each in said if each not in known]:
            return f"{name} has {', '.join(odd)}"
        for each, value in said.items():
            if broken := find_broken_rule(value, known[each], each):
                return broken
    if said not in schema.get("enum", [said]):
        return f"{name} is none of {', '.join(schema['enum'])}"
    return ""


def _score_tool(item: CanaryItem, reply: CanaryReply) -> ItemScore:
    tool = item.extra["tools"][0]["function"]
    if not reply.tool_calls:
        return _deny("canary.no-tool-call", text=quote(reply.text))
    name, written = reply.tool_calls[0]
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        return _deny("canary.tool-no-json", text=quote(written))
    broken = find_broken_rule(arguments, tool["parameters"], "the call")
    if name != tool["name"] or broken:
        return _deny(
            "canary.other-tool-call", rule=broken or f"it is of {name}", text=quote(written)
        )
    if any(str(value) not in str(arguments.get(key)) for key, value in item.expected.items()):
        return _deny("canary.other-arguments", text=quote(written))
    return RIGHT


def _score_number(item: CanaryItem, reply: CanaryReply) -> ItemScore:
    """The last number counts, as in GSM8K: some show how they got there."""
    numbers = _NUMBER.findall(reply.text)
    if numbers and numbers[-1].replace(",", "").removesuffix(".00") == item.expected:
        return RIGHT
    return _deny("canary.other-answer", text=quote(reply.text), expected=item.expected)


def _score_needle(item: CanaryItem, reply: CanaryReply) -> ItemScore:
    if item.expected in re.sub(r"[\s,.\-]", "", reply.text):
        return RIGHT
    return _deny("canary.other-answer", text=quote(reply.text), expected=item.expected)


def _score_fingerprint(_item: CanaryItem, _reply: CanaryReply) -> ItemScore:
    """Any language will do: what it is compared with tells the rest."""
    return RIGHT


def quote(text: str) -> str:
    text = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 1]}…"


_SCORERS: Mapping[str, Callable[[CanaryItem, CanaryReply], ItemScore]] = {
    "language": _score_language,
    "repetition": _score_repetition,
    "schema": _score_schema,
    "tool": _score_tool,
    "arithmetic": _score_number,
    "needle": _score_needle,
    "turns": _score_needle,
    "fingerprint": _score_fingerprint,
}
