"""GPUs by what they are: "4x RTX PRO 6000" or "1x sm_103", against the cards of a box."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_TEXT = re.compile(r"\s*([1-9][0-9]{0,3})\s*[x×]\s*(\S.*?)\s*", re.IGNORECASE)
_CAPABILITY = re.compile(r"sm_([0-9]{1,2})([0-9])[a-z]?", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")

# A GPU's name as NVML says it, and its compute capability such as "12.0"; "" where unknown.
type Gpu = tuple[str, str]


class CardsError(ValueError):
    """A box has fewer of the wanted cards than it takes; the text says how many."""


@dataclass(frozen=True, kw_only=True)
class GpuRequirement:
    count: int
    name: str  # part of NVML's name, or sm_120

    def fits(self, gpu: Gpu) -> bool:
        """Whether this is such a GPU: the name's words follow each other in NVML's."""
        name, capability = gpu
        if wanted := _CAPABILITY.fullmatch(self.name):
            return capability == f"{wanted[1]}.{wanted[2]}"
        words, has = _WORD.findall(self.name.lower()), _WORD.findall(name.lower())
        last = len(has) - len(words)
        return bool(words) and any(has[at:][: len(words)] == words for at in range(last + 1))

    def __str__(self) -> str:
        return f"{self.count}x {self.name}"


def parse(text: str) -> GpuRequirement | None:
    """None for a text that does not follow the grammar, such as an empty one or "0,1"."""
    match = _TEXT.fullmatch(text)
    return GpuRequirement(count=int(match[1]), name=match[2]) if match else None


def choose(
    wanted: GpuRequirement, cards: Sequence[tuple[int, Gpu]], *, busy: Collection[int] = ()
) -> tuple[int, ...]:
    """The indices of such cards, those that nothing of ours uses before `busy` ones.

    `cards` are a box's indices and GPUs. Raises CardsError when there are too few.
    """
    fitting = [index for index, gpu in cards if wanted.fits(gpu)]
    if len(fitting) < wanted.count:
        has = str(len(fitting)) if fitting else describe([gpu for _index, gpu in cards])
        raise CardsError(
            f"The profile wants {wanted}; this box has {has}. Change the profile's GPUs, or "
            "start it on another box."
        )
    first = sorted(fitting, key=lambda index: (index in busy, index))[: wanted.count]
    return tuple(sorted(first))


def describe(gpus: Sequence[Gpu]) -> str:
    """What there is, for people: "2x RTX PRO 6000, 1x GB300"."""
    if not gpus:
        return "no GPU"
    counted = Counter(name.removeprefix("NVIDIA ") or "unnamed GPU" for name, _capability in gpus)
    return ", ".join(f"{count}x {name}" for name, count in counted.items())
