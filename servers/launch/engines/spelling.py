"""Misspellings of flags, values and variables: which name was meant, or that none is alike.

Two names are alike where they have the same words, each spelled right or with a slip. A word that
the engine's own names use is no slip for another one: `--enable-x` is not `--disable-x`, and a
number of tokens is not one of sequences.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

_WORDS = re.compile(r"[^-_. ]+")
_DIGITS = re.compile(r"\d+")
# Of words that are no longer, a letter that is another one makes another word: null, full.
SHORT = 4
# Letters by which names that are alike differ in length at most: quant, quantization.
MOST_APART = 8
# Words that may be too many or too few: they say of a flag that it is one.
_FILLERS = frozenset({"enable", "use"})
# Pairs that mean the same, however they are spelled.
_SAME = (
    {"len", "length"},
    {"utilization", "utilisation", "util"},
    {"bf16", "bfloat16"},
    {"fp16", "float16"},
    {"fp32", "float32"},
    {"quant", "quantization", "quantisation"},
    {"params", "parameters"},
    {"max", "maximum"},
    {"seqs", "sequences"},
    {"attn", "attention"},
    {"gpu", "gpus"},
    {"parallel", "parallelism"},
    {"memory", "mem"},
    {"cache", "caching"},
    {"batch", "batched"},
    {"chunk", "chunked"},
    {"schedule", "scheduling"},
    {"number", "num"},
    {"type", "dtype"},
)


def find_meant(
    typed: str, names: Iterable[str], *, vocabulary: Collection[str] = ()
) -> tuple[str, ...]:
    """The names that a word may have been meant to be, the likeliest first; several as alike as
    each other are all given, and () means that none is alike.

    `vocabulary` holds the words of the names that the engine has, lower case.
    """
    mine = split_words(typed)
    scored = [
        (score, name)
        for name in names
        if (score := _score(mine, split_words(name), vocabulary)) is not None
    ]
    best = min((score for score, _ in scored), default=None)
    return tuple(dict.fromkeys(name for score, name in scored if score == best))


@lru_cache(maxsize=2**13)
def split_words(name: str) -> tuple[str, ...]:
    """The words of a name, lower case, without what stands between them."""
    return tuple(_WORDS.findall(name.casefold()))


def list_vocabulary(names: Iterable[str]) -> frozenset[str]:
    """Every word that stands in one of these names."""
    return frozenset(word for name in names for word in split_words(name))


def _score(mine: Sequence[str], theirs: Sequence[str], vocabulary: Collection[str]) -> int | None:
    """How many slips lie between two names; None where they are not alike."""
    if not mine or not theirs:
        return None
    if "".join(mine) == "".join(theirs):
        return 0
    if len(mine) != len(theirs):
        shorter, longer = sorted((mine, theirs), key=len)
        rest = [word for word in longer if word not in _FILLERS]
        is_filled = len(rest) < len(longer) and rest == [w for w in shorter if w not in _FILLERS]
        return 1 if is_filled else None
    slips = 0
    if abs(sum(map(len, mine)) - sum(map(len, theirs))) > MOST_APART:
        return None
    for one, other in zip(mine, theirs, strict=True):
        if one == other:
            continue
        if f"{one}s" == other or f"{other}s" == one or any({one, other} <= each for each in _SAME):
            slips += 1
            continue
        if one in vocabulary or (distance := _count_slips(one, other)) is None:
            return None
        slips += distance
    # Of a short name one slip is much.
    return slips if slips <= max(1, sum(map(len, theirs)) // 6) else None


def _count_slips(one: str, other: str) -> int | None:
    """Letters that were left out, added, exchanged or taken for others; None: another word."""
    if _DIGITS.findall(one) != _DIGITS.findall(other):
        return None
    most = 1 if min(len(one), len(other)) <= SHORT + 2 else 2
    if abs(len(one) - len(other)) > most:
        return None
    is_short = min(len(one), len(other)) <= SHORT
    if is_short and len(one) == len(other) and sorted(one) != sorted(other):
        return None
    if min(len(one), len(other)) < SHORT - 1:
        return None
    distance = count_changes(one, other)
    return distance if distance <= most else None


def count_changes(one: str, other: str) -> int:
    """Damerau and Levenshtein's distance: two letters that changed places count once."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        older, before, row = before, row, [i] + [0] * len(other)
        for j, theirs in enumerate(other, start=1):
            cost = 0 if letter == theirs else 1
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + cost)
            is_swapped = i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == theirs
            if is_swapped:
                row[j] = min(row[j], older[j - 2] + 1)
    return row[-1]
