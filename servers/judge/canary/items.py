"""Items of canaries, as items.yaml has them, and the questions that each comes to."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from servers.host.canary.replies import CanaryQuestion
from servers.judge.benchmarks.presets import read_book
from servers.launch.tables import load_yaml

type ItemKind = Literal[
    "language", "schema", "tool", "needle", "fingerprint", "arithmetic", "turns", "repetition"
]

TOP = 5  # most likely tokens that are told in each place; more than one engine allows no more
LETTERS = 4.5  # a token, in English, before the server has counted
_ROOM = 64  # tokens of a chat template, the question and the needle
_FITS = 0.94  # of the limit: what a token has in letters is known on the average only
_NUMBER_ALONE = "Answer with the number alone."


@dataclass(frozen=True, kw_only=True)
class CanarySet:
    """`most_prompt`: tokens of a prompt; 0: as many as the server takes."""

    key: str
    title: str
    answers: str
    limit_seconds: float
    most_prompt: int = 0


@dataclass(frozen=True, kw_only=True)
class CanaryItem:
    """One thing that is asked, in `turns` that follow each other.

    `key` is the same in every set and run, so that two runs can be compared by it. `expected` is
    what the reply has to hold, by its kind; `repeats` is how often it is asked in any case.
    """

    key: str
    kind: ItemKind
    title: str
    turns: tuple[str, ...]
    tokens: int  # of each reply, at most
    prompt_tokens: int = 0  # about; 0: a sentence or two
    system: str = ""
    expected: Any = None
    script: str = ""
    extra: Mapping[str, Any]
    top: int = 0
    repeats: int = 1

    def build_question(self, said: Sequence[str]) -> CanaryQuestion:
        """The next turn, after what was answered to those before."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        for turn, answer in zip(self.turns, said, strict=False):
            messages += [
                {"role": "user", "content": turn},
                {"role": "assistant", "content": answer},
            ]
        messages.append({"role": "user", "content": self.turns[len(said)]})
        return CanaryQuestion(
            messages=tuple(messages), most_tokens=self.tokens, extra=self.extra, top=self.top
        )


@cache
def load_table() -> Mapping[str, Any]:
    said: Mapping[str, Any] = load_yaml((Path(__file__).parent / "items.yaml").read_text())
    return said


def get_version() -> int:
    return int(load_table()["version"])


@cache
def load_sets() -> Mapping[str, CanarySet]:
    """By key, in the order of the file."""
    return {each["key"]: CanarySet(**each) for each in load_table()["sets"]}


def list_items(
    key: str, *, longest: int | None, letters: float = LETTERS, nonce: str = ""
) -> list[CanaryItem]:
    """What the set of this key asks of a server whose prompt and answer may have `longest` tokens
    (None: not known). `letters` a token, as it counts. `nonce` begins prompts that a cache must not
    answer."""
    found: list[CanaryItem] = []
    for said in load_table()["items"]:
        if key in said:
            common = {name: value for name, value in said.items() if name not in load_sets()}
            found += _EXPANDERS[said["kind"]](common | said[key], key, longest, letters, nonce)
    return found


def _expand_one(
    said: Mapping[str, Any], _set: str, _longest: int | None, _letters: float, _nonce: str
) -> Iterator[CanaryItem]:
    extra: dict[str, Any] = {}
    if "schema" in said:
        form = {"name": "person", "schema": said["schema"], "strict": True}
        extra = {"response_format": {"type": "json_schema", "json_schema": form}}
    if "tool" in said:
        tool = {"type": "function", "function": said["tool"]}
        extra = {"tools": [tool], "tool_choice": "auto"}
    if said.get("streams"):
        extra |= {"stream": True, "stream_options": {"include_usage": True}}
    yield CanaryItem(
        key=said["key"] if "tokens" not in said or said["kind"] != "repetition"
        else f"{said['key']}-{said['tokens']}",
        kind=said["kind"], title=said["title"],
        turns=tuple(said["turns"]) if "turns" in said else (said["question"],),
        tokens=said["tokens"], system=said.get("system", ""), expected=said.get("expected"),
        script=said.get("script", ""), extra=extra,
    )  # fmt: skip


