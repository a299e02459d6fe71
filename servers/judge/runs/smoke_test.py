"""The smoke test: whether the first answer is language, and fast enough.

Precision counts: a healthy model that is called ill is worse than an ill one that is not
noticed. The faults are those that guides and issues report of broken kernels and quantisation:
nothing but "!", one token over and over, an end after one token, letters of many alphabets, and
a tenth of the speed.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Self

from servers.host.runs.questions import CompletionResult
from servers.judge.messages import Sentence, say

# Long enough that its speed can be measured, and everyday, so that any model can answer it.
QUESTION = "Explain in three sentences why the sky is blue."

# Less than this share of what is expected, or of the last time, is slow.
SLOW = 0.5
# Characters, or words, that tell language from noise.
ENOUGH, ENOUGH_WORDS = 16, 8
MOST_ALPHABETS = 3
LETTERS = 0.15  # of all characters but blanks, in language
REPEATED = 0.9  # of a text that only repeats itself
LONGEST_PERIOD = 12  # characters
LONGEST_ERROR = 200  # characters on a card
WORDS_IN_A_ROW, LETTERS_IN_A_ROW = 10, 20
LOST = 0.1  # of the characters, which could not be decoded

_FIGURE = re.compile(r"\s*(?:about|around|~|≈|≥|>=?)?\s*(\d{1,5}(?:\.\d{1,3})?)")
_RATE = re.compile(
    r"(?:(?:output|decode|generated)\s+)?(?:tokens (?:per|a) second|tok/s|tokens/s|t/s)"
)
# Figures of many requests at once, or of another task.
_OTHER = re.compile(
    r"concurr|batch|total|aggregate|throughput|parallel|requests|users|streams|clients|prompt|prefill"
    r"|input|peak|up to|at best"
)


@dataclass(frozen=True, kw_only=True)
class FirstAnswer:
    """What is kept on a run. `before` is the last good run's rate; None: there was none."""

    answer: CompletionResult
    before: float | None = None
    remarks: tuple[str, ...] = ()
    is_faulty: bool = False  # it did not work, rather than slowly
    codes: tuple[str, ...] = ()  # of the messages of `remarks`

    @classmethod
    def judge(
        cls,
        answer: CompletionResult,
        expected: Mapping[str, str],
        *,
        before: float | None,
        alone: bool,
        lacks_gpus: bool = False,
    ) -> Self:
        """`alone`: it had nothing else to do meanwhile, so that its speed can be compared.

        `lacks_gpus`: it wants GPUs, and its log says that it computes without.
        """
        found = [say("runs.answer-no-gpu")] if lacks_gpus else _faults(answer)
        is_faulty = bool(found)
        if alone and not found and (slow := slowness(answer.rate, expected, before)):
            found.append(slow)
        return cls(
            answer=answer,
            before=before,
            remarks=tuple(each.text for each in found),
            is_faulty=is_faulty,
            codes=tuple(each.code for each in found),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self.answer) | {
            "before": self.before,
            "remarks": list(self.remarks),
            "is_faulty": self.is_faulty,
            "codes": list(self.codes),
        }


def expects(expected: Mapping[str, str]) -> tuple[float, str] | None:
    """The least tokens a second that a profile expects of one request, and its own words.

    None where it says nothing, or nothing that one request can be compared with.
    """
    for name, text in expected.items():
        said = f"{name} {text}".lower()
        figure = _FIGURE.match(text)
        if _RATE.fullmatch(name.lower().strip()) and figure and not _OTHER.search(said):
            return float(figure[1]), text
    return None


def _faults(answer: CompletionResult) -> list[Sentence]:
    """The first one that holds; phrases that go on after "ready, but "."""
    if answer.status is not None and 400 <= answer.status < 500:
        return []  # base models have no chat template, and other engines no chats
    if answer.error:
        return [say("runs.answer-failed", error=answer.error[:LONGEST_ERROR].rstrip("."))]
    text = answer.text
    if not text and answer.tokens <= 1:
        return [say("runs.answer-none")]
    if not text:
        return [say("runs.answer-empty", tokens=answer.tokens)]
    if answer.tokens == 1 and answer.finish == "stop":
        return [say("runs.answer-one-token")]
    fault = noise(text)
    return [fault] if fault else []


def noise(text: str) -> Sentence | None:
    """What makes a first answer no language; None where it may be one."""
    solid = "".join(text.split())
    if len(solid) < ENOUGH:
        return None
    if repeated := _repeats(text):
        return say("runs.answer-repeats", text=repeated)
    if stuck := _find_repetition(text):
        return say("runs.answer-stuck", text=stuck)
    lost = sum(each == "\ufffd" or not (each.isprintable() or each.isspace()) for each in text)
    if lost >= LOST * len(solid):
        return say("runs.answer-not-decoded")
    letters = sum(each.isalpha() for each in solid)
    if letters < LETTERS * len(solid):
        return say("runs.answer-no-letters")
    if len(_alphabets(solid)) > MOST_ALPHABETS:
        return say("runs.answer-many-alphabets")
    return None


def _repeats(text: str) -> str:
    """What a text repeats from its beginning to its end, or nearly; "" where it does not."""
    words = text.split()
    if len(words) >= ENOUGH_WORDS:
        most = max(set(words), key=words.count)
        if words.count(most) >= REPEATED * len(words):
            return most[:LONGEST_PERIOD]
    text, middle = text.strip(), len(text) // 3
    for period in range(1, LONGEST_PERIOD + 1):
        pairs = zip(text, text[period:], strict=False)
        same = sum(one == other for one, other in pairs)
        if same >= REPEATED * max(1, len(text) - period) and len(text) >= 6 * period:
            return text[middle : middle + period].strip()
    return ""


def _find_repetition(text: str) -> str:
    """A word, or a letter, that comes so often in a row that nobody means it; "" for none."""
    for word, run in groupby(text.split()):
        if any(map(str.isalnum, word)) and len(list(run)) >= WORDS_IN_A_ROW:
            return word[:LONGEST_PERIOD]
    for letter, run in groupby(text):
        if (letter.isalnum() or letter == "!") and len(list(run)) >= LETTERS_IN_A_ROW:
            return letter
    return ""


def _alphabets(text: str) -> set[str]:
    """Names of the scripts of a text's letters, with at least two letters of each.

    Chinese, Japanese and Korean texts mix theirs: they are one.
    """
    counts: dict[str, int] = {}
    for each in text:
        if each.isalpha():
            script = unicodedata.name(each, "?").split(" ")[0].split("-")[0]
            if script in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH", "BOPOMOFO"):
                script = "CJK"
            counts[script] = counts.get(script, 0) + 1
    # MODIFIER LETTER, MATHEMATICAL ITALIC …: signs, not alphabets.
    signs = {"MODIFIER", "MATHEMATICAL", "FEMININE", "MASCULINE", "MICRO", "SUPERSCRIPT", "DOUBLE"}
    return {script for script, count in counts.items() if count > 1 and script not in signs}


def slowness(
    rate: float | None, expected: Mapping[str, str], before: float | None
) -> Sentence | None:
    """What is too slow about so many tokens a second, with the measure; None where nothing is."""
    if rate is None:
        return None
    said = f"{rate:.3g}"
    if least := expects(expected):
        figure, words = least
        if rate >= SLOW * figure:
            return None
        return say("runs.answer-slower-than-expected", rate=said, expected=words[:60])
    if before is not None and rate < SLOW * before:
        return say("runs.answer-slower-than-before", rate=said, before=f"{before:.3g}")
    return None