def _expand_needles(
    said: Mapping[str, Any], set_key: str, longest: int | None, letters: float, nonce: str
) -> Iterator[CanaryItem]:
    """Longer ones last. Those of a length that the server does not take are left out; "limit" is
    the longest one that it does."""
    most = load_sets()[set_key].most_prompt or float("inf")
    if longest is not None:
        most = min(most, int(_FITS * (longest - said["tokens"])) - _ROOM)
    lengths = [each for each in said["prompts"] if each != "limit" and each <= most]
    # Little more than the longest of the others tells nothing new.
    if "limit" in said["prompts"] and longest is not None and most > 1.2 * max(lengths, default=0):
        lengths.append(int(most))
    for length in lengths:
        for depth in said["depths"]:
            chance = random.Random(f"{length} {depth}")  # noqa: S311 - text, no secrets
            code = f"{chance.randrange(10**6):06}"
            text = _hide(said["needle"].format(code=code), length - _ROOM, depth, letters, chance)
            yield CanaryItem(
                key=f"needle-{length}-{round(100 * depth)}", kind="needle",
                title=f"{said['title']} at {round(100 * depth)} % of {_format_tokens(length)}",
                turns=(f"{nonce}{text}\n\n{said['question']}",), tokens=said["tokens"],
                prompt_tokens=length, expected=code, extra={},
            )  # fmt: skip


def _hide(needle: str, tokens: int, depth: float, letters: float, chance: random.Random) -> str:
    """The needle between two sentences of a piece of the book of so many tokens."""
    book, wanted = read_book(), max(1, round(tokens * letters))
    begin = chance.randrange(len(book))
    text = (book * (2 + wanted // len(book)))[begin : begin + wanted]
    place = text.find(". ", round(depth * len(text)))
    if place < 0:
        place = max(0, text.rfind(". "))
    return f"{text[: place + 1]} {needle} {text[place + 1 :]}"


def _format_tokens(count: int) -> str:
    return f"{count / 1000:.3g}k tokens"


def _expand_fingerprint(
    said: Mapping[str, Any], _set: str, _longest: int | None, _letters: float, _nonce: str
) -> Iterator[CanaryItem]:
    for number, question in enumerate(said["questions"], start=1):
        yield CanaryItem(
            key=f"fingerprint-{number}", kind="fingerprint", title=question, turns=(question,),
            tokens=said["tokens"], extra={}, top=TOP, repeats=said["repeats"],
        )  # fmt: skip


def _expand_arithmetic(
    said: Mapping[str, Any], _set: str, _longest: int | None, _letters: float, _nonce: str
) -> Iterator[CanaryItem]:
    chance = random.Random(said["seed"])  # noqa: S311 - the same ones each time
    for number in range(1, said["count"] + 1):
        question, answer = _write_problem(chance)
        yield CanaryItem(
            key=f"arithmetic-{number}", kind="arithmetic", title=question,
            turns=(f"{question} {_NUMBER_ALONE}",), tokens=said["tokens"],
            expected=str(answer), extra={},
        )  # fmt: skip


def _write_problem(chance: random.Random) -> tuple[str, int]:
    """Small enough that a model of some billion parameters does most of them in its head."""
    one, two, less = chance.randint(3, 12), chance.randint(11, 29), chance.randint(5, 30)
    match chance.randrange(4):
        case 0:
            text = (
                f"A shop has {one} crates with {two} apples each. {less} apples are sold. "
                "How many are left?"
            )
            return text, one * two - less
        case 1:
            return f"What is {10 * two + one} + {10 * less + one}?", 10 * (two + less) + 2 * one
        case 2:
            text = (
                f"A train has {one} cars with {two} seats each, and {less} more people stand. "
                "How many people are in it, if every seat is taken?"
            )
            return text, one * two + less
        case _:
            text = (
                f"Ana has {one * two} marbles and shares them equally among {one} children. "
                "How many does each child get?"
            )
            return text, two


_EXPANDERS = {
    "needle": _expand_needles,
    "fingerprint": _expand_fingerprint,
    "arithmetic": _expand_arithmetic,
    **dict.fromkeys(("language", "schema", "tool", "turns", "repetition"), _expand_one),
}
